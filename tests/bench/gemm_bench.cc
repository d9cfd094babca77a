// Speed of the CPU's matrix products, for each tensor type and SIMD target.
//
//   gemm_bench [--benchmark_filter=Decode/Q4_1]
//
// Decode is one row against matrices that together exceed the caches, as in one
// step of a model: bytes_per_second counts packed weights. Prefill is 128 rows
// against one layer of SmolLM2-135M: items_per_second counts operations, two
// for a multiply-add. Threads: as many as the process may use.

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "benchmark/benchmark.h"

#include "cache/base/check.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/gemm_cpu.h"
#include "engine/backend/cpu/gemm_kernels.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/backend/tensor.h"

namespace kvasir {
namespace {

struct Shape {
  int64_t rows;
  int64_t columns;
};

// The products of one layer of SmolLM2-135M (of Llama-3.2-1B for the K types,
// whose blocks of 256 do not divide 576), grouped as they share an input.
std::vector<std::vector<Shape>> LayerShapes(DType type) {
  if (DTypeBlockElements(type) == 256) {
    return {{{2048, 2048}, {512, 2048}, {512, 2048}},
            {{2048, 2048}},
            {{8192, 2048}, {8192, 2048}},
            {{2048, 8192}}};
  }
  return {{{576, 576}, {192, 576}, {192, 576}},
          {{576, 576}},
          {{1536, 576}, {1536, 576}},
          {{576, 1536}}};
}

// One layer's weights, or several layers' for decode.
class Layers {
 public:
  Layers(const CpuGemm& gemm, DType type, int64_t min_bytes, int64_t rows)
      : rows_(rows) {
    do {
      for (const std::vector<Shape>& shapes : LayerShapes(type)) {
        groups_.emplace_back();
        for (const Shape& shape : shapes) AddWeight(gemm, type, shape);
      }
    } while (bytes_ < min_bytes);
    input_.assign(rows_ * largest_, 0.5f);
    output_.assign(rows_ * largest_ * 2, 0.0f);
    for (size_t i = 0; i < input_.size(); ++i) {
      input_[i] = static_cast<float>(i * 37 % 101) / 50 - 1;
    }
  }

  void Run(CpuGemm& gemm) {
    for (const auto& group : groups_) {
      std::vector<LinearOutput> outputs;
      int64_t column = 0;
      for (const auto& weight : group) {
        outputs.push_back(
            {weight.get(),
             {},
             {output_.data() + column, rows_, weight->rows(), 2 * largest_},
             false});
        column += weight->rows();
      }
      const int64_t columns = group[0]->columns();
      gemm.Linear({input_.data(), rows_, columns, columns}, outputs);
    }
  }

  int64_t bytes() const { return bytes_; }
  int64_t operations() const { return 2 * rows_ * weights_; }

 private:
  void AddWeight(const CpuGemm& gemm, DType type, const Shape& shape) {
    std::vector<uint8_t> bytes(
        shape.rows * HostMatrix{type, 1, shape.columns, nullptr}.RowBytes());
    // Small levels and positive, finite scales and numbers in every type.
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = 0x11;
    auto weight = gemm.Pack({type, shape.rows, shape.columns, bytes.data()});
    KV_CHECK(weight.ok()) << weight.status().ToString();
    bytes_ += (*weight)->memory_bytes();
    weights_ += shape.rows * shape.columns;
    largest_ = std::max({largest_, shape.rows, shape.columns});
    groups_.back().push_back(*std::move(weight));
  }

  int64_t rows_;
  int64_t bytes_ = 0;
  int64_t weights_ = 0;
  int64_t largest_ = 0;
  std::vector<std::vector<std::unique_ptr<Weight>>> groups_;
  std::vector<float> input_;
  std::vector<float> output_;
};

constexpr int64_t kPrefillRows = 128;
constexpr int64_t kDecodeBytes = 200 << 20;  // well beyond any L3 cache

void Decode(benchmark::State& state, DType type, const GemmKernels& kernels) {
  ThreadPool pool(UsableThreadCount());
  CpuGemm gemm(&pool, ActivationType::kQ8, kernels);
  Layers layers(gemm, type, kDecodeBytes, state.range(0));
  for (auto _ : state) layers.Run(gemm);
  state.SetBytesProcessed(state.iterations() * layers.bytes());
}

void Prefill(benchmark::State& state, DType type, const GemmKernels& kernels) {
  ThreadPool pool(UsableThreadCount());
  CpuGemm gemm(&pool, ActivationType::kQ8, kernels);
  Layers layers(gemm, type, 0, state.range(0));
  for (auto _ : state) layers.Run(gemm);
  state.SetItemsProcessed(state.iterations() * layers.operations());
}

void RegisterAll() {
  for (int number = 0; number < kDTypeCount; ++number) {
    const DType type = static_cast<DType>(number);
    for (const GemmKernels* kernels : UsableGemmKernels()) {
      const std::string name =
          std::string(DTypeName(type)) + "/" + kernels->name + "/rows";
      benchmark::RegisterBenchmark(("Decode/" + name).c_str(), Decode, type,
                                   *kernels)
          ->Arg(1)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
      benchmark::RegisterBenchmark(("Prefill/" + name).c_str(), Prefill, type,
                                   *kernels)
          ->Arg(kPrefillRows)
          ->UseRealTime()
          ->Unit(benchmark::kMillisecond);
    }
  }
}

}  // namespace
}  // namespace kvasir

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  kvasir::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

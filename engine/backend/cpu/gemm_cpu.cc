#include "engine/backend/cpu/gemm_cpu.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "engine/backend/cpu/gemm_kernels.h"
#include "engine/backend/cpu/packed_weight.h"
#include "engine/backend/cpu/quant_formats.h"

namespace kvasir {
namespace {

// Rows of a piece when activations are quantized: so few rows take less time
// than a fork-join.
constexpr int64_t kRowsQuantizedAlone = 2;

// Rows from which a worker takes single groups: a group then is work enough,
// and its weights stay in the first-level cache while the rows pass.
constexpr int64_t kRowsOfSingleGroups = 4;

// Hands out [0, count) in contiguous pieces that get smaller towards the end,
// so that the workers end together and the first pieces are long streams of
// memory. Any thread.
class Pieces {
 public:
  Pieces(int64_t count, int64_t grain, int32_t workers)
      : count_(count), grain_(grain), divisor_(2 * workers) {}

  // The next piece [begin, end), empty when nothing is left.
  std::pair<int64_t, int64_t> Next() {
    int64_t begin = next_.load(std::memory_order_relaxed);
    while (begin < count_) {
      const int64_t share = (count_ - begin) / divisor_ / grain_ * grain_;
      const int64_t end = std::min(begin + std::max(share, grain_), count_);
      if (next_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) {
        return {begin, end};
      }
    }
    return {count_, count_};
  }

 private:
  std::atomic<int64_t> next_{0};
  const int64_t count_;
  const int64_t grain_;
  const int64_t divisor_;
};

const PackedWeight& Packed(const Weight& weight) {
  KV_DCHECK(dynamic_cast<const PackedWeight*>(&weight) != nullptr);
  return static_cast<const PackedWeight&>(weight);
}

// Adds a tile's products to the output: rows [first_row, first_row + rows),
// outputs from `first_output` on, as many as there are of the tile's.
void StoreTile(const float* result, int64_t first_row, int64_t rows,
               int64_t first_output, int64_t outputs, const LinearOutput& to) {
  const float* bias = to.bias.empty() ? nullptr : to.bias.data() + first_output;
  for (int64_t r = 0; r < rows; ++r) {
    const float* from = result + r * kTileOutputs;
    float* out = to.out.Row(first_row + r) + first_output;
    for (int64_t i = 0; i < outputs; ++i) {
      float value = from[i];
      if (bias != nullptr) value += bias[i];
      out[i] = to.accumulate ? out[i] + value : value;
    }
  }
}

}  // namespace

struct CpuGemm::Impl {
  // One call of Linear(), shared by its workers.
  struct Job {
    Activations in;
    absl::Span<const LinearOutput> outputs;
    int64_t tile_groups = 1;
  };

  Impl(ThreadPool* pool, ActivationType activations, const GemmKernels& kernels)
      : pool(*pool),
        activations(activations),
        kernels(kernels),
        panels(pool->thread_count()) {}

  bool UsesQ8(const PackedWeight& weight) const {
    return activations == ActivationType::kQ8 &&
           kernels.multiply_q8[static_cast<int>(weight.type())] != nullptr;
  }
  bool UsesPanel(const PackedWeight& weight) const {
    return !UsesQ8(weight) &&
           kernels.multiply_f32[static_cast<int>(weight.type())] == nullptr;
  }

  // Blocks of the tile that begins with row `row`; a tile of n rows has a
  // stride of n.
  Q8Block* Quantized(int64_t row, int64_t blocks) {
    return quantized.data() + row * blocks;
  }
  // The same of what quantization left over, for fine activations.
  Q8Block* Residual(int64_t row, int64_t blocks) {
    return residual.data() + row * blocks;
  }

  void Quantize(const Activations& in, bool fine, int64_t first_row,
                int64_t end_row);
  void QuantizeResidual(const float* row, int64_t blocks, const Q8Block* coarse,
                        Q8Block* out, int64_t stride) const;
  void Multiply(const Job& job, const LinearOutput& output, int64_t first_group,
                int64_t group_count, int32_t worker);
  void MultiplyRange(const Job& job, int64_t begin, int64_t end,
                     int32_t worker);

  ThreadPool& pool;
  const ActivationType activations;
  const GemmKernels& kernels;
  std::vector<Q8Block> quantized;
  std::vector<Q8Block> residual;
  // A worker's group, unpacked to f32 for products with f32 activations.
  std::vector<std::vector<float>> panels;
};

// Rows are laid out tile by tile of kTileRows from row 0 on.
void CpuGemm::Impl::Quantize(const Activations& in, bool fine,
                             int64_t first_row, int64_t end_row) {
  const int64_t blocks = in.columns / kBlockWeights;
  for (int64_t row = first_row; row < end_row; ++row) {
    const int64_t tile = row / kTileRows * kTileRows;
    const int64_t stride = std::min<int64_t>(kTileRows, in.rows - tile);
    Q8Block* const coarse = Quantized(tile, blocks) + (row - tile);
    kernels.quantize_row(in.Row(row), blocks, coarse, stride);
    if (!fine) continue;
    QuantizeResidual(in.Row(row), blocks, coarse,
                     Residual(tile, blocks) + (row - tile), stride);
  }
}

// What the quantization of a row lost, quantized in turn.
void CpuGemm::Impl::QuantizeResidual(const float* row, int64_t blocks,
                                     const Q8Block* coarse, Q8Block* out,
                                     int64_t stride) const {
  for (int64_t b = 0; b < blocks; ++b, row += kBlockWeights) {
    const Q8Block& block = coarse[b * stride];
    float lost[kBlockWeights];
    for (int i = 0; i < kBlockWeights; ++i) {
      lost[i] = row[i] - block.scale * static_cast<float>(block.level[i]);
    }
    kernels.quantize_row(lost, 1, out + b * stride, stride);
  }
}

void CpuGemm::Impl::Multiply(const Job& job, const LinearOutput& output,
                             int64_t first_group, int64_t group_count,
                             int32_t worker) {
  const PackedWeight& weight = Packed(*output.weight);
  const int type = static_cast<int>(weight.type());
  PackedGroups groups = weight.Groups(first_group, group_count);
  auto multiply_f32 = kernels.multiply_f32[type];
  if (UsesPanel(weight)) {
    std::vector<float>& panel = panels[worker];
    kernels.unpack[type](groups, panel.data());
    groups = {reinterpret_cast<const uint8_t*>(panel.data()), weight.columns(),
              0, 0, 1};
    multiply_f32 = kernels.multiply_f32[static_cast<int>(DType::kF32)];
  }
  const int64_t first_output = first_group * kGroupRows;
  const int64_t outputs =
      std::min(group_count * kGroupRows, weight.rows() - first_output);
  alignas(64) float result[kTileRows * kTileOutputs];
  for (int64_t row = 0; row < job.in.rows; row += kTileRows) {
    const int64_t rows = std::min<int64_t>(kTileRows, job.in.rows - row);
    if (UsesQ8(weight)) {
      kernels.multiply_q8[type](
          groups, Quantized(row, weight.columns() / kBlockWeights), rows, rows,
          result);
      if (output.fine_activations) {
        alignas(64) float fine[kTileRows * kTileOutputs] = {};
        kernels.multiply_q8[type](
            groups, Residual(row, weight.columns() / kBlockWeights), rows, rows,
            fine);
        for (int64_t i = 0; i < rows * kTileOutputs; ++i) result[i] += fine[i];
      }
    } else {
      multiply_f32(groups, job.in.Rows(row, rows), result);
    }
    StoreTile(result, row, rows, first_output, outputs, output);
  }
}

// Groups [begin, end) in the row of all outputs' groups.
void CpuGemm::Impl::MultiplyRange(const Job& job, int64_t begin, int64_t end,
                                  int32_t worker) {
  int64_t first = 0;  // group of the output at hand
  for (const LinearOutput& output : job.outputs) {
    const PackedWeight& weight = Packed(*output.weight);
    const int64_t tile = UsesPanel(weight) ? 1 : job.tile_groups;
    const int64_t stop = std::min(end - first, weight.group_count());
    for (int64_t g = std::max<int64_t>(begin - first, 0); g < stop; g += tile) {
      Multiply(job, output, g, std::min(tile, stop - g), worker);
    }
    first += weight.group_count();
  }
}

CpuGemm::CpuGemm(ThreadPool* pool, ActivationType activations,
                 bool force_scalar)
    : CpuGemm(
          pool, activations,
          force_scalar ? ScalarGemmKernels() : *UsableGemmKernels().front()) {}

CpuGemm::CpuGemm(ThreadPool* pool, ActivationType activations,
                 const GemmKernels& kernels)
    : impl_(std::make_unique<Impl>(pool, activations, kernels)) {}

CpuGemm::~CpuGemm() = default;

const char* CpuGemm::target() const { return impl_->kernels.name; }

absl::StatusOr<std::unique_ptr<Weight>> CpuGemm::Pack(
    const HostMatrix& matrix) const {
  ASSIGN_OR_RETURN(std::unique_ptr<PackedWeight> weight,
                   PackedWeight::Pack(matrix));
  return std::unique_ptr<Weight>(std::move(weight));
}

void CpuGemm::Linear(Activations in, absl::Span<const LinearOutput> outputs) {
  if (in.rows == 0) return;
  int64_t group_count = 0;
  bool quantize = false;
  bool fine = false;
  for (const LinearOutput& output : outputs) {
    const PackedWeight& weight = Packed(*output.weight);
    KV_CHECK(weight.columns() == in.columns && output.out.rows == in.rows &&
             output.out.columns == weight.rows())
        << weight.rows() << " x " << weight.columns() << " with " << in.columns
        << " inputs, " << output.out.columns << " outputs";
    KV_CHECK(output.bias.empty() ||
             static_cast<int64_t>(output.bias.size()) == weight.rows());
    group_count += weight.group_count();
    quantize |= impl_->UsesQ8(weight);
    fine |= impl_->UsesQ8(weight) && output.fine_activations;
    if (impl_->UsesPanel(weight)) {
      const size_t floats = static_cast<size_t>(in.columns * kGroupRows);
      for (std::vector<float>& panel : impl_->panels) {
        if (panel.size() < floats) panel.resize(floats);
      }
    }
  }
  if (quantize) {
    const size_t blocks =
        static_cast<size_t>(in.rows * in.columns / kBlockWeights);
    for (auto* rows : {&impl_->quantized, fine ? &impl_->residual : nullptr}) {
      if (rows != nullptr && rows->size() < blocks) rows->resize(blocks);
    }
  }
  if (quantize) {
    impl_->pool.ParallelFor(in.rows, kRowsQuantizedAlone,
                            [&](int64_t begin, int64_t end) {
                              impl_->Quantize(in, fine, begin, end);
                            });
  }

  const Impl::Job job{in, outputs,
                      in.rows >= kRowsOfSingleGroups ? 1 : kTileGroups};
  Pieces pieces(group_count, job.tile_groups, impl_->pool.thread_count());
  impl_->pool.Run([&](int32_t worker) {
    while (true) {
      const auto [begin, end] = pieces.Next();
      if (begin == end) return;
      impl_->MultiplyRange(job, begin, end, worker);
    }
  });
}

void CpuGemm::Embed(const Weight& table, absl::Span<const TokenId> ids,
                    float scale, Activations out) const {
  const PackedWeight& weight = Packed(table);
  KV_CHECK(out.columns == weight.columns() &&
           out.rows == static_cast<int64_t>(ids.size()));
  for (size_t i = 0; i < ids.size(); ++i) {
    weight.UnpackRow(
        ids[i], scale,
        absl::MakeSpan(out.Row(static_cast<int64_t>(i)), out.columns));
  }
}

}  // namespace kvasir

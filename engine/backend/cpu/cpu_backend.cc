#include "engine/backend/cpu/cpu_backend.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "cache/base/check.h"
#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/aligned_buffer.h"
#include "engine/backend/cpu/attention_cpu.h"
#include "engine/backend/cpu/elementwise_cpu.h"
#include "engine/backend/cpu/gemm_cpu.h"
#include "engine/backend/cpu/rope_cpu.h"
#include "engine/backend/cpu/simd_target.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/backend/tensor.h"

namespace kvasir {
namespace {

// Grows with every change to a kernel that may change a bit of its results.
constexpr int kNumericsRevision = 1;

class HostBuffer final : public DeviceBuffer {
 public:
  HostBuffer(AlignedArray<std::byte> memory, int64_t bytes)
      : memory_(std::move(memory)), bytes_(bytes) {}

  std::byte* data() const override { return memory_.get(); }
  int64_t bytes() const override { return bytes_; }

 private:
  const AlignedArray<std::byte> memory_;
  const int64_t bytes_;
};

class CpuBackend final : public Backend {
 public:
  CpuBackend(int32_t thread_count, ActivationType activations,
             bool force_scalar)
      : target_(force_scalar ? PortableSimdTarget() : BestSimdTarget()),
        activations_(activations),
        pool_(thread_count),
        gemm_(&pool_, activations, force_scalar),
        elementwise_(&pool_, target_),
        rope_(&pool_, target_),
        attention_(&pool_, target_) {}

  std::string_view name() const override { return "cpu"; }

  // "cpu/1/AVX2/q8"; "cpu/1/AVX3+AVX512-VNNI/q8" where the products have a
  // target of their own.
  std::string numerics() const override {
    std::string target = SimdTargetName(target_);
    if (target != gemm_.target()) absl::StrAppend(&target, "+", gemm_.target());
    return absl::StrCat("cpu/", kNumericsRevision, "/", target, "/",
                        activations_ == ActivationType::kQ8 ? "q8" : "f32");
  }

  absl::StatusOr<std::unique_ptr<Weight>> LoadWeight(
      const HostMatrix& matrix) override {
    return gemm_.Pack(matrix);
  }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) override {
    KV_CHECK(bytes >= 0) << "wanted a number of bytes, found " << bytes;
    AlignedArray<std::byte> memory = AllocateAligned<std::byte>(bytes);
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("wanted ", bytes, " bytes of host memory, found none"));
    }
    return std::make_unique<HostBuffer>(std::move(memory), bytes);
  }

  void EmbedKernel(const Weight& table, absl::Span<const TokenId> ids,
                   float scale, Activations out) override {
    gemm_.Embed(table, ids, scale, out);
  }
  void RmsNormKernel(Activations in, absl::Span<const float> gain,
                     float epsilon, Activations out) override {
    elementwise_.RmsNorm(in, gain, epsilon, out);
  }
  void LinearKernel(Activations in,
                    absl::Span<const LinearOutput> outputs) override {
    gemm_.Linear(in, outputs);
  }
  void RopeAndStoreKernel(const RopeSpec& rope, const KvLayout& layout,
                          int32_t layer,
                          absl::Span<const SequenceRows> sequences,
                          Activations query, Activations key,
                          Activations value) override {
    rope_.RopeAndStore(rope, layout, layer, sequences, query, key, value);
  }
  void PagedAttentionKernel(const KvLayout& layout, int32_t layer, float scale,
                            absl::Span<const SequenceRows> sequences,
                            Activations query, Activations out) override {
    attention_.PagedAttention(layout, layer, scale, sequences, query, out);
  }
  void GatedActivationKernel(GateFunction function, Activations gate,
                             Activations up, Activations out) override {
    elementwise_.GatedActivation(function, gate, up, out);
  }
  void AddKernel(Activations in, Activations inout) override {
    elementwise_.Add(in, inout);
  }

 private:
  const SimdTarget target_;
  const ActivationType activations_;
  ThreadPool pool_;
  CpuGemm gemm_;
  ElementwiseCpu elementwise_;
  RopeCpu rope_;
  AttentionCpu attention_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(
    const CpuBackendOptions& options) {
  if (options.thread_count < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("thread_count: wanted 0 (all usable) or more, found ",
                     options.thread_count));
  }
  const int32_t threads =
      options.thread_count == 0 ? UsableThreadCount() : options.thread_count;
  return std::make_unique<CpuBackend>(threads, options.activations,
                                      options.force_scalar);
}

}  // namespace kvasir

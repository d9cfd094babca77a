#ifndef KVASIR_ENGINE_BACKEND_CPU_GEMM_CPU_H_
#define KVASIR_ENGINE_BACKEND_CPU_GEMM_CPU_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/backend/backend.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/backend/cpu/thread_pool.h"

namespace kvasir {

struct GemmKernels;

// Products with weights that stay quantized in memory, repacked at load so that
// the lanes of an accumulator are outputs (several weight rows interleaved).
//
// Contract C2: an output is computed by the same sequence of roundings whether
// its row comes alone or in a tile of many, and whichever thread computes it:
// the sum over inputs runs in block order inside one accumulator chain and is
// never split. The SIMD targets agree bit for bit as well (gemm_kernels.h).
//
// Owned by the backend; one thread at a time. Scratch memory grows to the
// largest step seen and is reused.
class CpuGemm {
 public:
  // `pool` outlives this object. Takes the fastest kernels of this machine, or
  // the portable ones.
  CpuGemm(ThreadPool* pool, ActivationType activations, bool force_scalar);

  // With kernels of the caller's choice, one of UsableGemmKernels().
  CpuGemm(ThreadPool* pool, ActivationType activations,
          const GemmKernels& kernels);
  ~CpuGemm();

  // The SIMD target in use, for numerics() and logs: "AVX512-VNNI", "AVX2" or
  // "scalar".
  const char* target() const;

  // Copies a matrix, whose columns fill whole blocks of its type.
  // RESOURCE_EXHAUSTED without memory for the copy, UNIMPLEMENTED for a type
  // without kernels. The weights of one CpuGemm fit every other.
  absl::StatusOr<std::unique_ptr<Weight>> Pack(const HostMatrix& matrix) const;

  // out (+)= in * weight^T + bias of each output, in one fork-join. The bias is
  // added to the finished sum, then that to what `out` holds. For an output
  // with fine activations the sum is that of two products: with the quantized
  // activations and with what quantization lost of them, quantized in turn.
  void Linear(Activations in, absl::Span<const LinearOutput> outputs);

  // Row `ids[i]` of the table as f32 times `scale` into row i of `out`.
  void Embed(const Weight& table, absl::Span<const TokenId> ids, float scale,
             Activations out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_GEMM_CPU_H_

#ifndef KVASIR_ENGINE_BACKEND_CPU_GEMM_CPU_H_
#define KVASIR_ENGINE_BACKEND_CPU_GEMM_CPU_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/backend/backend.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/backend/cpu/thread_pool.h"

namespace kvasir {

// Products with weights that stay quantized in memory, repacked at load so that
// the lanes of an accumulator are outputs (several weight rows interleaved).
//
// Contract C2: an output is computed by the same sequence of roundings whether
// its row comes alone or in a tile of many, and whichever thread computes it:
// the sum over inputs runs in block order inside one accumulator chain and is
// never split.
class CpuGemm {
 public:
  // `pool` outlives this object.
  CpuGemm(ThreadPool* pool, ActivationType activations, bool force_scalar);
  ~CpuGemm();

  // The SIMD target in use, for numerics() and logs: "AVX2", "scalar".
  const char* target() const;

  absl::StatusOr<std::unique_ptr<Weight>> Pack(const HostMatrix& matrix) const;
  void Linear(Activations in, absl::Span<const LinearOutput> outputs);
  void Embed(const Weight& table, absl::Span<const TokenId> ids, float scale,
             Activations out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_GEMM_CPU_H_

#ifndef KVASIR_ENGINE_BACKEND_CPU_CPU_BACKEND_H_
#define KVASIR_ENGINE_BACKEND_CPU_CPU_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "engine/backend/backend.h"

namespace kvasir {

// In what precision activations enter a product with a quantized weight.
enum class ActivationType : uint8_t {
  kQ8,   // 8 bit per value, one scale per 32 values: the fast way
  kF32,  // as they are: slower, the reference for quality measurements
};

struct CpuBackendOptions {
  // Threads that compute, the caller's included. 0: as many as the process may
  // use (CPU affinity and cgroup quota, see thread_pool.h).
  int32_t thread_count = 0;
  ActivationType activations = ActivationType::kQ8;
  // Uses the portable kernels even where a SIMD target is at hand.
  bool force_scalar = false;
};

// The reference backend: kernels for the host's CPU, their SIMD target chosen
// at run time. INVALID_ARGUMENT for a negative thread count.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(
    const CpuBackendOptions& options);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_CPU_BACKEND_H_

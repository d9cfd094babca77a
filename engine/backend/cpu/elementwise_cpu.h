#ifndef KVASIR_ENGINE_BACKEND_CPU_ELEMENTWISE_CPU_H_
#define KVASIR_ENGINE_BACKEND_CPU_ELEMENTWISE_CPU_H_

#include <cstdint>

#include "absl/types/span.h"

#include "engine/backend/backend.h"
#include "engine/backend/cpu/simd_target.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/backend/tensor.h"

namespace kvasir {

// Kernels of one SIMD target over contiguous numbers; tails are computed like
// full vectors, so that a number's result does not depend on where it lies.
struct ElementwiseKernels {
  // out[i] = in[i] / sqrt(mean(in^2) + epsilon) * gain[i]. The squares are
  // summed in 32 interleaved chains, then the chains in order, on every target.
  void (*rms_norm)(const float* in, const float* gain, float epsilon,
                   int64_t count, float* out);
  // out[i] = f(gate[i]) * up[i], with f(x) = x / (1 + e^-z) and z = x for SiLU,
  // z = 2 sqrt(2/pi) (x + 0.044715 x^3) for GELU in its tanh form, since
  // (1 + tanh(y)) / 2 = 1 / (1 + e^-2y).
  void (*silu)(const float* gate, const float* up, int64_t count, float* out);
  void (*gelu_tanh)(const float* gate, const float* up, int64_t count,
                    float* out);
  // inout[i] += in[i].
  void (*add)(const float* in, int64_t count, float* inout);
  // out[i] = in[i] as f16, rounded to the nearest, ties to even.
  void (*to_f16)(const float* in, int64_t count, uint16_t* out);
};

const ElementwiseKernels& ElementwiseKernelsFor(SimdTarget target);

// The ops of backend.h that look at one row, or one number, at a time; shapes
// are checked by ops.h. Owned by the CPU backend, its thread. `pool` outlives
// this object.
class ElementwiseCpu {
 public:
  ElementwiseCpu(ThreadPool* pool, SimdTarget target)
      : pool_(pool), kernels_(ElementwiseKernelsFor(target)) {}

  void RmsNorm(Activations in, absl::Span<const float> gain, float epsilon,
               Activations out);
  void GatedActivation(GateFunction function, Activations gate, Activations up,
                       Activations out);
  void Add(Activations in, Activations inout);

 private:
  ThreadPool* const pool_;
  const ElementwiseKernels& kernels_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_ELEMENTWISE_CPU_H_

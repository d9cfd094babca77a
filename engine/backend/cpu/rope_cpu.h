#ifndef KVASIR_ENGINE_BACKEND_CPU_ROPE_CPU_H_
#define KVASIR_ENGINE_BACKEND_CPU_ROPE_CPU_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/elementwise_cpu.h"
#include "engine/backend/cpu/rope_table.h"
#include "engine/backend/cpu/simd_target.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/backend/tensor.h"

namespace kvasir {

// Turns query and key by their positions and writes key and value into the
// sequences' blocks; shapes are checked by ops.h. Portable arithmetic in f32
// without fused operations, and one rounding to the layout's type: the same
// bits on every target.
//
// Owned by the CPU backend, its thread. `pool` outlives this object.
class RopeCpu {
 public:
  RopeCpu(ThreadPool* pool, SimdTarget target)
      : pool_(pool), kernels_(ElementwiseKernelsFor(target)) {}

  void RopeAndStore(const RopeSpec& rope, const KvLayout& layout, int32_t layer,
                    absl::Span<const SequenceRows> sequences, Activations query,
                    Activations key, Activations value);

 private:
  ThreadPool* const pool_;
  const ElementwiseKernels& kernels_;
  RopeTable table_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_ROPE_CPU_H_

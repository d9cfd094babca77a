#ifndef KVASIR_ENGINE_BACKEND_CPU_SIMD_TARGET_H_
#define KVASIR_ENGINE_BACKEND_CPU_SIMD_TARGET_H_

// The instruction sets that our Highway kernels are compiled for: portable C++
// ("scalar"), x86 with AVX2 + FMA + F16C ("AVX2") and with AVX-512 ("AVX3"),
// 64-bit Arm ("NEON"). Few, because each is one more set of bits to test.
//
// Include this before any Highway header; it configures them.
#define HWY_COMPILE_ALL_ATTAINABLE
#define HWY_DISABLED_TARGETS \
  (~(HWY_SCALAR | HWY_EMU128 | HWY_AVX2 | HWY_AVX3 | HWY_NEON))

#include <cstdint>
#include <vector>

#include "hwy/targets.h"

namespace kvasir {

// One of Highway's HWY_* target bits that this build has kernels for.
enum class SimdTarget : int64_t {};

// The fastest that this CPU runs. Tests narrow the choice down with
// hwy::SetSupportedTargetsForTest().
SimdTarget BestSimdTarget();
// The one that every CPU runs.
SimdTarget PortableSimdTarget();
// All that this CPU runs, the fastest first.
std::vector<SimdTarget> UsableSimdTargets();

const char* SimdTargetName(SimdTarget target);  // "AVX2"

// Where HWY_EXPORT's table of the including file has `target`.
inline size_t SimdTableIndex(SimdTarget target) {
  hwy::ChosenTarget chosen;
  chosen.Update(static_cast<int64_t>(target));
  return chosen.GetIndex();
}

}  // namespace kvasir

// The instance of an exported function for `target`, chosen by the caller where
// HWY_DYNAMIC_DISPATCH() would take the process's: two backends of one process
// may differ.
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
#define KV_SIMD_FUNCTION(function, target) (*HWY_DISPATCH_TABLE(function)[0])
#else
#define KV_SIMD_FUNCTION(function, target) \
  (*HWY_DISPATCH_TABLE(function)[::kvasir::SimdTableIndex(target)])
#endif

#endif  // KVASIR_ENGINE_BACKEND_CPU_SIMD_TARGET_H_

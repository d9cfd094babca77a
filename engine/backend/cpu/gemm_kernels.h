#ifndef KVASIR_ENGINE_BACKEND_CPU_GEMM_KERNELS_H_
#define KVASIR_ENGINE_BACKEND_CPU_GEMM_KERNELS_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "engine/backend/cpu/packed_weight.h"
#include "engine/backend/cpu/quant_formats.h"
#include "engine/backend/tensor.h"

namespace kvasir {

// 32 activations of a row in 8 bits: value = scale * level, levels -127 to 127.
// The sums serve weights whose levels have an offset or a min.
struct alignas(16) Q8Block {
  int8_t level[kBlockWeights];
  float scale;                // largest magnitude / 127; 0: all are zero
  float scaled_sum;           // scale * sum of levels, rounded once
  int32_t negative_sum;       // -(sum of levels)
  int32_t negative_high_sum;  // the same of the second half
};

// Blocks whose largest magnitude is below this count as zeros, so that 127 over
// it is finite.
constexpr float kSmallestMagnitude = 1e-36f;
constexpr float kLargestMagnitude = std::numeric_limits<float>::max();

// A block with an infinity or what is no number in it: every product with it
// is no number either, so that the damage stays visible.
inline Q8Block NotFiniteBlock() {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  return {{}, kNaN, kNaN, 0, 0};
}

// Rows and groups that one call of a kernel takes at most.
constexpr int kTileRows = 8;
constexpr int kTileGroups = 4;
constexpr int kTileOutputs = kTileGroups * kGroupRows;

// Products of a tile: result[r * kTileOutputs + 16 * g + lane] of row r and
// group g. Every product is one chain of fused multiply-adds in f32 from 0:
//
//   plain types, f32 activations, column by column:
//     sum = fma(weight, activation, sum)
//   quantized types, 8-bit activations, block by block:
//     sum = fma(float(I), scale * activation.scale, sum)
//     sum = fma(min, activation.scaled_sum, sum)        types with a min
//
// where I, exact in int32 and below 2^24, is the sum of (weight level - offset)
// * activation level, for Q6_K with the signed factors of the halves in it.
// The chain is all that rounds, so every set of kernels gives the same bits.
//
// One table for each SIMD target; constant, any thread.
struct GemmKernels {
  // Block b of row r is at activations[b * stride + r]: what a kernel reads
  // together lies together.
  using MultiplyQ8 = void (*)(const PackedGroups& weights,
                              const Q8Block* activations, int64_t stride,
                              int64_t rows, float* result);
  using MultiplyF32 = void (*)(const PackedGroups& weights,
                               const Activations& activations, float* result);

  // Writes a single group as it would lie there if the matrix were F32.
  using Unpack = void (*)(const PackedGroups& group, float* out);

  const char* name;  // "AVX2"

  // Writes block b of the row to out[b * stride].
  void (*quantize_row)(const float* row, int64_t blocks, Q8Block* out,
                       int64_t stride);
  MultiplyQ8 multiply_q8[kDTypeCount];    // null for plain types
  Unpack unpack[kDTypeCount];             // null for plain types
  MultiplyF32 multiply_f32[kDTypeCount];  // null for quantized types
};

// Portable C++, the definition of what the others compute.
const GemmKernels& ScalarGemmKernels();

// Null where this build or the CPU has not the instructions.
const GemmKernels* Avx2GemmKernels();        // AVX2, FMA, F16C
const GemmKernels* Avx512VnniGemmKernels();  // AVX-512 F BW DQ VL VNNI

// All that this machine can run, the fastest first.
std::vector<const GemmKernels*> UsableGemmKernels();

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_GEMM_KERNELS_H_

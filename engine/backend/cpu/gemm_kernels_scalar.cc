#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/backend/cpu/float16.h"
#include "engine/backend/cpu/gemm_kernels.h"
#include "engine/backend/cpu/packed_weight.h"
#include "engine/backend/cpu/quant_formats.h"
#include "engine/backend/tensor.h"

namespace kvasir {
namespace {

void QuantizeRow(const float* row, int64_t blocks, Q8Block* out,
                 int64_t stride) {
  for (int64_t b = 0; b < blocks; ++b, row += kBlockWeights, out += stride) {
    float magnitude = 0;
    bool finite = true;
    for (int i = 0; i < kBlockWeights; ++i) {
      finite &= std::fabs(row[i]) <= kLargestMagnitude;
      magnitude = std::max(magnitude, std::fabs(row[i]));
    }
    if (!finite) {
      *out = NotFiniteBlock();
      continue;
    }
    const bool zero = magnitude < kSmallestMagnitude;
    const float factor = zero ? 0.0f : 127.0f / magnitude;
    int32_t sums[2] = {0, 0};
    for (int i = 0; i < kBlockWeights; ++i) {
      const auto level = static_cast<int8_t>(std::lrintf(row[i] * factor));
      out->level[i] = level;
      sums[i / kHalfWeights] += level;
    }
    out->scale = zero ? 0.0f : magnitude / 127.0f;
    out->scaled_sum = out->scale * static_cast<float>(sums[0] + sums[1]);
    out->negative_sum = -(sums[0] + sums[1]);
    out->negative_high_sum = -sums[1];
  }
}

// The integer I of the header for one block.
int32_t BlockSum(const QuantFormat& format, const QuantBlock& weights,
                 const Q8Block& activations) {
  int32_t sums[2] = {0, 0};
  for (int i = 0; i < kBlockWeights; ++i) {
    sums[i / kHalfWeights] +=
        (weights.level[i] - format.offset) * activations.level[i];
  }
  if (format.scales != ScaleKind::kSuperSigned) return sums[0] + sums[1];
  return sums[0] * static_cast<int8_t>(weights.scales.sub[0]) +
         sums[1] * static_cast<int8_t>(weights.scales.sub[1]);
}

template <DType kType>
void MultiplyLaneQ8(const PackedGroups& group, int lane,
                    const Q8Block* activations, int64_t stride, int64_t rows,
                    float* result) {
  constexpr QuantFormat kFormat = QuantFormatOf(kType);
  constexpr bool kHasMin = kFormat.scales == ScaleKind::kScaleMin ||
                           kFormat.scales == ScaleKind::kSuperMin;
  float sums[kTileRows] = {};
  for (int64_t b = 0; b < group.columns / kBlockWeights; ++b) {
    const QuantBlock weights = ReadPackedBlock(kType, group, lane, b);
    const BlockFactors factors = FactorsOf(kFormat.scales, weights.scales);
    const float scale = kFormat.scales == ScaleKind::kSuperSigned
                            ? FloatFromHalf(weights.scales.scale)
                            : factors.scale[0];
    for (int64_t r = 0; r < rows; ++r) {
      const Q8Block& block = activations[b * stride + r];
      sums[r] = std::fma(static_cast<float>(BlockSum(kFormat, weights, block)),
                         scale * block.scale, sums[r]);
      if (kHasMin) sums[r] = std::fma(factors.min, block.scaled_sum, sums[r]);
    }
  }
  for (int64_t r = 0; r < rows; ++r) result[r * kTileOutputs] = sums[r];
}

template <DType kType>
void MultiplyQ8(const PackedGroups& weights, const Q8Block* activations,
                int64_t stride, int64_t rows, float* result) {
  for (int64_t g = 0; g < weights.count; ++g) {
    for (int lane = 0; lane < kGroupRows; ++lane) {
      MultiplyLaneQ8<kType>(weights.Group(g), lane, activations, stride, rows,
                            result + g * kGroupRows + lane);
    }
  }
}

template <DType kType>
void Unpack(const PackedGroups& group, float* out) {
  for (int lane = 0; lane < kGroupRows; ++lane) {
    UnpackLane(kType, group, lane, kGroupRows, out + lane);
  }
}

template <DType kType>
void MultiplyF32(const PackedGroups& weights, const Activations& activations,
                 float* result) {
  for (int64_t g = 0; g < weights.count; ++g) {
    for (int lane = 0; lane < kGroupRows; ++lane) {
      float sums[kTileRows] = {};
      for (int64_t column = 0; column < weights.columns; ++column) {
        const float weight =
            ReadPackedNumber(kType, weights.Group(g), lane, column);
        for (int64_t r = 0; r < activations.rows; ++r) {
          sums[r] = std::fma(weight, activations.Row(r)[column], sums[r]);
        }
      }
      for (int64_t r = 0; r < activations.rows; ++r) {
        result[r * kTileOutputs + g * kGroupRows + lane] = sums[r];
      }
    }
  }
}

}  // namespace

const GemmKernels& ScalarGemmKernels() {
  static constexpr GemmKernels kKernels = {
      "scalar",
      QuantizeRow,
      {nullptr, nullptr, nullptr, MultiplyQ8<DType::kQ8_0>,
       MultiplyQ8<DType::kQ4_0>, MultiplyQ8<DType::kQ4_1>,
       MultiplyQ8<DType::kQ5_0>, MultiplyQ8<DType::kQ5_1>,
       MultiplyQ8<DType::kQ4_K>, MultiplyQ8<DType::kQ5_K>,
       MultiplyQ8<DType::kQ6_K>},
      {nullptr, nullptr, nullptr, Unpack<DType::kQ8_0>, Unpack<DType::kQ4_0>,
       Unpack<DType::kQ4_1>, Unpack<DType::kQ5_0>, Unpack<DType::kQ5_1>,
       Unpack<DType::kQ4_K>, Unpack<DType::kQ5_K>, Unpack<DType::kQ6_K>},
      {MultiplyF32<DType::kF32>, MultiplyF32<DType::kF16>,
       MultiplyF32<DType::kBF16>}};
  return kKernels;
}

std::vector<const GemmKernels*> UsableGemmKernels() {
  std::vector<const GemmKernels*> all = {
      Avx512VnniGemmKernels(), Avx2GemmKernels(), &ScalarGemmKernels()};
  std::erase(all, nullptr);
  return all;
}

}  // namespace kvasir

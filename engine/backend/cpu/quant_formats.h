#ifndef KVASIR_ENGINE_BACKEND_CPU_QUANT_FORMATS_H_
#define KVASIR_ENGINE_BACKEND_CPU_QUANT_FORMATS_H_

#include <cstdint>

#include "absl/types/span.h"

#include "engine/backend/tensor.h"

// What the bytes of GGUF's block types mean, opened up 32 weights at a time:
// every quantized type is, or divides into, blocks of 32 in which
//
//   weight = scale * (level - offset) + min
//
// with a small unsigned level per weight. Source of the layouts: ggml's block
// structures and its GGUF documentation; checked bit for bit against the
// Python package gguf (tests/fixtures/quant_golden.txt). Pure functions, any
// thread.
namespace kvasir {

constexpr int kDTypeCount = 11;

// Weights in a block as the kernels see it, and in one of Q6_K's two halves,
// which have a scale each.
constexpr int kBlockWeights = 32;
constexpr int kHalfWeights = kBlockWeights / 2;

// Such blocks in a super-block of a K type.
constexpr int kSuperBlocks = 8;

// How the scale and the min of a block are written down.
enum class ScaleKind : uint8_t {
  kNone,         // F32 F16 BF16: weights are plain numbers
  kScale,        // f16 scale; no min
  kScaleMin,     // f16 scale, f16 min
  kSuperMin,     // K types: f16 pair for 256 weights, times 6-bit pair for 32
  kSuperSigned,  // Q6_K: f16 for 256 weights, times a signed byte for 16
};

struct QuantFormat {
  ScaleKind scales = ScaleKind::kNone;
  int bits = 0;    // of a level
  int offset = 0;  // subtracted from a level
};

constexpr QuantFormat QuantFormatOf(DType type) {
  switch (type) {
    case DType::kQ8_0:
      return {ScaleKind::kScale, 8, 128};
    case DType::kQ4_0:
      return {ScaleKind::kScale, 4, 8};
    case DType::kQ4_1:
      return {ScaleKind::kScaleMin, 4, 0};
    case DType::kQ5_0:
      return {ScaleKind::kScale, 5, 16};
    case DType::kQ5_1:
      return {ScaleKind::kScaleMin, 5, 0};
    case DType::kQ4_K:
      return {ScaleKind::kSuperMin, 4, 0};
    case DType::kQ5_K:
      return {ScaleKind::kSuperMin, 5, 0};
    case DType::kQ6_K:
      return {ScaleKind::kSuperSigned, 6, 32};
    default:
      return {};
  }
}

// The scale fields of 32 weights as the file has them, nothing rounded yet.
struct BlockScales {
  uint16_t scale = 0;   // f16 bits
  uint16_t min = 0;     // f16 bits; sign turned for the K types, whose min is
                        // subtracted
  uint8_t sub[2] = {};  // kSuperMin: factors of scale and min;
                        // kSuperSigned: int8 factors of the two halves
};

struct QuantBlock {
  BlockScales scales;
  uint8_t level[kBlockWeights] = {};
};

// Weights [32 * index, 32 * index + 32) of the quantized row at `row`.
QuantBlock ReadQuantBlock(DType type, const uint8_t* row, int64_t index);

// A block's factors in f32. Each is exact: an 11-bit significand times at most
// 8 bits. So is scale * (level - offset); only adding the min rounds.
struct BlockFactors {
  float scale[2] = {};  // of the first and the second half
  float min = 0;
};
BlockFactors FactorsOf(ScaleKind kind, const BlockScales& scales);

// One weight of a block: the value that every kernel means.
float WeightValue(const QuantFormat& format, const BlockFactors& factors,
                  int position, uint8_t level);

// Row `row` of a matrix of any type as f32; `out` has its columns.
void DequantizeRow(const HostMatrix& matrix, int64_t row,
                   absl::Span<float> out);

float F32FromBF16(uint16_t bits);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_QUANT_FORMATS_H_

#ifndef KVASIR_ENGINE_BACKEND_CPU_PACKED_WEIGHT_H_
#define KVASIR_ENGINE_BACKEND_CPU_PACKED_WEIGHT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/backend/backend.h"
#include "engine/backend/cpu/aligned_buffer.h"
#include "engine/backend/cpu/quant_formats.h"
#include "engine/backend/tensor.h"

namespace kvasir {

// Rows interleaved in a group: a 64-byte cache line holds four neighbouring
// columns of 16 rows as bytes, one AVX-512 or two AVX2 vectors, so that lane i
// of a 32-bit accumulator belongs to row i of the group.
constexpr int kGroupRows = 16;
constexpr int kStepColumns = 4;  // columns of a row in a line
constexpr int kStepBytes = kGroupRows * kStepColumns;
constexpr int kBlockSteps = kBlockWeights / kStepColumns;

// Bytes of one group's levels for a block of 32 columns. Byte 4r + c of each
// line belongs to row r. For step s (columns 4s to 4s+3 of the block):
//   8 bits: line s.
//   4 bits: line s/2, low nibble for even s, high nibble for odd s; also the
//           low four bits of the next two.
//   5 bits: the fifth is bit s of line 4.
//   6 bits: the upper two are bits 2(s mod 4) and up of line 4 + s/4.
constexpr int64_t LevelBytes(int bits) {
  return static_cast<int64_t>(bits) * kBlockWeights * kGroupRows / 8;
}

// Bytes of one group's scales for `columns` columns, of one or eight blocks:
//   kScale        per block: f16 scale[16]
//   kScaleMin     per block: f16 scale[16], f16 min[16]
//   kSuperMin     per 8 blocks: f16 scale[16], f16 min[16], then for each
//                 block: uint8 scale factor[16], uint8 min factor[16]
//   kSuperSigned  per 8 blocks: f16 scale[16], then for each block: int8
//                 factor of the first half[16], of the second half[16]
constexpr int64_t kHalfRowBytes = 2 * kGroupRows;  // an f16 for each row
constexpr int64_t ScaleBytes(ScaleKind kind, int64_t columns) {
  const int64_t blocks = columns / kBlockWeights;
  const int64_t factors = blocks * 2 * kGroupRows;
  switch (kind) {
    case ScaleKind::kNone:
      return 0;
    case ScaleKind::kScale:
      return blocks * kHalfRowBytes;
    case ScaleKind::kScaleMin:
      return blocks * 2 * kHalfRowBytes;
    case ScaleKind::kSuperMin:
      return blocks / kSuperBlocks * 2 * kHalfRowBytes + factors;
    case ScaleKind::kSuperSigned:
      return blocks / kSuperBlocks * kHalfRowBytes + factors;
  }
  return 0;
}

// Consecutive groups of one matrix, what a kernel reads; a view. A group is its
// scales (padded to a cache line), then its levels block by block. Of a plain
// type it is columns x 16 numbers, column by column.
struct PackedGroups {
  const uint8_t* data = nullptr;  // on a cache line, but for F32
  int64_t columns = 0;
  int64_t group_bytes = 0;
  int64_t level_offset = 0;  // bytes of scales in front of the levels
  int64_t count = 0;

  const uint8_t* Scales(int64_t group) const {
    return data + group * group_bytes;
  }
  const uint8_t* Levels(int64_t group) const {
    return Scales(group) + level_offset;
  }
  PackedGroups Group(int64_t group) const {
    return {Scales(group), columns, group_bytes, level_offset, 1};
  }
};

// Block `block` of row `lane` of a single quantized group, as ReadQuantBlock()
// gives it for the same row of the matrix.
QuantBlock ReadPackedBlock(DType type, const PackedGroups& group, int lane,
                           int64_t block);

// Column `column` of row `lane` of a single group of a plain type.
float ReadPackedNumber(DType type, const PackedGroups& group, int lane,
                       int64_t column);

// Writes column c of row `lane` of a single group, as f32, to out[c * stride].
void UnpackLane(DType type, const PackedGroups& group, int lane, int64_t stride,
                float* out);

// A matrix in the form of the CPU's kernels, the same for every SIMD target.
// The last group is filled up with rows of zeros.
class PackedWeight final : public Weight {
 public:
  // Copies `matrix`, which must be whole blocks wide, group by group: no memory
  // beyond the copy is taken. RESOURCE_EXHAUSTED if there is none for the copy,
  // UNIMPLEMENTED for a type that is not one of DType's.
  static absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(
      const HostMatrix& matrix);

  DType type() const override { return type_; }
  int64_t rows() const override { return rows_; }
  int64_t columns() const override { return groups_.columns; }
  int64_t memory_bytes() const override {
    return groups_.count * groups_.group_bytes;
  }

  int64_t group_count() const { return groups_.count; }
  PackedGroups Groups(int64_t first, int64_t count) const;

  // Row `row` as f32 times `scale`; `out` has columns() elements.
  void UnpackRow(int64_t row, float scale, absl::Span<float> out) const;

 private:
  PackedWeight(const HostMatrix& matrix, int64_t group_bytes,
               int64_t level_offset, AlignedArray<uint8_t> data);

  DType type_;
  int64_t rows_;
  AlignedArray<uint8_t> data_;
  PackedGroups groups_;  // all of them
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_PACKED_WEIGHT_H_

#include "engine/backend/cpu/packed_weight.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "cache/base/check.h"
#include "engine/backend/cpu/aligned_buffer.h"
#include "engine/backend/cpu/float16.h"
#include "engine/backend/cpu/quant_formats.h"
#include "engine/backend/tensor.h"

namespace kvasir {
namespace {

int64_t WholeLines(int64_t bytes) {
  return (bytes + kStepBytes - 1) / kStepBytes * kStepBytes;
}

bool IsPlain(DType type) {
  return QuantFormatOf(type).scales == ScaleKind::kNone;
}

// Where the levels and scales of one row of a group lie; T is uint8_t to write
// and const uint8_t to read.
template <typename T>
struct RowOfGroup {
  QuantFormat format;
  int row;    // in the group
  T* scales;  // of the group
  T* levels;

  // The row's entry in the block's 16 f16 scales (number 0) or mins (1).
  T* Half(int64_t block, int number) const {
    const int64_t per_super =
        ScaleBytes(format.scales, kSuperBlocks * kBlockWeights);
    T* base = IsSuper() ? scales + block / kSuperBlocks * per_super
                        : scales + block * per_super / kSuperBlocks;
    return base + number * kHalfRowBytes + 2 * row;
  }
  // The row's two factors in a super-block.
  T* Factor(int64_t block, int number) const {
    const int64_t halves = format.scales == ScaleKind::kSuperMin ? 2 : 1;
    T* base = Half(block, 0) - 2 * row + halves * kHalfRowBytes;
    return base + (block % kSuperBlocks * 2 + number) * kGroupRows + row;
  }
  // The byte of line `line` that holds (part of) column `position`.
  T* Level(int64_t block, int line, int position) const {
    return levels + block * LevelBytes(format.bits) + line * kStepBytes +
           row * kStepColumns + position % kStepColumns;
  }
  bool IsSuper() const {
    return format.scales == ScaleKind::kSuperMin ||
           format.scales == ScaleKind::kSuperSigned;
  }
  bool HasMin() const {
    return format.scales == ScaleKind::kScaleMin ||
           format.scales == ScaleKind::kSuperMin;
  }
};

constexpr int kHighLine = 4;  // after the lines of nibbles

void WriteBlock(const RowOfGroup<uint8_t>& to, int64_t block,
                const QuantBlock& from) {
  std::memcpy(to.Half(block, 0), &from.scales.scale, 2);
  if (to.HasMin()) std::memcpy(to.Half(block, 1), &from.scales.min, 2);
  if (to.IsSuper()) {
    *to.Factor(block, 0) = from.scales.sub[0];
    *to.Factor(block, 1) = from.scales.sub[1];
  }
  for (int i = 0; i < kBlockWeights; ++i) {
    const int step = i / kStepColumns;
    const uint8_t level = from.level[i];
    if (to.format.bits == 8) {
      *to.Level(block, step, i) = level;
      continue;
    }
    *to.Level(block, step / 2, i) |=
        static_cast<uint8_t>((level & 0x0F) << (step % 2 * 4));
    if (to.format.bits == 5) {
      *to.Level(block, kHighLine, i) |=
          static_cast<uint8_t>(level >> 4 << step);
    } else if (to.format.bits == 6) {
      *to.Level(block, kHighLine + step / 4, i) |=
          static_cast<uint8_t>(level >> 4 << (step % 4 * 2));
    }
  }
}

uint8_t ReadLevel(const RowOfGroup<const uint8_t>& from, int64_t block, int i) {
  const int step = i / kStepColumns;
  if (from.format.bits == 8) return *from.Level(block, step, i);
  const int low = *from.Level(block, step / 2, i) >> (step % 2 * 4) & 0x0F;
  int high = 0;
  if (from.format.bits == 5) {
    high = *from.Level(block, kHighLine, i) >> step & 1;
  } else if (from.format.bits == 6) {
    high = *from.Level(block, kHighLine + step / 4, i) >> (step % 4 * 2) & 3;
  }
  return static_cast<uint8_t>(low | high << 4);
}

template <typename T>
void WritePlainRow(const uint8_t* source, int64_t columns, int lane,
                   uint8_t* group) {
  for (int64_t column = 0; column < columns; ++column) {
    std::memcpy(group + (column * kGroupRows + lane) * sizeof(T),
                source + column * sizeof(T), sizeof(T));
  }
}

void WriteRow(const HostMatrix& matrix, int64_t row, uint8_t* group,
              int64_t level_offset) {
  const uint8_t* source = matrix.data + row * matrix.RowBytes();
  const int lane = static_cast<int>(row % kGroupRows);
  if (matrix.type == DType::kF32) {
    return WritePlainRow<float>(source, matrix.columns, lane, group);
  }
  if (IsPlain(matrix.type)) {
    return WritePlainRow<uint16_t>(source, matrix.columns, lane, group);
  }
  const RowOfGroup<uint8_t> to{QuantFormatOf(matrix.type), lane, group,
                               group + level_offset};
  for (int64_t block = 0; block < matrix.columns / kBlockWeights; ++block) {
    WriteBlock(to, block, ReadQuantBlock(matrix.type, source, block));
  }
}

}  // namespace

void UnpackLane(DType type, const PackedGroups& group, int lane, int64_t stride,
                float* out) {
  const QuantFormat format = QuantFormatOf(type);
  if (format.scales == ScaleKind::kNone) {
    for (int64_t column = 0; column < group.columns; ++column) {
      out[column * stride] = ReadPackedNumber(type, group, lane, column);
    }
    return;
  }
  for (int64_t index = 0; index < group.columns / kBlockWeights; ++index) {
    const QuantBlock block = ReadPackedBlock(type, group, lane, index);
    const BlockFactors factors = FactorsOf(format.scales, block.scales);
    for (int i = 0; i < kBlockWeights; ++i) {
      out[(index * kBlockWeights + i) * stride] =
          WeightValue(format, factors, i, block.level[i]);
    }
  }
}

QuantBlock ReadPackedBlock(DType type, const PackedGroups& group, int lane,
                           int64_t block) {
  const RowOfGroup<const uint8_t> from{QuantFormatOf(type), lane,
                                       group.Scales(0), group.Levels(0)};
  QuantBlock result;
  std::memcpy(&result.scales.scale, from.Half(block, 0), 2);
  if (from.HasMin()) std::memcpy(&result.scales.min, from.Half(block, 1), 2);
  if (from.IsSuper()) {
    result.scales.sub[0] = *from.Factor(block, 0);
    result.scales.sub[1] = *from.Factor(block, 1);
  }
  for (int i = 0; i < kBlockWeights; ++i) {
    result.level[i] = ReadLevel(from, block, i);
  }
  return result;
}

float ReadPackedNumber(DType type, const PackedGroups& group, int lane,
                       int64_t column) {
  const uint8_t* bytes =
      group.data + (column * kGroupRows + lane) * DTypeBlockBytes(type);
  if (type == DType::kF32) {
    float value;
    std::memcpy(&value, bytes, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof(bits));
  return type == DType::kF16 ? FloatFromHalf(bits) : F32FromBF16(bits);
}

PackedWeight::PackedWeight(const HostMatrix& matrix, int64_t group_bytes,
                           int64_t level_offset, AlignedArray<uint8_t> data)
    : type_(matrix.type), rows_(matrix.rows), data_(std::move(data)) {
  groups_.data = data_.get();
  groups_.columns = matrix.columns;
  groups_.group_bytes = group_bytes;
  groups_.level_offset = level_offset;
  groups_.count = (matrix.rows + kGroupRows - 1) / kGroupRows;
}

absl::StatusOr<std::unique_ptr<PackedWeight>> PackedWeight::Pack(
    const HostMatrix& matrix) {
  const int type_number = static_cast<int>(matrix.type);
  if (type_number >= kDTypeCount) {
    return absl::UnimplementedError(absl::StrCat(
        "tensor type number ", type_number,
        " has no CPU kernel; the types 0 to ", kDTypeCount - 1, " have"));
  }
  KV_CHECK(matrix.rows > 0 && matrix.columns > 0 && matrix.data != nullptr &&
           matrix.columns % DTypeBlockElements(matrix.type) == 0)
      << DTypeName(matrix.type) << " " << matrix.rows << " x "
      << matrix.columns;
  const QuantFormat format = QuantFormatOf(matrix.type);
  const int64_t level_offset =
      WholeLines(ScaleBytes(format.scales, matrix.columns));
  const int64_t group_bytes =
      IsPlain(matrix.type) ? WholeLines(matrix.columns * kGroupRows *
                                        DTypeBlockBytes(matrix.type))
                           : level_offset + matrix.columns / kBlockWeights *
                                                LevelBytes(format.bits);
  const int64_t bytes =
      (matrix.rows + kGroupRows - 1) / kGroupRows * group_bytes;
  AlignedArray<uint8_t> data = AllocateAligned<uint8_t>(bytes);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a weight of ", bytes, " bytes (",
                     std::string(DTypeName(matrix.type)), ", ", matrix.rows,
                     " x ", matrix.columns, ")"));
  }
  for (int64_t row = 0; row < matrix.rows; ++row) {
    uint8_t* group = data.get() + row / kGroupRows * group_bytes;
    if (row % kGroupRows == 0) std::fill_n(group, group_bytes, uint8_t{0});
    WriteRow(matrix, row, group, level_offset);
  }
  return std::unique_ptr<PackedWeight>(
      new PackedWeight(matrix, group_bytes, level_offset, std::move(data)));
}

PackedGroups PackedWeight::Groups(int64_t first, int64_t count) const {
  KV_DCHECK(first >= 0 && count >= 0 && first + count <= groups_.count);
  PackedGroups groups = groups_;
  groups.data += first * groups.group_bytes;
  groups.count = count;
  return groups;
}

void PackedWeight::UnpackRow(int64_t row, float scale,
                             absl::Span<float> out) const {
  KV_CHECK(row >= 0 && row < rows_) << row << " of " << rows_;
  KV_CHECK(static_cast<int64_t>(out.size()) == columns());
  UnpackLane(type_, Groups(row / kGroupRows, 1),
             static_cast<int>(row % kGroupRows), 1, out.data());
  for (float& value : out) value *= scale;
}

}  // namespace kvasir

#include "engine/backend/finite_check.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kvasir {
namespace {

// One number of each block: the only one of a plain type, a scale or a min of a
// quantized one.
struct BlockNumber {
  const char* name;
  int64_t offset;  // from the block's start
};
constexpr BlockNumber kNumber = {"number", 0};
constexpr BlockNumber kScale = {"scale", 0};
constexpr BlockNumber kMin = {"min", 2};
constexpr BlockNumber kScaleOfQ6K = {"scale", 208};

// Blocks that are looked at together, without asking after each.
constexpr int64_t kBlocksAtOnce = 1024;

// Infinities and NaNs have every bit of the exponent, which is `mask`. Inline
// for known strides, so that it is vectorised.
template <typename T>
inline bool AnyNonFinite(const uint8_t* numbers, int64_t count, int64_t stride,
                         T mask) {
  uint32_t found = 0;
  for (int64_t i = 0; i < count; ++i) {
    T bits;
    std::memcpy(&bits, numbers + i * stride, sizeof(bits));
    found |= static_cast<uint32_t>((bits & mask) == mask);
  }
  return found != 0;
}

absl::Status Fault(const HostMatrix& matrix, BlockNumber number, int64_t block,
                   uint32_t bits) {
  const int64_t elements = DTypeBlockElements(matrix.type);
  const int64_t row = block * elements / matrix.columns;
  const int64_t column = block * elements % matrix.columns;
  return absl::InvalidArgumentError(absl::StrCat(
      "row ", row, ", column", elements > 1 ? "s " : " ", column,
      elements > 1 ? absl::StrCat(" to ", column + elements - 1) : "",
      ": wanted a finite ", number.name, ", found 0x",
      absl::Hex(bits, absl::kZeroPad4), " (",
      std::string(DTypeName(matrix.type)), ")"));
}

// `T` holds the bits of one number.
template <typename T>
absl::Status Check(const HostMatrix& matrix, BlockNumber number, T mask) {
  const int64_t stride = DTypeBlockBytes(matrix.type);
  const int64_t blocks =
      matrix.rows * (matrix.columns / DTypeBlockElements(matrix.type));
  const uint8_t* numbers = matrix.data + number.offset;
  for (int64_t first = 0; first < blocks; first += kBlocksAtOnce) {
    const uint8_t* some = numbers + first * stride;
    const int64_t count = std::min(kBlocksAtOnce, blocks - first);
    const bool is_dense = stride == sizeof(T);
    if (!(is_dense ? AnyNonFinite<T>(some, count, sizeof(T), mask)
                   : AnyNonFinite<T>(some, count, stride, mask))) {
      continue;
    }
    for (int64_t i = 0; i < count; ++i) {
      T bits;
      std::memcpy(&bits, some + i * stride, sizeof(bits));
      if ((bits & mask) == mask) return Fault(matrix, number, first + i, bits);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckFinite(const HostMatrix& matrix) {
  constexpr uint32_t kF32Exponent = 0x7f800000;
  constexpr uint16_t kF16Exponent = 0x7c00;
  constexpr uint16_t kBF16Exponent = 0x7f80;
  switch (matrix.type) {
    case DType::kF32:
      return Check<uint32_t>(matrix, kNumber, kF32Exponent);
    case DType::kF16:
      return Check<uint16_t>(matrix, kNumber, kF16Exponent);
    case DType::kBF16:
      return Check<uint16_t>(matrix, kNumber, kBF16Exponent);
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ5_0:
      return Check<uint16_t>(matrix, kScale, kF16Exponent);
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ4_K:
    case DType::kQ5_K: {
      const absl::Status scales = Check<uint16_t>(matrix, kScale, kF16Exponent);
      if (!scales.ok()) return scales;
      return Check<uint16_t>(matrix, kMin, kF16Exponent);
    }
    case DType::kQ6_K:
      return Check<uint16_t>(matrix, kScaleOfQ6K, kF16Exponent);
  }
  return absl::OkStatus();
}

}  // namespace kvasir

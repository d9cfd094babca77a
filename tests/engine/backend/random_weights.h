#ifndef KVASIR_TESTS_ENGINE_BACKEND_RANDOM_WEIGHTS_H_
#define KVASIR_TESTS_ENGINE_BACKEND_RANDOM_WEIGHTS_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "engine/backend/cpu/quant_formats.h"
#include "engine/backend/tensor.h"

namespace kvasir {

constexpr DType kAllTypes[kDTypeCount] = {
    DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ8_0,
    DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
    DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

// A matrix as it lies in a file, with its memory.
struct TestMatrix {
  std::vector<uint8_t> bytes;
  HostMatrix host;
};

// Where a block of `type` keeps its f16 fields.
inline std::vector<int> F16Fields(DType type) {
  switch (type) {
    case DType::kQ8_0:
    case DType::kQ4_0:
    case DType::kQ5_0:
      return {0};
    case DType::kQ6_K:
      return {208};
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return {};
    default:
      return {0, 2};
  }
}

// Levels are `level_byte`, or any byte if that is negative; f16 scales and mins
// are finite numbers around 1/64, or 1 with a level given.
inline TestMatrix MakeMatrix(DType type, int64_t rows, int64_t columns,
                             uint32_t seed, int level_byte = -1) {
  std::mt19937 random(seed);
  TestMatrix matrix;
  matrix.host = {type, rows, columns, nullptr};
  matrix.bytes.resize(rows * matrix.host.RowBytes());
  for (uint8_t& byte : matrix.bytes) {
    byte = static_cast<uint8_t>(level_byte < 0 ? random() : level_byte);
  }
  const int64_t block = DTypeBlockBytes(type);
  for (size_t at = 0; at < matrix.bytes.size(); at += block) {
    uint8_t* bytes = matrix.bytes.data() + at;
    if (type == DType::kF32) {
      const float value = std::normal_distribution<float>()(random);
      std::memcpy(bytes, &value, sizeof(value));
    } else if (type == DType::kF16 || type == DType::kBF16) {
      // Clears the top exponent bit: below 2, and no infinity.
      bytes[1] &= 0xBF;
    }
    for (const int field : F16Fields(type)) {
      const uint16_t sign = random() % 2 == 0 ? 0 : 0x8000;
      const uint16_t bits =
          level_byte < 0 ? sign | (0x2000 + random() % 0x0800) : 0x3C00;
      std::memcpy(bytes + field, &bits, sizeof(bits));
    }
  }
  matrix.host.data = matrix.bytes.data();
  return matrix;
}

inline std::vector<float> Dequantized(const HostMatrix& matrix, int64_t row) {
  std::vector<float> out(matrix.columns);
  DequantizeRow(matrix, row, absl::MakeSpan(out));
  return out;
}

// `count` normal numbers.
inline std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& value : out) value = normal(random);
  return out;
}

}  // namespace kvasir

#endif  // KVASIR_TESTS_ENGINE_BACKEND_RANDOM_WEIGHTS_H_

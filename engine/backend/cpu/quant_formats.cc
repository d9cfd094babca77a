#include "engine/backend/cpu/quant_formats.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"

#include "cache/base/check.h"
#include "engine/backend/cpu/float16.h"
#include "engine/backend/tensor.h"

namespace kvasir {
namespace {

uint16_t ReadU16(const uint8_t* bytes) {
  uint16_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

uint32_t ReadU32(const uint8_t* bytes) {
  uint32_t value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

// 16 bytes: weight i in the low nibble of byte i, weight i + 16 in its high
// one.
void ReadNibbles(const uint8_t* bytes, QuantBlock& block) {
  for (int i = 0; i < kHalfWeights; ++i) {
    block.level[i] = bytes[i] & 0x0F;
    block.level[i + kHalfWeights] = bytes[i] >> 4;
  }
}

// Four bytes: bit i is the fifth bit of weight i.
void AddFifthBits(const uint8_t* bytes, QuantBlock& block) {
  const uint32_t high = ReadU32(bytes);
  for (int i = 0; i < kBlockWeights; ++i) {
    block.level[i] |= static_cast<uint8_t>((high >> i & 1) << 4);
  }
}

QuantBlock ReadSmallBlock(DType type, const uint8_t* bytes) {
  QuantBlock block;
  block.scales.scale = ReadU16(bytes);
  bytes += 2;
  if (QuantFormatOf(type).scales == ScaleKind::kScaleMin) {
    block.scales.min = ReadU16(bytes);
    bytes += 2;
  }
  if (type == DType::kQ8_0) {
    for (int i = 0; i < kBlockWeights; ++i) {
      block.level[i] = static_cast<uint8_t>(bytes[i] + 128);
    }
  } else if (type == DType::kQ5_0 || type == DType::kQ5_1) {
    ReadNibbles(bytes + 4, block);
    AddFifthBits(bytes, block);
  } else {
    ReadNibbles(bytes, block);
  }
  return block;
}

// The 12 bytes of eight 6-bit scales and eight 6-bit mins: the first four of
// each fill the low bits of bytes 0-3 and 4-7; of the other four the low
// nibbles share bytes 8-11 and the upper two bits sit on top of bytes 0-7.
void ReadSixBitPair(const uint8_t* bytes, int sub, BlockScales& scales) {
  if (sub < 4) {
    scales.sub[0] = bytes[sub] & 63;
    scales.sub[1] = bytes[sub + 4] & 63;
    return;
  }
  scales.sub[0] = static_cast<uint8_t>((bytes[sub + 4] & 0x0F) |
                                       (bytes[sub - 4] >> 6 << 4));
  scales.sub[1] =
      static_cast<uint8_t>((bytes[sub + 4] >> 4) | (bytes[sub] >> 6 << 4));
}

// Q4_K and Q5_K: two neighbouring blocks share 32 bytes, a nibble each; in
// Q5_K bit `sub` of 32 more bytes is the fifth bit.
QuantBlock ReadMinSuperBlock(DType type, const uint8_t* bytes, int sub) {
  constexpr uint16_t kF16Sign = 0x8000;
  QuantBlock block;
  block.scales.scale = ReadU16(bytes);
  block.scales.min = ReadU16(bytes + 2) ^ kF16Sign;
  ReadSixBitPair(bytes + 4, sub, block.scales);
  const uint8_t* high = bytes + 16;
  const uint8_t* low = type == DType::kQ5_K ? high + kBlockWeights : high;
  low += sub / 2 * kBlockWeights;
  for (int i = 0; i < kBlockWeights; ++i) {
    block.level[i] = low[i] >> (sub % 2 * 4) & 0x0F;
    if (type == DType::kQ5_K) {
      block.level[i] |= static_cast<uint8_t>((high[i] >> sub & 1) << 4);
    }
  }
  return block;
}

// Q6_K: 128 bytes of low nibbles, 64 of upper bit pairs, 16 signed scales, then
// the f16 scale. Four blocks share 64 bytes of nibbles and 32 of pairs.
QuantBlock ReadSignedSuperBlock(const uint8_t* bytes, int sub) {
  const int quarter = sub % 4;
  const uint8_t* low = bytes + sub / 4 * 64 + quarter % 2 * kBlockWeights;
  const uint8_t* high = bytes + 128 + sub / 4 * kBlockWeights;
  QuantBlock block;
  for (int i = 0; i < kBlockWeights; ++i) {
    block.level[i] = static_cast<uint8_t>((low[i] >> (quarter / 2 * 4) & 0x0F) |
                                          (high[i] >> (quarter * 2) & 3) << 4);
  }
  block.scales.sub[0] = bytes[192 + 2 * sub];
  block.scales.sub[1] = bytes[192 + 2 * sub + 1];
  block.scales.scale = ReadU16(bytes + 208);
  return block;
}

float PlainValue(DType type, const uint8_t* row, int64_t column) {
  switch (type) {
    case DType::kF32:
      return std::bit_cast<float>(ReadU32(row + 4 * column));
    case DType::kF16:
      return FloatFromHalf(ReadU16(row + 2 * column));
    default:
      return F32FromBF16(ReadU16(row + 2 * column));
  }
}

}  // namespace

QuantBlock ReadQuantBlock(DType type, const uint8_t* row, int64_t index) {
  const int64_t bytes = DTypeBlockBytes(type);
  const int sub = static_cast<int>(index % kSuperBlocks);
  switch (QuantFormatOf(type).scales) {
    case ScaleKind::kScale:
    case ScaleKind::kScaleMin:
      return ReadSmallBlock(type, row + index * bytes);
    case ScaleKind::kSuperMin:
      return ReadMinSuperBlock(type, row + index / kSuperBlocks * bytes, sub);
    case ScaleKind::kSuperSigned:
      return ReadSignedSuperBlock(row + index / kSuperBlocks * bytes, sub);
    case ScaleKind::kNone:
      break;
  }
  KV_CHECK(false) << "wanted a quantized type, found " << DTypeName(type);
  return {};
}

BlockFactors FactorsOf(ScaleKind kind, const BlockScales& scales) {
  const float scale = FloatFromHalf(scales.scale);
  const float min = FloatFromHalf(scales.min);
  switch (kind) {
    case ScaleKind::kSuperMin: {
      const float product = scale * static_cast<float>(scales.sub[0]);
      return {{product, product}, min * static_cast<float>(scales.sub[1])};
    }
    case ScaleKind::kSuperSigned:
      return {{scale * static_cast<float>(static_cast<int8_t>(scales.sub[0])),
               scale * static_cast<float>(static_cast<int8_t>(scales.sub[1]))},
              0};
    default:
      return {{scale, scale}, min};
  }
}

float WeightValue(const QuantFormat& format, const BlockFactors& factors,
                  int position, uint8_t level) {
  return factors.scale[position / kHalfWeights] *
             static_cast<float>(level - format.offset) +
         factors.min;
}

void DequantizeRow(const HostMatrix& matrix, int64_t row,
                   absl::Span<float> out) {
  KV_CHECK(row >= 0 && row < matrix.rows) << row << " of " << matrix.rows;
  KV_CHECK(static_cast<int64_t>(out.size()) == matrix.columns)
      << "wanted " << matrix.columns << " columns, found " << out.size();
  const uint8_t* bytes = matrix.data + row * matrix.RowBytes();
  const QuantFormat format = QuantFormatOf(matrix.type);
  if (format.scales == ScaleKind::kNone) {
    for (int64_t column = 0; column < matrix.columns; ++column) {
      out[column] = PlainValue(matrix.type, bytes, column);
    }
    return;
  }
  for (int64_t index = 0; index < matrix.columns / kBlockWeights; ++index) {
    const QuantBlock block = ReadQuantBlock(matrix.type, bytes, index);
    const BlockFactors factors = FactorsOf(format.scales, block.scales);
    for (int i = 0; i < kBlockWeights; ++i) {
      out[index * kBlockWeights + i] =
          WeightValue(format, factors, i, block.level[i]);
    }
  }
}

float F32FromBF16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace kvasir

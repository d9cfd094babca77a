#include "tests/support/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "cache/base/check.h"

namespace kvasir {
namespace {

// IEEE 754 half precision, rounding to nearest even; not the backend's own,
// which tests compare with what is made here.
uint16_t HalfFromFloat(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(static_cast<double>(value));
  if (!(magnitude < 65520)) return sign | (std::isnan(value) ? 0x7e00 : 0x7c00);
  // Numbers below 2^-14 share its exponent and keep a step of 2^-24.
  const int exponent =
      std::max(magnitude > 0 ? std::ilogb(magnitude) : -14, -14);
  const double steps = std::nearbyint(std::ldexp(magnitude, 10 - exponent));
  const int bits = (exponent + 14) * 1024 + static_cast<int>(steps);
  return static_cast<uint16_t>(sign | bits);
}

float FloatFromHalf(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  float magnitude;
  if (exponent == 31) {
    magnitude = mantissa == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    magnitude = std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
  }
  return half & 0x8000 ? -magnitude : magnitude;
}

constexpr int kSmallBlock = 32;   // Q4_0 Q4_1 Q5_0 Q5_1 Q8_0
constexpr int kSuperBlock = 256;  // Q4_K Q5_K Q6_K

using Values = absl::Span<const float>;

void PutHalf(std::string& out, float value) {
  const uint16_t half = HalfFromFloat(value);
  out.push_back(static_cast<char>(half & 0xff));
  out.push_back(static_cast<char>(half >> 8));
}

// The scale that was stored, which is the one to divide by.
float Rounded(float value) { return FloatFromHalf(HalfFromFloat(value)); }

int Level(float value, float scale, int lowest, int highest) {
  if (scale == 0) return std::clamp(0, lowest, highest);
  const int level = static_cast<int>(std::lround(value / scale));
  return std::clamp(level, lowest, highest);
}

float AbsMax(Values block) {
  float most = 0;
  for (const float value : block) most = std::max(most, std::fabs(value));
  return most;
}

void QuantizeQ8(Values block, std::string& out) {
  const float scale = AbsMax(block) / 127;
  PutHalf(out, scale);
  for (const float value : block) {
    out.push_back(static_cast<char>(Level(value, Rounded(scale), -127, 127)));
  }
}

// Levels of 4 or 5 bits, as Q4_0, Q4_1, Q5_0 and Q5_1 pack them: low nibbles of
// element i and i+16 share a byte; fifth bits come first, as one word.
void PutSmallLevels(const std::array<int, kSmallBlock>& levels, int bits,
                    std::string& out) {
  if (bits == 5) {
    uint32_t high = 0;
    for (int i = 0; i < kSmallBlock; ++i) {
      high |= static_cast<uint32_t>(levels[i] >> 4) << i;
    }
    for (int i = 0; i < 4; ++i) {
      out.push_back(static_cast<char>(high >> (8 * i) & 0xff));
    }
  }
  for (int i = 0; i < kSmallBlock / 2; ++i) {
    out.push_back(static_cast<char>((levels[i] & 15) |
                                    (levels[i + kSmallBlock / 2] & 15) << 4));
  }
}

void QuantizeSymmetric(Values block, int bits, std::string& out) {
  const int half_range = 1 << (bits - 1);
  const float scale = AbsMax(block) / static_cast<float>(half_range - 1);
  PutHalf(out, scale);
  std::array<int, kSmallBlock> levels;
  for (int i = 0; i < kSmallBlock; ++i) {
    levels[i] = Level(block[i], Rounded(scale), -half_range, half_range - 1) +
                half_range;
  }
  PutSmallLevels(levels, bits, out);
}

void QuantizeWithMinimum(Values block, int bits, std::string& out) {
  const int top = (1 << bits) - 1;
  const auto [low, high] = std::minmax_element(block.begin(), block.end());
  const float scale = (*high - *low) / static_cast<float>(top);
  PutHalf(out, scale);
  PutHalf(out, *low);
  std::array<int, kSmallBlock> levels;
  for (int i = 0; i < kSmallBlock; ++i) {
    levels[i] = Level(block[i] - Rounded(*low), Rounded(scale), 0, top);
  }
  PutSmallLevels(levels, bits, out);
}

// Eight scales and eight minima of 6 bits in twelve bytes (Q4_K, Q5_K).
void PutScalesAndMinima(const std::array<int, 8>& scales,
                        const std::array<int, 8>& minima, std::string& out) {
  std::array<uint8_t, 12> packed = {};
  for (int i = 0; i < 4; ++i) {
    packed[i] = static_cast<uint8_t>(scales[i] | (scales[i + 4] >> 4) << 6);
    packed[i + 4] = static_cast<uint8_t>(minima[i] | (minima[i + 4] >> 4) << 6);
    packed[i + 8] =
        static_cast<uint8_t>((scales[i + 4] & 15) | (minima[i + 4] & 15) << 4);
  }
  out.append(reinterpret_cast<const char*>(packed.data()), packed.size());
}

void QuantizeQ45K(Values block, int bits, std::string& out) {
  const int top = (1 << bits) - 1;
  std::array<float, 8> scale, minimum;
  for (int sub = 0; sub < 8; ++sub) {
    const Values part = block.subspan(sub * 32, 32);
    const auto [low, high] = std::minmax_element(part.begin(), part.end());
    minimum[sub] = std::max(0.0f, -*low);
    scale[sub] = (std::max(*high, 0.0f) + minimum[sub]) / top;
  }
  const float d = *std::max_element(scale.begin(), scale.end()) / 63;
  const float dmin = *std::max_element(minimum.begin(), minimum.end()) / 63;
  PutHalf(out, d);
  PutHalf(out, dmin);
  std::array<int, 8> scales, minima;
  for (int sub = 0; sub < 8; ++sub) {
    scales[sub] = Level(scale[sub], Rounded(d), 0, 63);
    minima[sub] = Level(minimum[sub], Rounded(dmin), 0, 63);
  }
  PutScalesAndMinima(scales, minima, out);
  std::array<int, kSuperBlock> levels;
  for (int i = 0; i < kSuperBlock; ++i) {
    const int sub = i / 32;
    levels[i] = Level(block[i] + Rounded(dmin) * minima[sub],
                      Rounded(d) * scales[sub], 0, top);
  }
  if (bits == 5) {
    for (int i = 0; i < 32; ++i) {
      int high = 0;
      for (int sub = 0; sub < 8; ++sub)
        high |= levels[sub * 32 + i] >> 4 << sub;
      out.push_back(static_cast<char>(high));
    }
  }
  for (int pair = 0; pair < 4; ++pair) {
    for (int i = 0; i < 32; ++i) {
      out.push_back(static_cast<char>((levels[pair * 64 + i] & 15) |
                                      (levels[pair * 64 + 32 + i] & 15) << 4));
    }
  }
}

void QuantizeQ6K(Values block, std::string& out) {
  std::array<float, 16> scale;
  for (int sub = 0; sub < 16; ++sub) {
    scale[sub] = AbsMax(block.subspan(sub * 16, 16)) / 31;
  }
  const float d = *std::max_element(scale.begin(), scale.end()) / 127;
  std::array<int, 16> scales;
  for (int sub = 0; sub < 16; ++sub) {
    scales[sub] = Level(scale[sub], Rounded(d), 0, 127);
  }
  std::array<int, kSuperBlock> levels;
  for (int i = 0; i < kSuperBlock; ++i) {
    levels[i] = Level(block[i], Rounded(d) * scales[i / 16], -32, 31) + 32;
  }
  std::string low, high;
  for (int half = 0; half < kSuperBlock; half += 128) {
    for (int i = 0; i < 64; ++i) {
      low.push_back(static_cast<char>((levels[half + i] & 15) |
                                      (levels[half + 64 + i] & 15) << 4));
    }
    for (int i = 0; i < 32; ++i) {
      int bits = 0;
      for (int part = 0; part < 4; ++part) {
        bits |= levels[half + part * 32 + i] >> 4 << (2 * part);
      }
      high.push_back(static_cast<char>(bits));
    }
  }
  out += low + high;
  for (const int value : scales) out.push_back(static_cast<char>(value));
  PutHalf(out, d);
}

void QuantizeBlock(DType type, Values block, std::string& out) {
  switch (type) {
    case DType::kQ8_0:
      return QuantizeQ8(block, out);
    case DType::kQ4_0:
      return QuantizeSymmetric(block, 4, out);
    case DType::kQ5_0:
      return QuantizeSymmetric(block, 5, out);
    case DType::kQ4_1:
      return QuantizeWithMinimum(block, 4, out);
    case DType::kQ5_1:
      return QuantizeWithMinimum(block, 5, out);
    case DType::kQ4_K:
      return QuantizeQ45K(block, 4, out);
    case DType::kQ5_K:
      return QuantizeQ45K(block, 5, out);
    case DType::kQ6_K:
      return QuantizeQ6K(block, out);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      KV_CHECK(false) << "not a block type";
  }
}

std::string EncodePlain(DType type, Values values) {
  std::string out;
  if (type == DType::kF32) {
    out.assign(reinterpret_cast<const char*>(values.data()),
               values.size() * sizeof(float));
  }
  if (type == DType::kF16) {
    for (const float value : values) PutHalf(out, value);
  }
  if (type == DType::kBF16) {
    for (const float value : values) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      bits += 0x7fff + (bits >> 16 & 1);
      out.push_back(static_cast<char>(bits >> 16 & 0xff));
      out.push_back(static_cast<char>(bits >> 24));
    }
  }
  return out;
}

}  // namespace

std::string Quantize(DType type, absl::Span<const float> values) {
  if (type <= DType::kBF16) return EncodePlain(type, values);
  const bool small = type < DType::kQ4_K;
  const size_t block = small ? kSmallBlock : kSuperBlock;
  KV_CHECK(values.size() % block == 0)
      << values.size() << " values in blocks of " << block;
  std::string out;
  for (size_t begin = 0; begin < values.size(); begin += block) {
    QuantizeBlock(type, values.subspan(begin, block), out);
  }
  return out;
}

}  // namespace kvasir

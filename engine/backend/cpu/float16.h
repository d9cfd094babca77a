#ifndef KVASIR_ENGINE_BACKEND_CPU_FLOAT16_H_
#define KVASIR_ENGINE_BACKEND_CPU_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace kvasir {

// IEEE 754 binary16 for CPUs, or kernels, without an instruction for it. Both
// ways agree with F16C in every bit: subnormals and infinities are kept, NaNs
// become quiet and keep the upper bits of their payload.

inline float FloatFromHalf(uint16_t half) {
  constexpr uint32_t kInfinity = uint32_t{31} << 23;  // half's, shifted
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t magnitude = uint32_t{half & 0x7fffu} << 13;
  if (magnitude >= kInfinity) {
    const uint32_t quiet = magnitude > kInfinity ? 0x00400000u : 0;
    return std::bit_cast<float>(sign | 0x7f800000u | magnitude | quiet);
  }
  // The exponent's bias grows from 15 to 127; the product is exact, also for
  // subnormals.
  const float value = std::bit_cast<float>(magnitude) * 0x1p112f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
}

// Rounds to the nearest, ties to even.
inline uint16_t HalfFromFloat(float value) {
  constexpr uint32_t kTwoTo16 = 0x47800000u;
  constexpr uint32_t kSmallestNormal = 0x38800000u;  // 2^-14
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half = 0;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  } else if (magnitude >= kTwoTo16) {
    half = 0x7c00u;
  } else if (magnitude < kSmallestNormal) {
    // 0.5 has the unit in the last place that half's subnormals have, 2^-24,
    // so the addition rounds for us.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f);
  } else {
    // A carry out of the significand goes into the exponent, and from the
    // largest number to infinity, as it should.
    const uint32_t odd = magnitude >> 13 & 1;
    half = (magnitude - (uint32_t{112} << 23) + 0xfffu + odd) >> 13;
  }
  return static_cast<uint16_t>(bits >> 16 & 0x8000u) |
         static_cast<uint16_t>(half);
}

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_FLOAT16_H_

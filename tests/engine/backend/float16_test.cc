#include "engine/backend/cpu/float16.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

// A half's value from its fields, by the definition of binary16.
double Definition(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const double fraction = half & 1023;
  const double magnitude = exponent == 0
                               ? std::ldexp(fraction, -24)
                               : std::ldexp(1024 + fraction, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

bool IsFinite(uint16_t half) { return (half >> 10 & 31) != 31; }

TEST(Float16Test, WidensEveryNumberExactly) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    if (!IsFinite(half)) continue;
    EXPECT_EQ(FloatFromHalf(half), Definition(half)) << bits;
    EXPECT_EQ(std::signbit(FloatFromHalf(half)), (half & 0x8000) != 0);
    EXPECT_EQ(HalfFromFloat(FloatFromHalf(half)), half);
  }
}

TEST(Float16Test, RoundsToTheNearestAndTiesToEven) {
  // Truncation would bias every cached key towards zero.
  for (uint16_t half = 0; half < 0x7bff; ++half) {
    const float low = FloatFromHalf(half);
    const float high = FloatFromHalf(half + 1);
    const float middle = (low + high) / 2;  // exact
    const uint16_t even = half % 2 == 0 ? half : half + 1;
    EXPECT_EQ(HalfFromFloat(middle), even) << half;
    EXPECT_EQ(HalfFromFloat(-middle), even | 0x8000) << half;
    EXPECT_EQ(HalfFromFloat(std::nextafter(middle, low)), half);
    EXPECT_EQ(HalfFromFloat(std::nextafter(middle, high)), half + 1);
  }
}

TEST(Float16Test, KeepsInfinityAndNotANumber) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(HalfFromFloat(infinity), 0x7c00);
  EXPECT_EQ(HalfFromFloat(-infinity), 0xfc00);
  EXPECT_EQ(FloatFromHalf(0x7c00), infinity);
  EXPECT_EQ(FloatFromHalf(0xfc00), -infinity);
  EXPECT_EQ(HalfFromFloat(65519.99f), 0x7bff);
  EXPECT_EQ(HalfFromFloat(65520.0f), 0x7c00);
  EXPECT_EQ(HalfFromFloat(3e38f), 0x7c00);
  EXPECT_EQ(HalfFromFloat(1e-30f), 0);
  EXPECT_EQ(HalfFromFloat(-1e-30f), 0x8000);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(FloatFromHalf(HalfFromFloat(nan))));
  EXPECT_TRUE(std::isnan(FloatFromHalf(0x7c01)));
  // A NaN whose payload lies in the bits that are cut off stays one.
  EXPECT_EQ(HalfFromFloat(std::bit_cast<float>(0x7f800001u)), 0x7e00);
}

}  // namespace
}  // namespace kvasir

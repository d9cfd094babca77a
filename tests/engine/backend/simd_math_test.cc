#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/cpu/simd_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/engine/backend/simd_math_test.cc"
#include "hwy/foreach_target.h"
// foreach_target.h must come first: it compiles what follows once per target.
#include "hwy/highway.h"

#include "engine/backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir {
namespace HWY_NAMESPACE {

void ExpOf(const float* in, int64_t count, float* out) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(Exp(d, hn::LoadU(d, in + i)), d, out + i);
  }
}

void Exp2Of(const float* in, int64_t count, float* out) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(Exp2OfNegative(d, hn::LoadU(d, in + i)), d, out + i);
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kvasir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvasir {
namespace {

HWY_EXPORT(ExpOf);
HWY_EXPORT(Exp2Of);

constexpr int64_t kPoints = 1 << 20;
constexpr double kMaxRelativeError = 1.2e-7;  // as the functions state

std::vector<float> Points(double from, double to) {
  std::vector<float> points(kPoints);
  for (int64_t i = 0; i < kPoints; ++i) {
    points[i] = static_cast<float>(from + (to - from) * i / (kPoints - 1));
  }
  return points;
}

TEST(SimdMathTest, ExpKeepsItsErrorBound) {
  const std::vector<float> in = Points(-87, 87);
  for (SimdTarget target : UsableSimdTargets()) {
    std::vector<float> out(kPoints);
    KV_SIMD_FUNCTION(ExpOf, target)(in.data(), kPoints, out.data());
    double worst = 0;
    for (int64_t i = 0; i < kPoints; ++i) {
      const double expected = std::exp(static_cast<double>(in[i]));
      worst = std::max(worst, std::abs(out[i] / expected - 1));
    }
    EXPECT_LT(worst, kMaxRelativeError) << SimdTargetName(target);
    RecordProperty(SimdTargetName(target), std::to_string(worst * 1e9));
  }
}

TEST(SimdMathTest, Exp2KeepsItsErrorBoundAndEndsInZero) {
  const std::vector<float> in = Points(-125, 0);
  for (SimdTarget target : UsableSimdTargets()) {
    std::vector<float> out(kPoints);
    KV_SIMD_FUNCTION(Exp2Of, target)(in.data(), kPoints, out.data());
    double worst = 0;
    for (int64_t i = 0; i < kPoints; ++i) {
      const double expected = std::exp2(static_cast<double>(in[i]));
      worst = std::max(worst, std::abs(out[i] / expected - 1));
    }
    EXPECT_LT(worst, kMaxRelativeError) << SimdTargetName(target);
    RecordProperty(SimdTargetName(target), std::to_string(worst * 1e9));
    EXPECT_EQ(out.back(), 1.0f);
  }
}

TEST(SimdMathTest, EdgesAreHeld) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> in = {-infinity, -126, -1000, 0, -0.0f, nan, 88, infinity};
  in.resize(16, 0.0f);
  for (SimdTarget target : UsableSimdTargets()) {
    SCOPED_TRACE(SimdTargetName(target));
    std::vector<float> out(16);
    KV_SIMD_FUNCTION(Exp2Of, target)(in.data(), 16, out.data());
    EXPECT_EQ(out[0], 0.0f);
    EXPECT_EQ(out[1], 0.0f);
    EXPECT_EQ(out[2], 0.0f);
    EXPECT_EQ(out[3], 1.0f);
    EXPECT_EQ(out[4], 1.0f);
    EXPECT_TRUE(std::isnan(out[5]));
    KV_SIMD_FUNCTION(ExpOf, target)(in.data(), 16, out.data());
    EXPECT_GT(out[0], 0.0f);
    EXPECT_LT(out[0], 2e-38f);
    EXPECT_EQ(out[3], 1.0f);
    EXPECT_TRUE(std::isnan(out[5]));
    EXPECT_EQ(out[6], out[7]);
    EXPECT_TRUE(std::isfinite(out[7]));
  }
}

}  // namespace
}  // namespace kvasir
#endif  // HWY_ONCE

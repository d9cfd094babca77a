#include "engine/backend/cpu/elementwise_cpu.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/backend.h"
#include "engine/backend/cpu/float16.h"
#include "engine/backend/cpu/simd_target.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/backend/tensor.h"
#include "tests/engine/backend/paged_kv.h"

namespace kvasir {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Widths around those of a vector, a chunk of a sum and a chunk of a thread.
constexpr int64_t kWidths[] = {1,  7,  8,   15,  16,   17,   31,
                               32, 33, 576, 999, 1024, 1536, 2050};

double Silu(double x) { return x / (1 + std::exp(-x)); }

double GeluTanh(double x) {
  const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

// (target, threads)
class ElementwiseTest
    : public testing::TestWithParam<std::tuple<SimdTarget, int32_t>> {
 protected:
  SimdTarget target() const { return std::get<0>(GetParam()); }

  ThreadPool pool_{std::get<1>(GetParam())};
  ElementwiseCpu elementwise_{&pool_, target()};
};

INSTANTIATE_TEST_SUITE_P(
    Targets, ElementwiseTest,
    testing::Combine(testing::ValuesIn(UsableSimdTargets()),
                     testing::Values(1, 2, 4)),
    [](const auto& info) {
      return std::string(SimdTargetName(std::get<0>(info.param))) + "_" +
             std::to_string(std::get<1>(info.param));
    });

TEST_P(ElementwiseTest, RmsNormMatchesItsDefinition) {
  constexpr float kEpsilon = 1e-5f;
  for (int64_t width : kWidths) {
    Matrix in = Matrix::Random(40, width, 1);
    const Matrix gain = Matrix::Random(1, width, 2);
    Matrix out(40, width);
    elementwise_.RmsNorm(in.View(), {gain.Row(0), static_cast<size_t>(width)},
                         kEpsilon, out.View());
    for (int64_t row = 0; row < 40; ++row) {
      double squares = 0;
      for (int64_t i = 0; i < width; ++i) {
        squares += static_cast<double>(in.Row(row)[i]) * in.Row(row)[i];
      }
      const double factor = 1 / std::sqrt(squares / width + kEpsilon);
      for (int64_t i = 0; i < width; ++i) {
        const double expected = in.Row(row)[i] * factor * gain.Row(0)[i];
        ASSERT_NEAR(out.Row(row)[i], expected, 1e-6 * std::abs(expected))
            << "width " << width << " row " << row << " column " << i;
      }
    }
  }
}

TEST_P(ElementwiseTest, GatesMatchTheirDefinitions) {
  for (int64_t width : kWidths) {
    Matrix gate = Matrix::Random(12, width, 3);
    for (int64_t row = 0; row < 12; ++row) {
      for (int64_t i = 0; i < width; ++i) gate.Row(row)[i] *= 4;
    }
    Matrix up = Matrix::Random(12, width, 4);
    for (GateFunction function :
         {GateFunction::kSilu, GateFunction::kGeluTanh}) {
      Matrix out(12, width);
      elementwise_.GatedActivation(function, gate.View(), up.View(),
                                   out.View());
      for (int64_t row = 0; row < 12; ++row) {
        for (int64_t i = 0; i < width; ++i) {
          const double x = gate.Row(row)[i];
          const double f =
              function == GateFunction::kSilu ? Silu(x) : GeluTanh(x);
          const double expected = f * up.Row(row)[i];
          // The tail of GELU is a difference of nearly equal numbers, here in
          // the exponent: its relative error grows with the argument.
          ASSERT_NEAR(out.Row(row)[i], expected,
                      3e-6 * std::abs(expected) + 1e-12)
              << "width " << width << " row " << row << " column " << i;
        }
      }
    }
  }
}

TEST_P(ElementwiseTest, GatesHoldAtTheirEnds) {
  // e^-x overflows below -88; a product with it must not become NaN.
  Matrix gate(1, 6);
  Matrix up(1, 6);
  const float inputs[] = {0.0f,    100.0f,
                          -100.0f, 1e20f,
                          -1e20f,  std::numeric_limits<float>::quiet_NaN()};
  for (int i = 0; i < 6; ++i) {
    gate.Row(0)[i] = inputs[i];
    up.Row(0)[i] = 1;
  }
  for (GateFunction function : {GateFunction::kSilu, GateFunction::kGeluTanh}) {
    Matrix out(1, 6);
    elementwise_.GatedActivation(function, gate.View(), up.View(), out.View());
    EXPECT_EQ(out.Row(0)[0], 0.0f);
    EXPECT_EQ(out.Row(0)[1], 100.0f);
    EXPECT_NEAR(out.Row(0)[2], 0.0f, 1e-30f);
    EXPECT_EQ(out.Row(0)[3], 1e20f);
    EXPECT_NEAR(out.Row(0)[4], 0.0f, 1e-15f);
    EXPECT_TRUE(std::isnan(out.Row(0)[5]));
  }
}

TEST_P(ElementwiseTest, AddAddsAndKeepsWhatLiesBetweenRows) {
  for (int64_t width : kWidths) {
    Matrix in = Matrix::Random(20, width, 5);
    const Matrix before = Matrix::Random(20, width, 6);
    Matrix inout = before;
    elementwise_.Add(in.View(), inout.View());
    for (int64_t row = 0; row < 20; ++row) {
      for (int64_t i = 0; i < width + Matrix::kPadding; ++i) {
        if (row == 19 && i >= width) break;
        ASSERT_EQ(inout.Row(row)[i],
                  before.Row(row)[i] + (i < width ? in.Row(row)[i] : 0.0f));
      }
    }
  }
}

TEST_P(ElementwiseTest, RowsAloneAndInPlaceAreBitEqual) {
  // Contract C2: neither the other rows, nor threads, nor an output that is an
  // input may change a bit.
  for (int64_t width : kWidths) {
    Matrix in = Matrix::Random(50, width, 7);
    Matrix other = Matrix::Random(50, width, 8);
    const std::vector<float> gain(width, 1.5f);
    Matrix norm(50, width);
    Matrix silu(50, width);
    elementwise_.RmsNorm(in.View(), gain, 1e-6f, norm.View());
    elementwise_.GatedActivation(GateFunction::kSilu, in.View(), other.View(),
                                 silu.View());
    ThreadPool single(1);
    ElementwiseCpu alone(&single, target());
    for (int64_t row = 0; row < 50; ++row) {
      Matrix one(1, width);
      alone.RmsNorm(in.View().Rows(row, 1), gain, 1e-6f, one.View());
      ASSERT_EQ(one.Bits(0), norm.Bits(row)) << "width " << width;
      alone.GatedActivation(GateFunction::kSilu, in.View().Rows(row, 1),
                            other.View().Rows(row, 1), one.View());
      ASSERT_EQ(one.Bits(0), silu.Bits(row)) << "width " << width;
    }
    Matrix in_place = in;
    elementwise_.RmsNorm(in_place.View(), gain, 1e-6f, in_place.View());
    EXPECT_EQ(in_place.Bits(), norm.Bits());
    in_place = in;
    elementwise_.GatedActivation(GateFunction::kSilu, in_place.View(),
                                 other.View(), in_place.View());
    EXPECT_EQ(in_place.Bits(), silu.Bits());
    in_place = other;
    elementwise_.GatedActivation(GateFunction::kSilu, in.View(),
                                 in_place.View(), in_place.View());
    EXPECT_EQ(in_place.Bits(), silu.Bits());
  }
}

TEST(ElementwiseKernelsTest, SimdTargetsAgreeInEveryBit) {
  // The portable target has no fused multiply-add and may differ.
  std::vector<std::vector<std::vector<uint32_t>>> results;
  for (SimdTarget target : UsableSimdTargets()) {
    if (target == PortableSimdTarget()) continue;
    ThreadPool pool(1);
    ElementwiseCpu elementwise(&pool, target);
    Matrix in = Matrix::Random(4, 587, 9);
    Matrix out(4, 587);
    elementwise.RmsNorm(in.View(), std::vector<float>(587, 0.7f), 1e-6f,
                        out.View());
    elementwise.GatedActivation(GateFunction::kGeluTanh, out.View(), in.View(),
                                in.View());
    elementwise.GatedActivation(GateFunction::kSilu, out.View(), in.View(),
                                out.View());
    results.push_back(out.Bits());
    EXPECT_EQ(results.back(), results.front()) << SimdTargetName(target);
  }
}

TEST(ElementwiseKernelsTest, EveryTargetRoundsHalvesLikeTheDefinition) {
  // What one machine wrote into a block another one may read; Highway's own
  // portable conversion truncates.
  std::vector<float> in;
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    const float value = FloatFromHalf(static_cast<uint16_t>(half));
    const float next = FloatFromHalf(static_cast<uint16_t>(half + 1));
    for (float number : {value, (value + next) / 2,
                         std::nextafter((value + next) / 2, kInfinity)}) {
      in.push_back(number);
      in.push_back(-number);
    }
  }
  in.insert(in.end(), {kInfinity, -kInfinity, 65519.0f, 65521.0f, 1e-40f,
                       std::bit_cast<float>(0x7fc12345u)});
  for (SimdTarget target : UsableSimdTargets()) {
    std::vector<uint16_t> out(in.size());
    ElementwiseKernelsFor(target).to_f16(
        in.data(), static_cast<int64_t>(in.size()), out.data());
    for (size_t i = 0; i < in.size(); ++i) {
      ASSERT_EQ(out[i], HalfFromFloat(in[i]))
          << SimdTargetName(target) << ", " << in[i];
    }
  }
}

}  // namespace
}  // namespace kvasir

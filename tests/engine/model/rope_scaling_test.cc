#include "engine/model/rope_scaling.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

constexpr auto kPairing = RopeSpec::Pairing::kAdjacent;

RopeConfig Resolve(const RopeScaling& scaling, int32_t dims) {
  auto rope = ResolveRope(scaling, kPairing, dims);
  EXPECT_TRUE(rope.ok()) << rope.status();
  return rope.value_or(RopeConfig());
}

void ExpectNear(float found, double wanted) {
  EXPECT_NEAR(found, wanted, 1e-6 * wanted);
}

TEST(RopeScaling, UnscaledFrequenciesFallByPowersOfTheBase) {
  const RopeConfig rope = Resolve({.base = 10000}, 8);
  ASSERT_EQ(rope.inverse_frequencies.size(), 4u);
  ExpectNear(rope.inverse_frequencies[0], 1);
  ExpectNear(rope.inverse_frequencies[1], 0.1);
  ExpectNear(rope.inverse_frequencies[3], 0.001);
  EXPECT_EQ(rope.magnitude, 1.0f);
  EXPECT_EQ(rope.rotated_dim, 8);
}

// Files from before the type had a key name a factor only; taking that for no
// scaling at all reads well up to the base model's context and then falls
// apart.
TEST(RopeScaling, FactorWithoutATypeIsLinear) {
  const RopeConfig rope = Resolve({.base = 10000, .factor = 4}, 8);
  ExpectNear(rope.inverse_frequencies[1], 0.025);
  const RopeConfig none =
      Resolve({.type = "none", .base = 10000, .factor = 4}, 8);
  ExpectNear(none.inverse_frequencies[1], 0.1);
}

// Wanted values: the formulas of transformers' modeling_rope_utils, evaluated
// in double precision by a program of its own. First the settings that Qwen 2.5
// documents for long contexts.
TEST(RopeScaling, YarnGivesTheReferencesFrequencies) {
  const RopeConfig rope = Resolve(
      {.type = "yarn", .base = 1e6, .factor = 4, .original_context = 32768},
      128);
  ExpectNear(rope.magnitude, 1.138629436111989);
  const std::vector<std::pair<size_t, double>> wanted = {
      {0, 1},
      {1, 0.805842188},
      {23, 0.00697830585},  // the blend's bounds are pairs 23 and 40
      {24, 0.00537532149},
      {30, 0.00106436098},
      {35, 0.000246258407},
      {40, 4.44569853e-05},
      {41, 3.58253143e-05},
      {63, 3.1023444e-07}};
  for (const auto& [pair, frequency] : wanted) {
    ExpectNear(rope.inverse_frequencies[pair], frequency);
  }
}

TEST(RopeScaling, YarnFollowsItsBounds) {
  const RopeConfig rope = Resolve({.type = "yarn",
                                   .base = 1e4,
                                   .factor = 16,
                                   .original_context = 4096,
                                   .beta_fast = 16,
                                   .beta_slow = 2},
                                  32);
  const std::vector<double> wanted = {
      1,        0.562341325,    0.316227766,    0.177827941,
      0.1,      0.0562341325,   0.0316227766,   0.0144485202,
      0.00625,  0.0024602433,   0.000790569415, 0.000111142463,
      6.25e-05, 3.51463328e-05, 1.97642354e-05, 1.11142463e-05};
  ExpectNear(rope.magnitude, 1.2772588722239782);
  for (size_t pair = 0; pair < wanted.size(); ++pair) {
    ExpectNear(rope.inverse_frequencies[pair], wanted[pair]);
  }
}

// Without extrapolation yarn is linear scaling, its magnitude included.
TEST(RopeScaling, YarnWithoutExtrapolationIsLinear) {
  RopeScaling scaling = {.base = 1e4, .factor = 8, .original_context = 4096};
  const RopeConfig linear = Resolve(scaling, 64);
  scaling.type = "yarn";
  scaling.extrapolation = 0;
  const RopeConfig yarn = Resolve(scaling, 64);
  EXPECT_EQ(yarn.inverse_frequencies, linear.inverse_frequencies);
  EXPECT_EQ(yarn.magnitude, 1.0f);
}

// Llama 3.2's divisors as its converter writes them (factor 32 over 8192, low
// and high frequency factor 1 and 4), and the frequencies that transformers
// computes from the same settings.
TEST(RopeScaling, DivisorsGiveLlama3sFrequencies) {
  RopeScaling scaling = {.base = 5e5};
  scaling.divisors.assign(32, 32.0f);
  std::fill_n(scaling.divisors.begin(), 15, 1.0f);
  scaling.divisors[15] = 1.65132925f;
  scaling.divisors[16] = 3.2922621f;
  scaling.divisors[17] = 9.66672898f;
  const RopeConfig rope = Resolve(scaling, 64);
  const std::vector<std::pair<size_t, double>> wanted = {{0, 1},
                                                         {14, 0.00321144599},
                                                         {15, 0.00129054793},
                                                         {16, 0.000429556797},
                                                         {17, 9.7082878e-05},
                                                         {18, 1.94616382e-05},
                                                         {31, 9.41830673e-08}};
  for (const auto& [pair, frequency] : wanted) {
    ExpectNear(rope.inverse_frequencies[pair], frequency);
  }
  EXPECT_EQ(rope.magnitude, 1.0f);
}

struct BadScaling {
  const char* name;
  std::function<void(RopeScaling&)> break_it;
  absl::StatusCode code;
  const char* named;
};
void PrintTo(const BadScaling& bad, std::ostream* out) { *out << bad.name; }
class RopeScalingRefuses : public testing::TestWithParam<BadScaling> {};

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const BadScaling kBadScalings[] = {
    {"LongRope", [](auto& s) { s.type = "longrope"; },
     absl::StatusCode::kUnimplemented, "longrope"},
    {"LineBreakInAType", [](auto& s) { s.type = "a\nb"; },
     absl::StatusCode::kUnimplemented, "a\\nb"},
    {"BaseOfOne", [](auto& s) { s.base = 1; }, kInvalid, "rope.freq_base"},
    {"BaseNoNumber", [](auto& s) { s.base = kNan; }, kInvalid,
     "rope.freq_base"},
    {"NegativeFactor", [](auto& s) { s.factor = -2; }, kInvalid,
     "rope.scaling.factor"},
    {"InfiniteFactor", [](auto& s) { s.factor = INFINITY; }, kInvalid,
     "rope.scaling.factor"},
    {"MagnitudeOfZero", [](auto& s) { s.attention_factor = 0; }, kInvalid,
     "rope.scaling.attn_factor"},
    {"YarnWithoutContext",
     [](auto& s) {
       s.type = "yarn";
       s.original_context = 0;
     },
     kInvalid, "rope.scaling.original_context_length"},
    {"YarnBoundOfZero",
     [](auto& s) {
       s.type = "yarn";
       s.beta_slow = 0;
     },
     kInvalid, "rope.scaling.yarn_beta_slow"},
    {"TooFewDivisors", [](auto& s) { s.divisors.assign(3, 1.0f); }, kInvalid,
     "rope_freqs.weight"},
    {"DivisorOfZero", [](auto& s) { s.divisors.assign(4, 0.0f); }, kInvalid,
     "rope_freqs.weight"},
    {"DivisorNoNumber",
     [](auto& s) {
       s.divisors.assign(4, std::numeric_limits<float>::quiet_NaN());
     },
     kInvalid, "rope_freqs.weight"},
};

// A frequency of infinity or NaN would spread to every logit.
TEST_P(RopeScalingRefuses, ByName) {
  RopeScaling scaling = {.original_context = 4096};
  ASSERT_TRUE(ResolveRope(scaling, kPairing, 8).ok());
  GetParam().break_it(scaling);
  const absl::Status status = ResolveRope(scaling, kPairing, 8).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_NE(status.message().find(GetParam().named), std::string::npos)
      << status;
}

INSTANTIATE_TEST_SUITE_P(All, RopeScalingRefuses,
                         testing::ValuesIn(kBadScalings),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace kvasir

#include "engine/model/sampling_params.h"

#include <cmath>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct FloatField {
  const char* name;
  float SamplingParams::*member;
  float least;
  bool takes_least;
  float most;
};

constexpr float kNoMost = std::numeric_limits<float>::max();
const FloatField kFloats[] = {
    {"temperature", &SamplingParams::temperature, 0, true, kNoMost},
    {"top_p", &SamplingParams::top_p, 0, false, 1},
    {"min_p", &SamplingParams::min_p, 0, true, 1},
    {"typical_p", &SamplingParams::typical_p, 0, false, 1},
    {"frequency_penalty", &SamplingParams::frequency_penalty, -2, true, 2},
    {"presence_penalty", &SamplingParams::presence_penalty, -2, true, 2},
    {"repetition_penalty", &SamplingParams::repetition_penalty, 0, false, 2}};

absl::Status CheckWith(const FloatField& field, float value) {
  SamplingParams params;
  params.*field.member = value;
  return CheckSamplingParams(params);
}

// SAM-3: what a client may send is refused by name or means one thing.
TEST(CheckSamplingParams, TakesNumbersOfTheirRangeAlone) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(CheckSamplingParams({}).ok());
  for (const FloatField& field : kFloats) {
    SCOPED_TRACE(field.name);
    const float above = std::nextafter(field.least, infinity);
    EXPECT_EQ(CheckWith(field, field.least).ok(), field.takes_least);
    EXPECT_TRUE(CheckWith(field, above).ok());
    EXPECT_TRUE(CheckWith(field, field.most).ok());
    for (const float value :
         {std::nextafter(field.least, -infinity),
          std::nextafter(field.most, infinity), infinity, -infinity,
          std::numeric_limits<float>::quiet_NaN()}) {
      const absl::Status status = CheckWith(field, value);
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(StartsWith(std::string("sampling.") + field.name + ":"),
                        HasSubstr("found ")));
    }
  }
}

// Both halves of the message help: what was wanted and what there was.
TEST(CheckSamplingParams, TellsRangeAndValue) {
  SamplingParams params = {.top_p = 2};
  EXPECT_EQ(CheckSamplingParams(params).message(),
            "sampling.top_p: wanted a finite number, above 0 and at most 1, "
            "found 2");
  params = {.top_k = -2147483647 - 1};
  EXPECT_EQ(CheckSamplingParams(params).message(),
            "sampling.top_k: wanted 0 or more, found -2147483648");
  params = {.penalty_window = -7};
  EXPECT_EQ(CheckSamplingParams(params).message(),
            "sampling.penalty_window: wanted 0 or more, found -7");
}

// SAM-1: long lists, numbers that are none, keys that come twice.
TEST(CheckSamplingParams, NamesTheBiasThatIsWrong) {
  const auto message = [](std::vector<LogitBias> bias) {
    return std::string(
        CheckSamplingParams({.logit_bias = std::move(bias)}).message());
  };
  EXPECT_EQ(message({{3, 100}, {4, -100}}), "");
  EXPECT_THAT(message({{3, 1}, {4, 100.5f}}),
              AllOf(StartsWith("sampling.logit_bias[4]:"), HasSubstr("100.5")));
  EXPECT_THAT(message({{5, std::nanf("")}}),
              StartsWith("sampling.logit_bias[5]:"));
  EXPECT_THAT(message({{5, INFINITY}}), StartsWith("sampling.logit_bias[5]:"));
  EXPECT_THAT(message({{5, 1}, {6, 1}, {5, 1}}),
              AllOf(StartsWith("sampling.logit_bias[5]:"), HasSubstr("once")));
}

TEST(CheckSamplingParams, BoundsEachList) {
  std::vector<LogitBias> bias(kMaxLogitBias);
  for (size_t i = 0; i < bias.size(); ++i) {
    bias[i].id = static_cast<TokenId>(i);
  }
  std::vector<TokenId> ids(kMaxAllowedIds);
  static_assert(kMaxAllowedIds == kMaxBannedIds && kMaxBannedIds < 5000);
  EXPECT_TRUE(CheckSamplingParams(
                  {.logit_bias = bias, .allowed_ids = ids, .banned_ids = ids})
                  .ok());
  bias.push_back({-1, 0});
  ids.push_back(0);
  const auto message = [](const SamplingParams& params) {
    return std::string(CheckSamplingParams(params).message());
  };
  EXPECT_EQ(message({.logit_bias = bias}),
            "sampling.logit_bias: wanted at most 1024 entries, found 1025");
  EXPECT_EQ(
      message({.allowed_ids = ids}),
      "sampling.allowed_token_ids: wanted at most 4096 entries, found 4097");
  EXPECT_EQ(
      message({.banned_ids = ids}),
      "sampling.banned_token_ids: wanted at most 4096 entries, found 4097");
}

}  // namespace
}  // namespace kvasir

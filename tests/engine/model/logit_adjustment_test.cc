#include "engine/model/logit_adjustment.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;

std::vector<float> Adjusted(const std::vector<float>& logits,
                            const SamplingParams& params,
                            const std::vector<TokenId>& tokens,
                            int64_t prompt_tokens) {
  AdjustScratch scratch;
  const absl::Span<const float> adjusted =
      AdjustLogits(logits, params,
                   {.tokens = tokens, .prompt_tokens = prompt_tokens}, scratch);
  return {adjusted.begin(), adjusted.end()};
}

// The common case must not pay for the others.
TEST(AdjustLogits, CopiesNothingIfNothingIsAdjusted) {
  const std::vector<float> logits = {1, 2, 3};
  AdjustScratch scratch;
  const absl::Span<const float> adjusted =
      AdjustLogits(logits, {.penalty_window = 5}, {}, scratch);
  EXPECT_EQ(adjusted.data(), logits.data());
  EXPECT_TRUE(scratch.logits.empty());
}

// Keskar's penalty of the prompt too, the other two of the output alone.
TEST(AdjustLogits, PenalisesPromptAndOutputAsEachPenaltySays) {
  const std::vector<float> logits = {4, -4, 4, 4, 4};
  const std::vector<TokenId> tokens = {0, 1, 2, 2, 3};  // two of prompt
  EXPECT_THAT(Adjusted(logits, {.repetition_penalty = 2}, tokens, 2),
              ElementsAre(2, -8, 2, 2, 4));
  EXPECT_THAT(Adjusted(logits, {.frequency_penalty = 1.5f}, tokens, 2),
              ElementsAre(4, -4, 1, 2.5f, 4));
  EXPECT_THAT(Adjusted(logits, {.presence_penalty = -1}, tokens, 2),
              ElementsAre(4, -4, 5, 5, 4));
  EXPECT_THAT(Adjusted(logits,
                       {.frequency_penalty = 0.5f,
                        .presence_penalty = 0.25f,
                        .repetition_penalty = 2,
                        .logit_bias = {{2, 6}, {4, 1}}},
                       tokens, 2),
              ElementsAre(2, -8, (4 + 6) / 2.0f - 1.25f, 2 - 0.75f, 5));
}

TEST(AdjustLogits, LooksBackAsFarAsTheWindow) {
  const std::vector<float> logits = {4, 4, 4, 4};
  const std::vector<TokenId> tokens = {0, 1, 2, 2};
  const auto with_window = [&](int32_t window) {
    return Adjusted(logits,
                    {.frequency_penalty = 1,
                     .repetition_penalty = 2,
                     .penalty_window = window},
                    tokens, 2);
  };
  EXPECT_THAT(with_window(1), ElementsAre(4, 4, 1, 4));
  EXPECT_THAT(with_window(2), ElementsAre(4, 4, 0, 4));
  EXPECT_THAT(with_window(3), ElementsAre(4, 2, 0, 4));
  EXPECT_THAT(with_window(0), ElementsAre(2, 2, 0, 4));
  EXPECT_EQ(with_window(std::numeric_limits<int32_t>::max()), with_window(0));
}

// A prompt may hold ids that the output matrix has no row for (LOAD-4).
TEST(AdjustLogits, PassesOverIdsWithoutALogit) {
  EXPECT_THAT(
      Adjusted({4, 4},
               {.repetition_penalty = 2, .logit_bias = {{2, 1}, {1, 1}}},
               {0, 2, 1000}, 1),
      ElementsAre(2, 5));
}

// Infinities would become NaN in a softmax.
TEST(AdjustLogits, EndsAtTheRangeOfAFloat) {
  const float most = std::numeric_limits<float>::max();
  const std::vector<float> logits = {most, -most, 1, -1};
  for (const float repetition : {2.0f, 1e-45f, 1e-3f}) {
    for (const float other : {-2.0f, 2.0f}) {
      for (const float value : Adjusted(logits,
                                        {.frequency_penalty = other,
                                        .presence_penalty = other,
                                        .repetition_penalty = repetition,
                                        .logit_bias = {{0, 100}, {1, -100}}},
                                        {0, 1, 2, 3}, 2)) {
        EXPECT_TRUE(std::isfinite(value)) << repetition << " " << other;
      }
    }
  }
}

double NaiveLogit(TokenId id, double logit, const SamplingParams& params,
                  const std::vector<TokenId>& tokens, int64_t prompt_tokens) {
  for (const LogitBias& entry : params.logit_bias) {
    if (entry.id == id) logit += entry.bias;
  }
  int64_t seen = 0, generated = 0;
  const auto size = static_cast<int64_t>(tokens.size());
  for (int64_t i = 0; i < size; ++i) {
    if (params.penalty_window > 0 && i < size - params.penalty_window) continue;
    if (tokens[i] != id) continue;
    ++seen;
    if (i >= prompt_tokens) ++generated;
  }
  const double repetition = params.repetition_penalty;
  if (seen > 0) logit = logit > 0 ? logit / repetition : logit * repetition;
  logit -= params.frequency_penalty * static_cast<double>(generated);
  return generated > 0 ? logit - params.presence_penalty : logit;
}

// The counts live from call to call, and what one call leaves in them the next
// would count: SAM-2, settings of one request must not touch another.
TEST(AdjustLogits, EqualsANaiveTwinOverManyCalls) {
  constexpr uint64_t kSeed = 4;
  TestRandom random(kSeed);
  AdjustScratch scratch;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("seed 4, round " + std::to_string(round));
    std::vector<float> logits(1 + random.Below(40));
    for (float& logit : logits) logit = random.Normal(5);
    std::vector<TokenId> tokens(random.Below(60));
    for (TokenId& id : tokens) id = static_cast<TokenId>(random.Below(45));
    const auto pick = [&](float a) { return random.Below(3) == 0 ? a : 0; };
    const SamplingParams params = {
        .frequency_penalty = pick(0.5f),
        .presence_penalty = pick(-1.25f),
        .repetition_penalty = 1 + pick(0.3f),
        .penalty_window = static_cast<int32_t>(random.Below(30)),
        .logit_bias = {{static_cast<TokenId>(random.Below(45)), pick(7)}}};
    const int64_t prompt = random.Below(tokens.size() + 1);
    const absl::Span<const float> adjusted = AdjustLogits(
        logits, params, {.tokens = tokens, .prompt_tokens = prompt}, scratch);
    ASSERT_EQ(adjusted.size(), logits.size());
    for (size_t id = 0; id < logits.size(); ++id) {
      EXPECT_NEAR(adjusted[id],
                  NaiveLogit(static_cast<TokenId>(id), logits[id], params,
                             tokens, prompt),
                  1e-4)
          << id;
    }
  }
}

}  // namespace
}  // namespace kvasir

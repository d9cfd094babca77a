#include "engine/model/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/model/token_set.h"

namespace kvasir {
namespace {

TokenId Draw(const std::vector<float>& logits, const SamplingParams& params,
             int64_t position = 0) {
  std::vector<TokenId> scratch;
  return SampleToken(logits, params, position,
                     static_cast<int32_t>(logits.size()), scratch);
}

// The answers that Random123 publishes for philox4x32-10: a wrong constant
// would still look random.
TEST(CounterRandom, MatchesPublishedAnswers) {
  EXPECT_EQ(CounterRandom(0, 0, 0), 0xe169c58d6627e8d5u);
  const uint64_t ones = ~uint64_t{0};
  EXPECT_EQ(CounterRandom(ones, ones, ones), 0x41c83b0e408f276du);
  EXPECT_EQ(
      CounterRandom(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
      0x94fdccebd16cfe09u);
}

// A draw may depend on nothing but seed and position (contract C2).
TEST(Sampler, SamePositionAndSeedGiveTheSameToken) {
  const std::vector<float> logits = {0.1f, 0.2f, 0.3f, 0.0f};
  SamplingParams params;
  params.seed = 7;
  std::set<TokenId> seen;
  for (int64_t position = 0; position < 200; ++position) {
    const TokenId token = Draw(logits, params, position);
    EXPECT_EQ(Draw(logits, params, position), token);
    seen.insert(token);
  }
  EXPECT_EQ(seen.size(), 4u);
}

TEST(Sampler, GreedyTakesTheSmallerIdOfEqualLogits) {
  SamplingParams params;
  params.temperature = 0;
  EXPECT_EQ(Draw({1, 3, 3, 2}, params), 1);
}

// SAM-3: settings that leave one candidate give the greedy token.
TEST(Sampler, ExtremeSettingsGiveTheGreedyToken) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 50; ++round) {
    std::vector<float> logits(1000);
    for (float& logit : logits) logit = 3 * normal(random);
    const TokenId best = static_cast<TokenId>(
        std::max_element(logits.begin(), logits.end()) - logits.begin());
    SamplingParams cold, one, tiny_p, min_p;
    cold.temperature = 1e-4f;
    one.top_k = 1;
    tiny_p.top_p = 1e-4f;
    min_p.min_p = 1;
    for (SamplingParams params : {cold, one, tiny_p, min_p}) {
      params.seed = round;
      EXPECT_EQ(Draw(logits, params, round), best);
    }
  }
}

// LOAD-4: rows of the output matrix without a token are never drawn, however
// likely they are.
TEST(Sampler, IdsWithoutATokenAreNeverDrawn) {
  std::vector<float> logits(384, 0.0f);
  std::fill(logits.begin() + 300, logits.end(), 50.0f);
  std::vector<TokenId> scratch;
  SamplingParams params;
  params.temperature = 5;
  for (int64_t i = 0; i < 500; ++i) {
    EXPECT_LT(SampleToken(logits, params, i, 300, scratch), 300);
  }
  params.temperature = 0;
  EXPECT_LT(SampleToken(logits, params, 0, 300, scratch), 300);
}

// LOAD-4 for holes among the tokens, which no bound keeps out: a file's
// padding.
TEST(Sampler, IdsThatAreNotDrawableAreNeverDrawn) {
  std::vector<float> logits(384, 0.0f);
  TokenSet drawable(384);
  for (TokenId id = 0; id < 384; id += 5) {
    drawable.Remove(id);
    logits[id] = 50.0f;
  }
  logits[17] = 1.0f;
  for (const float min_p : {0.0f, 0.5f}) {
    for (const float top_p : {0.9f, 1.0f}) {
      SamplingParams params = {.temperature = 5,
                               .top_k = 300,
                               .top_p = top_p,
                               .min_p = min_p,
                               .drawable = &drawable};
      std::set<TokenId> seen;
      for (int64_t i = 0; i < 2000; ++i) seen.insert(Draw(logits, params, i));
      // Shares are of what can be drawn: the others' logits count for nothing.
      EXPECT_GT(seen.size(), 200u);
      for (const TokenId id : seen) EXPECT_NE(id % 5, 0) << id;
      params.temperature = 0;
      EXPECT_EQ(Draw(logits, params), 17);
    }
  }
}

// A mask without a hole must not change a draw.
TEST(Sampler, FullSetDrawsWhatNoSetDraws) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> logits(700);
  for (float& logit : logits) logit = normal(random);
  const TokenSet all(700);
  SamplingParams params = {.top_p = 0.9f};
  SamplingParams masked = params;
  masked.drawable = &all;
  for (int64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(Draw(logits, params, i), Draw(logits, masked, i)) << i;
  }
}

// The naive twin: order everything, cut, and list who is left.
std::set<TokenId> Survivors(const std::vector<float>& logits,
                            const SamplingParams& params) {
  std::vector<TokenId> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  const auto mass = [&](TokenId id) {
    return std::exp((double{logits[id]} - logits[ids[0]]) / params.temperature);
  };
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < ids.size()) {
    ids.resize(params.top_k);
  }
  double total = 0, sum = 0;
  for (const TokenId id : ids) total += mass(id);
  std::set<TokenId> kept;
  for (const TokenId id : ids) {
    if (sum >= params.top_p * total) break;
    sum += mass(id);
    if (mass(id) >= params.min_p) kept.insert(id);
  }
  return kept;
}

// Filters work on partly ordered candidates for speed; they must keep exactly
// the set that a full sort keeps.
TEST(Sampler, DrawsOnlyWhatANaiveTwinKeeps) {
  std::mt19937 random(42);
  std::normal_distribution<float> normal;
  std::uniform_real_distribution<float> uniform;
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE("seed 42, round " + std::to_string(round));
    std::vector<float> logits(700);
    for (float& logit : logits) logit = normal(random);
    SamplingParams params;
    params.temperature = 0.3f + 2 * uniform(random);
    params.top_k = round % 3 == 0 ? 0 : 1 + static_cast<int>(random() % 900);
    params.top_p = round % 4 == 0 ? 1.0f : 0.05f + 0.9f * uniform(random);
    params.min_p = round % 2 == 0 ? 0.0f : 0.3f * uniform(random);
    params.seed = round;
    const std::set<TokenId> kept = Survivors(logits, params);
    std::set<TokenId> seen;
    for (int64_t i = 0; i < 400; ++i) seen.insert(Draw(logits, params, i));
    for (const TokenId id : seen) EXPECT_TRUE(kept.count(id)) << id;
    if (kept.size() <= 3) {
      EXPECT_EQ(seen, kept);
    }
  }
}

// Frequencies must follow the softmax: four standard deviations at 20,000
// draws.
TEST(Sampler, FrequenciesFollowTheDistribution) {
  const std::vector<float> logits = {0, 1, 2, 3};
  SamplingParams params;
  params.temperature = 2;
  params.seed = 99;
  std::map<TokenId, int> counts;
  constexpr int kDraws = 20000;
  for (int64_t i = 0; i < kDraws; ++i) ++counts[Draw(logits, params, i)];
  double total = 0;
  for (const float logit : logits) total += std::exp(logit / 2);
  for (TokenId id = 0; id < 4; ++id) {
    const double p = std::exp(logits[id] / 2) / total;
    EXPECT_NEAR(counts[id], kDraws * p, 4 * std::sqrt(kDraws * p * (1 - p)));
  }
}

TEST(Sampler, TopKAboveTheVocabularyIsOff) {
  SamplingParams all, huge;
  huge.top_k = 1'000'000'000;
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(Draw({1, 2, 3}, all, i), Draw({1, 2, 3}, huge, i));
  }
}

TEST(CheckSamplingParams, RefusesWhatMakesNoSenseByName) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto refused = [](auto change) {
    SamplingParams params;
    change(params);
    return std::string(CheckSamplingParams(params).message());
  };
  using P = SamplingParams;
  const auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(CheckSamplingParams(P{}).ok());
  EXPECT_TRUE(has(refused([](P& p) { p.temperature = -1; }), "temperature"));
  EXPECT_TRUE(has(refused([&](P& p) { p.temperature = nan; }), "temperature"));
  EXPECT_TRUE(has(refused([](P& p) { p.temperature = INFINITY; }), "inf"));
  EXPECT_TRUE(has(refused([](P& p) { p.top_p = 0; }), "top_p"));
  EXPECT_TRUE(has(refused([](P& p) { p.top_p = -1; }), "top_p"));
  EXPECT_TRUE(has(refused([](P& p) { p.top_p = 2; }), "found 2"));
  EXPECT_TRUE(has(refused([&](P& p) { p.top_p = nan; }), "top_p"));
  EXPECT_TRUE(has(refused([](P& p) { p.min_p = 2; }), "min_p"));
  EXPECT_TRUE(has(refused([](P& p) { p.top_k = -1; }), "top_k"));
}

}  // namespace
}  // namespace kvasir

#include "engine/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "engine/model/token_set.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

TokenId Draw(const std::vector<float>& logits, const SamplingParams& params,
             int64_t position = 0) {
  SamplerScratch scratch;
  const std::vector<TokenId> tokens(static_cast<size_t>(position), 0);
  return SampleToken(logits, params, {.tokens = tokens},
                     static_cast<int32_t>(logits.size()), scratch);
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
  SamplerScratch scratch;
  SamplingParams params;
  params.temperature = 5;
  const std::vector<TokenId> tokens(500, 0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const DrawContext context = {.tokens =
                                     absl::MakeConstSpan(tokens).first(i)};
    EXPECT_LT(SampleToken(logits, params, context, 300, scratch), 300);
  }
  params.temperature = 0;
  EXPECT_LT(SampleToken(logits, params, {}, 300, scratch), 300);
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
  const auto shared = std::make_shared<const TokenSet>(std::move(drawable));
  for (const float min_p : {0.0f, 0.5f}) {
    for (const float top_p : {0.9f, 1.0f}) {
      SamplingParams params = {.temperature = 5,
                               .top_k = 300,
                               .top_p = top_p,
                               .min_p = min_p,
                               .drawable = shared};
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
  SamplingParams params = {.top_p = 0.9f};
  SamplingParams masked = params;
  masked.drawable = std::make_shared<const TokenSet>(700);
  for (int64_t i = 0; i < 300; ++i) {
    EXPECT_EQ(Draw(logits, params, i), Draw(logits, masked, i)) << i;
  }
}

// The naive twin: what each id's probability is, by sorting everything. A
// filter's order is a key, and the cut is where the share is reached.
using Probabilities = std::map<TokenId, double>;

void Normalise(Probabilities& p) {
  double total = 0;
  for (const auto& [id, mass] : p) total += mass;
  for (auto& [id, mass] : p) mass /= total;
}

template <typename Key>
void Cut(Probabilities& p, double share, Key key) {
  std::vector<std::pair<double, TokenId>> order;
  for (const auto& [id, mass] : p) order.emplace_back(key(mass), id);
  std::sort(order.begin(), order.end());
  double sum = 0;
  for (const auto& [unused, id] : order) {
    const double mass = p.at(id);
    if (sum >= share) p.erase(id);
    sum += mass;
  }
  Normalise(p);
}

Probabilities Reference(const std::vector<float>& logits,
                        const SamplingParams& params,
                        const DrawContext& context) {
  AdjustScratch scratch;
  const absl::Span<const float> adjusted =
      AdjustLogits(logits, params, context, scratch);
  std::vector<std::pair<float, TokenId>> order;
  for (TokenId id = 0; id < static_cast<TokenId>(logits.size()); ++id) {
    if (params.drawable != nullptr && !params.drawable->Contains(id)) continue;
    if (absl::c_linear_search(context.withheld, id)) continue;
    order.emplace_back(-adjusted[id], id);
  }
  std::sort(order.begin(), order.end());
  if (params.greedy()) return {{order[0].second, 1}};
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < order.size()) {
    order.resize(params.top_k);
  }
  Probabilities p;
  for (const auto& [negative, id] : order) {
    p[id] = std::exp((double{order[0].first} - negative) / params.temperature);
  }
  Normalise(p);
  double entropy = 0;
  for (const auto& [id, mass] : p) entropy -= mass * std::log(mass);
  if (params.typical_p < 1) {
    Cut(p, params.typical_p,
        [&](double mass) { return std::abs(-std::log(mass) - entropy); });
  }
  if (params.top_p < 1) Cut(p, params.top_p, [](double mass) { return -mass; });
  double highest = 0;
  for (const auto& [id, mass] : p) highest = std::max(highest, mass);
  std::erase_if(p, [&](const auto& entry) {
    return entry.second < params.min_p * highest;
  });
  Normalise(p);
  return p;
}

SamplingParams RandomParams(TestRandom& random, int32_t width) {
  const auto sometimes = [&](float least, float most, float off) {
    if (random.Below(2) == 0) return off;
    return least +
           (most - least) * static_cast<float>(random.Below(1000)) / 1e3f;
  };
  SamplingParams params = {
      .temperature = sometimes(0.3f, 3, 1),
      .top_k = static_cast<int32_t>(random.Below(2) * random.Below(2 * width)),
      .top_p = sometimes(0.05f, 1, 1),
      .min_p = sometimes(0, 0.5f, 0),
      .typical_p = sometimes(0.05f, 1, 1),
      .seed = random.Next(),
      .frequency_penalty = sometimes(-2, 2, 0),
      .presence_penalty = sometimes(-2, 2, 0),
      .repetition_penalty = sometimes(0.5f, 2, 1),
      .penalty_window = static_cast<int32_t>(random.Below(20))};
  const auto any = [&] { return static_cast<TokenId>(random.Below(width)); };
  if (random.Below(2) == 0) params.logit_bias = {{any(), 5}};
  if (random.Below(3) == 0) {
    TokenSet drawable(width);
    for (int i = 0; i < width / 4; ++i) drawable.Remove(any());
    params.drawable = std::make_shared<const TokenSet>(std::move(drawable));
  }
  return params;
}

// Frequencies over many positions must be the probabilities, within four and a
// half standard deviations, and what a filter has cut must never come. The
// filters work on partly ordered candidates for speed.
TEST(Sampler, DrawsAsOftenAsANaiveTwinSays) {
  constexpr int kDraws = 3000;
  TestRandom random(42);
  SamplerScratch scratch;
  for (int round = 0; round < 120; ++round) {
    SCOPED_TRACE("seed 42, round " + std::to_string(round));
    const auto width = static_cast<int32_t>(8 + random.Below(60));
    std::vector<float> logits(width);
    for (float& logit : logits) logit = random.Normal(2);
    const SamplingParams params = RandomParams(random, width);
    std::vector<TokenId> tokens(50 + kDraws, 0);
    for (TokenId& id : tokens) id = static_cast<TokenId>(random.Below(width));
    const std::vector<TokenId> withheld = {tokens[0], tokens[1]};
    std::map<TokenId, int> counts;
    // The window is short, so that the same few tokens can be put before each
    // position.
    DrawContext context = {.prompt_tokens = 0, .withheld = withheld};
    for (int i = 0; i < kDraws; ++i) {
      std::copy_n(tokens.begin(), 20, tokens.begin() + 30 + i);
      context.tokens = absl::MakeConstSpan(tokens).first(50 + i);
      SamplingParams windowed = params;
      windowed.penalty_window = 1 + params.penalty_window;
      ++counts[SampleToken(logits, windowed, context, width, scratch)];
    }
    SamplingParams windowed = params;
    windowed.penalty_window = 1 + params.penalty_window;
    const Probabilities want = Reference(logits, windowed, context);
    for (const auto& [id, count] : counts) EXPECT_TRUE(want.count(id)) << id;
    for (const auto& [id, p] : want) {
      EXPECT_NEAR(counts[id], kDraws * p,
                  1 + 4.5 * std::sqrt(kDraws * p * (1 - p)))
          << id;
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

// SAM-3: any legal number gives one of the tokens, by arithmetic with numbers
// only.
TEST(Sampler, ExtremeNumbersStillDrawAToken) {
  const float most = std::numeric_limits<float>::max();
  const float least = std::numeric_limits<float>::denorm_min();
  for (const std::vector<float>& logits :
       {std::vector<float>{most, -most, 0}, {0, 0, 0}, {-most, -most, -most}}) {
    for (const float temperature : {least, 1e-4f, 100.0f, most}) {
      for (const float share : {least, 1e-4f, 1.0f}) {
        for (const float min_p : {0.0f, least, 1.0f}) {
          SamplingParams params = {.temperature = temperature,
                                   .top_k = 1'000'000'000,
                                   .top_p = share,
                                   .min_p = min_p,
                                   .typical_p = share,
                                   .frequency_penalty = -2,
                                   .repetition_penalty = least,
                                   .logit_bias = {{0, 100}}};
          const TokenId token = Draw(logits, params, 9);
          EXPECT_TRUE(token >= 0 && token < 3) << token;
        }
      }
    }
  }
}

// Greedy means the highest logit after bias and penalties, and of what may be
// drawn this time.
TEST(Sampler, GreedyFollowsBiasPenaltiesAndWhatIsWithheld) {
  const std::vector<float> logits = {5, 4, 4, 1};
  const std::vector<TokenId> tokens = {0, 0};
  SamplerScratch scratch;
  const auto greedy = [&](SamplingParams params,
                          std::vector<TokenId> withheld = {}) {
    params.temperature = 0;
    return SampleToken(logits, params, {.tokens = tokens, .withheld = withheld},
                       4, scratch);
  };
  EXPECT_EQ(greedy({}), 0);
  EXPECT_EQ(greedy({}, {0}), 1);
  EXPECT_EQ(greedy({}, {1, 0}), 2);
  EXPECT_EQ(greedy({.frequency_penalty = 0.75f}), 1);
  EXPECT_EQ(greedy({.presence_penalty = 0.75f}), 0);
  EXPECT_EQ(greedy({.repetition_penalty = 2}), 1);
  EXPECT_EQ(greedy({.logit_bias = {{3, 10}}}), 3);
  EXPECT_EQ(greedy({.logit_bias = {{3, 10}}}, {3}), 0);
}

TEST(Sampler, TopKAboveTheVocabularyIsOff) {
  SamplingParams all, huge;
  huge.top_k = 1'000'000'000;
  for (int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(Draw({1, 2, 3}, all, i), Draw({1, 2, 3}, huge, i));
  }
}

}  // namespace
}  // namespace kvasir

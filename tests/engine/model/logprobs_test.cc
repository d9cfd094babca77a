#include "engine/model/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/model/token_set.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;

std::vector<TokenId> Ids(const PositionLogprobs& position) {
  std::vector<TokenId> ids;
  for (const TokenLogprob& one : position.top) ids.push_back(one.id);
  return ids;
}

TEST(ModelLogprobs, AreTheLogarithmsOfTheSoftmax) {
  const PositionLogprobs position = ModelLogprobs(
      {{std::log(0.2f), std::log(0.5f), std::log(0.3f)}}, 2, {2}, nullptr);
  ASSERT_TRUE(position.chosen.has_value());
  EXPECT_EQ(position.chosen->id, 2);
  EXPECT_EQ(position.chosen->rank, 2);
  EXPECT_NEAR(position.chosen->logprob, std::log(0.3), 1e-6);
  EXPECT_THAT(Ids(position), ElementsAre(1, 2));
  EXPECT_EQ(position.top[1], *position.chosen);
}

// The first token of a prompt follows nothing; then there is nothing to say of
// it, but there may be of others.
TEST(ModelLogprobs, ListWhatIsWishedForWithAndWithoutATokenThere) {
  const std::vector<float> logits = {1, 4, 4, 2, 3};
  PositionLogprobs position = ModelLogprobs(logits, -1, {}, nullptr);
  EXPECT_FALSE(position.chosen.has_value());
  EXPECT_TRUE(position.top.empty());
  position = ModelLogprobs(logits, 0, {2, {4, 1, 3, 4}}, nullptr);
  EXPECT_EQ(position.chosen->rank, 5);
  EXPECT_THAT(Ids(position), ElementsAre(1, 2, 4, 3)) << "each once, in order";
  EXPECT_THAT(Ids(ModelLogprobs(logits, 0, {1000}, nullptr)),
              ElementsAre(1, 2, 4, 3, 0));
}

// A padded row takes its share of the mass, but no client can name it
// (LOAD-4).
TEST(ModelLogprobs, CountIdsThatAreNoTokensWithoutListingThem) {
  TokenSet tokens(4);
  tokens.Remove(1);
  const std::vector<float> logits = {1, 9, 2, 3, 8};
  const PositionLogprobs position =
      ModelLogprobs(logits, 3, {2, {1, 4, 0, -5, 77}}, &tokens);
  EXPECT_THAT(Ids(position), ElementsAre(3, 2, 0));
  EXPECT_EQ(position.chosen->rank, 3);
  EXPECT_EQ(position.top[0].rank, 3);
  EXPECT_EQ(position.top[2].rank, 5);
  const PositionLogprobs all = ModelLogprobs(logits, 3, {5}, nullptr);
  EXPECT_EQ(all.top[2], *position.chosen);
}

// SAM-3: strict JSON has no infinity, and shares come to 1 at most.
TEST(ModelLogprobs, AreFiniteAndComeToOneAtMost) {
  const float most = std::numeric_limits<float>::max();
  for (const std::vector<float>& logits :
       {std::vector<float>{most, -most, 0, 0},
        {-most, -most, -most, -most},
        {0, 0, 0, 0},
        {100, 0, -100, 99},
        {0.1f, 0.2f, 0.3f, 0.4f}}) {
    double total = 0;
    for (const TokenLogprob& one : ModelLogprobs(logits, 1, {4}, nullptr).top) {
      EXPECT_TRUE(std::isfinite(one.logprob)) << one.logprob;
      EXPECT_LE(one.logprob, 0);
      total += std::exp(double{one.logprob});
    }
    EXPECT_LE(total, 1);
    EXPECT_GT(total, 1 - 1e-6);
  }
}

// Heap and counting passes against an order of everything, with many ties.
TEST(ModelLogprobs, EqualANaiveTwin) {
  TestRandom random(5);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE("seed 5, round " + std::to_string(round));
    const auto width = static_cast<int32_t>(1 + random.Below(60));
    std::vector<float> logits(width);
    for (float& logit : logits) logit = std::round(random.Normal(4));
    TokenSet tokens(width);
    for (int i = 0; i < width / 3; ++i) {
      tokens.Remove(static_cast<TokenId>(random.Below(width)));
    }
    LogprobWish wish = {static_cast<int32_t>(random.Below(width + 3))};
    for (int i = random.Below(4); i > 0; --i) {
      wish.ids.push_back(static_cast<TokenId>(random.Below(width)));
    }
    std::vector<TokenId> order(width);
    for (TokenId id = 0; id < width; ++id) order[id] = id;
    absl::c_stable_sort(
        order, [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
    double total = 0;
    for (const float logit : logits) total += std::exp(double{logit});
    std::vector<TokenLogprob> want;
    int32_t tokens_before = 0;
    for (int32_t i = 0; i < width; ++i) {
      const TokenId id = order[i];
      if (!tokens.Contains(id)) continue;
      if (tokens_before++ < wish.top_count ||
          absl::c_linear_search(wish.ids, id)) {
        want.push_back(
            {id, static_cast<float>(logits[id] - std::log(total)), i + 1});
      }
    }
    const PositionLogprobs found =
        ModelLogprobs(logits, order[0], wish, &tokens);
    EXPECT_EQ(found.chosen->rank, 1);
    ASSERT_EQ(found.top.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(found.top[i].id, want[i].id);
      EXPECT_EQ(found.top[i].rank, want[i].rank);
      EXPECT_NEAR(found.top[i].logprob, want[i].logprob, 1e-5);
    }
  }
}

}  // namespace
}  // namespace kvasir

#include "engine/model/candidates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;

std::vector<TokenId> AllIds(size_t count) {
  std::vector<TokenId> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// What is left, in rising order.
template <typename Filter>
std::vector<TokenId> After(const std::vector<float>& logits, float temperature,
                           Filter filter) {
  std::vector<TokenId> ids = AllIds(logits.size());
  Candidates candidates(logits, temperature, ids);
  filter(candidates);
  std::sort(ids.begin(), ids.end());
  return ids;
}

std::vector<float> Logs(std::vector<double> probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) {
    logits.push_back(static_cast<float>(std::log(p)));
  }
  return logits;
}

// Entropy 1.22: of the two surprises 0.69 and 1.61 the second is nearer, then
// the first, then 2.30.
TEST(Candidates, TypicalKeepsWhatSurprisesAsExpected) {
  const std::vector<float> logits = Logs({0.5, 0.1, 0.2, 0.2});
  const auto typical = [&](double share) {
    return After(logits, 1, [&](Candidates& c) { c.KeepTypical(share); });
  };
  EXPECT_THAT(typical(0.1), ElementsAre(2)) << "of a tie the smaller id";
  EXPECT_THAT(typical(0.3), ElementsAre(2, 3));
  EXPECT_THAT(typical(0.5), ElementsAre(0, 2, 3));
  EXPECT_THAT(typical(0.95), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(typical(1), ElementsAre(0, 1, 2, 3));
}

// The likeliest may have gone, and ratios are of what is left.
TEST(Candidates, MinPIsRelativeToTheLikeliestThatIsLeft) {
  const std::vector<float> logits = Logs({0.5, 0.05, 0.2, 0.15, 0.1});
  const auto left = [&](double ratio) {
    return After(logits, 1, [&](Candidates& c) {
      c.KeepTypical(0.3);
      c.KeepMinP(ratio);
    });
  };
  EXPECT_THAT(left(0), ElementsAre(2, 3));
  EXPECT_THAT(left(0.6), ElementsAre(2, 3));
  EXPECT_THAT(left(0.9), ElementsAre(2));
}

// Rounding makes all masses equal there, but not all tokens the likeliest.
TEST(Candidates, MinPOfOneKeepsTheLikeliestAtAnyTemperature) {
  for (const float temperature : {1e-38f, 1e-4f, 1.0f, 100.0f, 3e38f}) {
    EXPECT_THAT(
        After({1, 3, 2, 3}, temperature, [](Candidates& c) { c.KeepMinP(1); }),
        ElementsAre(1, 3))
        << temperature;
  }
}

// The naive twin: order everything by a key, and cut where the share is
// reached.
std::set<TokenId> NaiveShare(const std::vector<double>& probability,
                             std::vector<TokenId> ids,
                             const std::vector<double>& key, double share) {
  std::stable_sort(ids.begin(), ids.end(),
                   [&](TokenId a, TokenId b) { return key[a] < key[b]; });
  double total = 0, sum = 0;
  for (const TokenId id : ids) total += probability[id];
  std::set<TokenId> kept;
  for (const TokenId id : ids) {
    if (sum >= share * total) break;
    sum += probability[id];
    kept.insert(id);
  }
  return kept;
}

std::vector<double> Softmax(const std::vector<float>& logits, double t) {
  std::vector<double> p;
  double total = 0;
  for (const float logit : logits) {
    p.push_back(std::exp(double{logit} / t));
    total += p.back();
  }
  for (double& one : p) one /= total;
  return p;
}

// Only the beginning of the order is made, in growing pieces.
TEST(Candidates, KeepWhatAFullSortKeeps) {
  TestRandom random(11);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed 11, round " + std::to_string(round));
    std::vector<float> logits(1 + random.Below(1500));
    for (float& logit : logits) logit = random.Normal(2);
    const float t = 0.3f + static_cast<float>(random.Below(30)) / 10;
    const double share = (1 + random.Below(99)) / 100.0;
    const std::vector<double> p = Softmax(logits, t);
    std::vector<double> surprise, atypical;
    double entropy = 0;
    for (const double one : p) {
      surprise.push_back(-std::log(one));
      entropy += one * surprise.back();
    }
    for (const double one : surprise) {
      atypical.push_back(std::abs(one - entropy));
    }
    const std::vector<TokenId> all = AllIds(logits.size());
    const auto top =
        After(logits, t, [&](Candidates& c) { c.KeepTopP(share); });
    EXPECT_EQ(std::set<TokenId>(top.begin(), top.end()),
              NaiveShare(p, all, surprise, share));
    const auto typical =
        After(logits, t, [&](Candidates& c) { c.KeepTypical(share); });
    EXPECT_EQ(std::set<TokenId>(typical.begin(), typical.end()),
              NaiveShare(p, all, atypical, share));
    const size_t k = 1 + random.Below(2000);
    const auto best = After(logits, t, [&](Candidates& c) { c.KeepTopK(k); });
    EXPECT_EQ(best.size(), std::min(k, logits.size()));
  }
}

// Each token owns a stretch of [0, 1) as long as it is probable: evenly spread
// points meet it as often, up to the two ends of the stretch.
TEST(Candidates, EachIsMetAsOftenAsItIsProbable) {
  constexpr int kPoints = 5000;
  const std::vector<float> logits = {0, 2, -3, 1.5f, 0.5f, -1};
  for (const float t : {0.5f, 1.0f, 4.0f}) {
    std::vector<TokenId> ids = AllIds(logits.size());
    const Candidates candidates(logits, t, ids);
    std::map<TokenId, int> met;
    for (int i = 0; i < kPoints; ++i) {
      ++met[candidates.At((i + 0.5) / kPoints)];
    }
    const std::vector<double> p = Softmax(logits, t);
    for (TokenId id = 0; id < 6; ++id) {
      EXPECT_NEAR(met[id], kPoints * p[id], 1.001) << id << " at " << t;
    }
  }
}

}  // namespace
}  // namespace kvasir

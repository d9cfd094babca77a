#include "cache/eviction_policy.h"

#include "gtest/gtest.h"

namespace kvasir {
namespace {

BlockFacts Facts(int64_t last_use, int64_t depth, int64_t hit_count = 0) {
  return {.block = BlockId(0),
          .version = VersionId(0),
          .depth = depth,
          .last_use = last_use,
          .hit_count = hit_count};
}

TEST(LruPolicyTest, TheLeastRecentlyUsedGoesFirst) {
  // Neither depth nor hits weigh more than time.
  const auto lru = MakeLruPolicy();
  EXPECT_LT(lru->RankOf(Facts(1, 0, 9), 9), lru->RankOf(Facts(2, 5), 9));
}

TEST(LruPolicyTest, RanksNeitherDepthNorTheTimeOfAsking) {
  // Equal ranks leave it to the order that the deeper block goes first.
  const auto lru = MakeLruPolicy();
  EXPECT_EQ(lru->RankOf(Facts(3, 5), 4), lru->RankOf(Facts(3, 1), 9));
  EXPECT_FALSE(lru->ranks_change());
}

TEST(EvictionPolicyByNameTest, KnowsTheDefaultAndRefusesTheUnknown) {
  // A misspelt option must not silently become another policy.
  EXPECT_TRUE(EvictionPolicyByName(kDefaultEvictionPolicy).ok());
  EXPECT_TRUE(EvictionPolicyByName("lru").ok());
  const auto unknown = EvictionPolicyByName("mru");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message(), "wanted adaptive or lru, found mru");
}

}  // namespace
}  // namespace kvasir

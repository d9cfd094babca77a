#include "cache/eviction_policy.h"

#include "gtest/gtest.h"

namespace kvasir {
namespace {

EvictionCandidate Candidate(int64_t last_use, int64_t depth,
                            int64_t hit_count = 0) {
  return {.block = BlockId(0),
          .version = VersionId(0),
          .last_use = last_use,
          .depth = depth,
          .hit_count = hit_count};
}

TEST(LruPolicyTest, TheLeastRecentlyUsedGoesFirst) {
  // Neither depth nor hits weigh more than time.
  const auto lru = MakeLruPolicy();
  EXPECT_TRUE(lru->Before(Candidate(1, 0, 9), Candidate(2, 5)));
  EXPECT_FALSE(lru->Before(Candidate(2, 5), Candidate(1, 0, 9)));
}

TEST(LruPolicyTest, AmongEqualsTheDeepestGoesFirst) {
  // A prefix that loses its head first is lost as a whole.
  const auto lru = MakeLruPolicy();
  EXPECT_TRUE(lru->Before(Candidate(1, 5), Candidate(1, 4)));
  EXPECT_FALSE(lru->Before(Candidate(1, 4), Candidate(1, 5)));
}

TEST(LruPolicyTest, NoCandidateGoesBeforeItsEqual) {
  // A heap on an order that is not strict loops or loses elements.
  const auto lru = MakeLruPolicy();
  EXPECT_FALSE(lru->Before(Candidate(3, 3), Candidate(3, 3)));
}

}  // namespace
}  // namespace kvasir

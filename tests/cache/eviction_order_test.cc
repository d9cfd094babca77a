#include "cache/eviction_order.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

EvictionCandidate Candidate(int block, int64_t last_use, int64_t depth = 0) {
  return {.block = BlockId(block),
          .version = VersionId(0),
          .last_use = last_use,
          .depth = depth};
}

std::vector<BlockId> Drain(EvictionOrder& order) {
  std::vector<BlockId> blocks;
  while (order.size() > 0) {
    blocks.push_back(order.First());
    order.Remove(blocks.back());
  }
  return blocks;
}

TEST(EvictionOrderTest, YieldsBlocksAsThePolicyRanksThem) {
  // The order belongs to the policy; the container only remembers it.
  EvictionOrder order(MakeLruPolicy());
  order.Insert(Candidate(0, 5));
  order.Insert(Candidate(1, 2, 1));
  order.Insert(Candidate(2, 9));
  order.Insert(Candidate(3, 2, 7));
  EXPECT_THAT(Drain(order),
              ElementsAre(BlockId(3), BlockId(1), BlockId(0), BlockId(2)));
}

TEST(EvictionOrderTest, BreaksTiesByIdSoThatRunsRepeat) {
  // Insertion order must not decide: a replayed trace has to evict alike.
  EvictionOrder order(MakeLruPolicy());
  for (const int block : {4, 2, 8, 6}) order.Insert(Candidate(block, 1));
  EXPECT_THAT(Drain(order),
              ElementsAre(BlockId(2), BlockId(4), BlockId(6), BlockId(8)));
}

TEST(EvictionOrderTest, ServesAnyPolicy) {
  // Most hits first: a policy of a test, through the same interface.
  class MostHits final : public EvictionPolicy {
    bool Before(const EvictionCandidate& a,
                const EvictionCandidate& b) const override {
      return a.hit_count > b.hit_count;
    }
  };
  EvictionOrder order(std::make_unique<MostHits>());
  EvictionCandidate loved = Candidate(1, 1);
  loved.hit_count = 3;
  order.Insert(Candidate(0, 1));
  order.Insert(loved);
  EXPECT_EQ(order.First(), BlockId(1));
}

TEST(EvictionOrderTest, AgreesWithASortedVector) {
  // Removal from the middle has to move the last element up or down; a heap
  // that does only one of them is wrong rarely.
  for (const unsigned seed : {1u, 2u, 3u}) {
    std::cout << "seed " << seed << "\n";
    std::mt19937 random(seed);
    EvictionOrder order(MakeLruPolicy());
    std::vector<EvictionCandidate> twin;
    for (int i = 0; i < 5000; ++i) {
      const BlockId block(static_cast<int>(random() % 40));
      const auto present = std::find_if(
          twin.begin(), twin.end(),
          [&](const EvictionCandidate& c) { return c.block == block; });
      ASSERT_EQ(order.Contains(block), present != twin.end());
      if (present != twin.end()) {
        order.Remove(block);
        twin.erase(present);
      } else {
        twin.push_back(Candidate(block.value(), random() % 6, random() % 3));
        order.Insert(twin.back());
      }
      std::sort(twin.begin(), twin.end(), [](const auto& a, const auto& b) {
        if (a.last_use != b.last_use) return a.last_use < b.last_use;
        if (a.depth != b.depth) return a.depth > b.depth;
        return a.block < b.block;
      });
      ASSERT_EQ(order.size(), static_cast<int64_t>(twin.size()));
      if (!twin.empty()) {
        ASSERT_EQ(order.First(), twin.front().block);
      }
      ASSERT_THAT(order.Violations(), IsEmpty());
    }
    order.Clear();
    EXPECT_FALSE(order.Contains(twin.front().block));
    order.Insert(twin.front());
    EXPECT_EQ(order.First(), twin.front().block);
  }
}

TEST(EvictionOrderDeathTest, StopsBlocksThatAreInItTwiceOrNotAtAll) {
  // A block evicted twice would free somebody else's.
  EvictionOrder order(MakeLruPolicy());
  EXPECT_DEATH((void)order.First(), "nothing can be evicted");
  order.Insert(Candidate(1, 1));
  EXPECT_DEATH(order.Insert(Candidate(1, 2)), "block 1");
  EXPECT_DEATH(order.Remove(BlockId(2)), "block 2 is not in the order");
}

}  // namespace
}  // namespace kvasir

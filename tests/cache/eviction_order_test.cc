#include "cache/eviction_order.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

EvictionOrder::Place At(int block, EvictionRank rank, int64_t depth = 0) {
  return {.rank = rank, .depth = depth, .block = BlockId(block)};
}

std::vector<BlockId> Drain(EvictionOrder& order) {
  std::vector<BlockId> blocks;
  while (order.size() > 0) {
    blocks.push_back(order.First());
    order.Remove(blocks.back());
  }
  return blocks;
}

TEST(EvictionOrderTest, YieldsTheSmallestRankFirstAndOfEqualsTheDeepest) {
  // A prefix that loses its head before its end is lost as a whole.
  EvictionOrder::Positions positions;
  EvictionOrder order(positions);
  order.Insert(At(0, 5));
  order.Insert(At(1, 2, 1));
  order.Insert(At(2, 9));
  order.Insert(At(3, 2, 7));
  EXPECT_THAT(Drain(order),
              ElementsAre(BlockId(3), BlockId(1), BlockId(0), BlockId(2)));
}

TEST(EvictionOrderTest, BreaksTiesByIdSoThatRunsRepeat) {
  // Insertion order must not decide: a replayed trace has to evict alike.
  EvictionOrder::Positions positions;
  EvictionOrder order(positions);
  for (const int block : {4, 2, 8, 6}) order.Insert(At(block, 1));
  EXPECT_THAT(Drain(order),
              ElementsAre(BlockId(2), BlockId(4), BlockId(6), BlockId(8)));
}

TEST(EvictionOrderTest, FirstsOfSeveralOrdersCanBeCompared) {
  // Tenants and versions have orders of their own and one policy.
  EvictionOrder::Positions positions;
  EvictionOrder one(positions);
  EvictionOrder other(positions);
  one.Insert(At(0, 3));
  one.Insert(At(1, 1.5));
  other.Insert(At(2, 1.25));
  EXPECT_TRUE(EvictionOrder::ComesBefore(other.FirstPlace(), one.FirstPlace()));
  EXPECT_FALSE(
      EvictionOrder::ComesBefore(one.FirstPlace(), other.FirstPlace()));
}

TEST(EvictionOrderTest, OrdersShareOneNoteOfPlaces) {
  // Each knows its own blocks all the same, and a refresh asks for no others.
  EvictionOrder::Positions positions;
  EvictionOrder one(positions);
  EvictionOrder other(positions);
  for (int block = 0; block < 20; ++block) {
    (block % 2 == 0 ? one : other).Insert(At(block, block));
  }
  EXPECT_TRUE(one.Contains(BlockId(4)));
  EXPECT_FALSE(other.Contains(BlockId(4)));
  for (int i = 0; i < 20; ++i) {
    one.Refresh([&](BlockId block) {
      EXPECT_EQ(block.value() % 2, 0);
      return static_cast<EvictionRank>(-block.value());
    });
  }
  EXPECT_EQ(one.First(), BlockId(18));
  one.Clear();
  EXPECT_EQ(other.size(), 10);
  EXPECT_EQ(other.First(), BlockId(1));
  other.Remove(BlockId(1));
  one.Insert(At(1, 7));
  EXPECT_THAT(one.Violations(), IsEmpty());
  EXPECT_THAT(other.Violations(), IsEmpty());
}

TEST(EvictionOrderTest, AgreesWithASortedVector) {
  // Removal from the middle has to move the last element up or down; a heap
  // that does only one of them is wrong rarely.
  for (const unsigned seed : {1u, 2u, 3u}) {
    std::cout << "seed " << seed << "\n";
    std::mt19937 random(seed);
    EvictionOrder::Positions positions;
    EvictionOrder order(positions);
    std::vector<EvictionOrder::Place> twin;
    for (int i = 0; i < 5000; ++i) {
      const BlockId block(static_cast<int>(random() % 40));
      const auto present = std::find_if(
          twin.begin(), twin.end(),
          [&](const EvictionOrder::Place& p) { return p.block == block; });
      ASSERT_EQ(order.Contains(block), present != twin.end());
      if (present != twin.end()) {
        order.Remove(block);
        twin.erase(present);
      } else {
        twin.push_back(At(block.value(), random() % 6, random() % 3));
        order.Insert(twin.back());
      }
      std::sort(twin.begin(), twin.end(), [](const auto& a, const auto& b) {
        if (a.rank != b.rank) return a.rank < b.rank;
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

TEST(EvictionOrderTest, RefreshLetsTheFirstFallBackAndBringsOthersForward) {
  // Ranks that rise are seen when their block comes up; ranks that fall would
  // never be, if nobody asked in turn.
  EvictionOrder::Positions positions;
  EvictionOrder order(positions);
  std::vector<EvictionRank> ranks;
  for (int block = 0; block < 100; ++block) {
    ranks.push_back(block);
    order.Insert(At(block, block));
  }
  ranks[0] = 1000;
  ranks[99] = -1;
  const auto rank_of = [&](BlockId block) { return ranks[block.value()]; };
  order.Refresh(rank_of);
  EXPECT_EQ(order.First(), BlockId(1));
  EXPECT_THAT(order.Violations(), IsEmpty());
  for (int i = 0; i < 25; ++i) order.Refresh(rank_of);
  EXPECT_EQ(order.First(), BlockId(99));
}

TEST(EvictionOrderTest, RefreshCostsABoundedNumberOfRanks) {
  // A policy that changes its mind about everything at once must not stop the
  // engine for as long as the cache is large.
  EvictionOrder::Positions positions;
  EvictionOrder order(positions);
  for (int block = 0; block < 1000; ++block) order.Insert(At(block, block));
  int64_t calls = 0;
  const auto rank_of = [&](BlockId block) {
    ++calls;
    return 5000.0 - block.value();
  };
  order.Refresh(rank_of);
  EXPECT_GT(calls, 1);
  EXPECT_LE(calls, EvictionOrder::kMaxReranks);
  EXPECT_THAT(order.Violations(), IsEmpty());
}

TEST(EvictionOrderTest, RefreshedOrderAgreesWithTheRanksOnceTheyRest) {
  // While ranks change the order may be late; afterwards it has to come right.
  for (const unsigned seed : {4u, 5u}) {
    std::cout << "seed " << seed << "\n";
    std::mt19937 random(seed);
    EvictionOrder::Positions positions;
    EvictionOrder order(positions);
    std::vector<EvictionRank> ranks(60);
    const auto rank_of = [&](BlockId block) { return ranks[block.value()]; };
    for (int i = 0; i < 3000; ++i) {
      const BlockId block(static_cast<int>(random() % ranks.size()));
      ranks[random() % ranks.size()] = random() % 50;
      if (order.Contains(block)) {
        order.Remove(block);
      } else {
        order.Insert(At(block.value(), rank_of(block), random() % 3));
      }
      order.Refresh(rank_of);
      ASSERT_THAT(order.Violations(), IsEmpty());
    }
    for (int i = 0; i < 60; ++i) order.Refresh(rank_of);
    EvictionRank last = -1;
    for (const BlockId block : Drain(order)) {
      EXPECT_GE(rank_of(block), last);
      last = rank_of(block);
    }
  }
}

TEST(EvictionOrderDeathTest, StopsBlocksThatAreInItTwiceOrNotAtAll) {
  // A block evicted twice would free somebody else's.
  EvictionOrder::Positions positions;
  EvictionOrder order(positions);
  EXPECT_DEATH((void)order.First(), "nothing can be evicted");
  order.Insert(At(1, 1));
  EXPECT_DEATH(order.Insert(At(1, 2)), "block 1");
  EXPECT_DEATH(order.Insert(At(2, std::nan(""))), "rank nan");
  EXPECT_DEATH(order.Remove(BlockId(2)), "block 2 is not in the order");
}

}  // namespace
}  // namespace kvasir

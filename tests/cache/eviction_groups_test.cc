#include "cache/eviction_groups.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <random>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using testing::IsEmpty;

EvictionGroupKey Key(int version, int32_t priority = 50, bool pinned = false) {
  return {
      .version = VersionId(version), .priority = priority, .pinned = pinned};
}

EvictionOrder::Place Place(int block, double rank = 0, int64_t depth = 0) {
  return {.rank = rank, .depth = depth, .block = BlockId(block)};
}

// By priority; pinned ones are protected.
EvictionStanding ByPriority(const EvictionGroupKey& key) {
  if (key.pinned) return std::nullopt;
  return key.priority;
}

TEST(EvictionGroupsTest, AStandingComesBeforeEveryRank) {
  // A policy that finds a warmed prefix dull must not get it evicted before
  // what nobody wants to keep.
  EvictionGroups groups;
  groups.Insert(Key(0, 90), Place(1, /*rank=*/-1000));
  groups.Insert(Key(0, 10), Place(2, /*rank=*/1000));
  EXPECT_EQ(groups.First(ByPriority, nullptr), BlockId(2));
  groups.Remove(BlockId(2));
  EXPECT_EQ(groups.First(ByPriority, nullptr), BlockId(1));
}

TEST(EvictionGroupsTest, BetweenGroupsOfOneStandingTheRankDecides) {
  // Versions and tenants are told apart for their accounts, not for their luck.
  EvictionGroups groups;
  groups.Insert(Key(0), Place(1, 5));
  groups.Insert(Key(1), Place(2, 4));
  groups.Insert(Key(1), Place(3, 6));
  EXPECT_EQ(groups.First(ByPriority, nullptr), BlockId(2));
  groups.Remove(BlockId(2));
  EXPECT_EQ(groups.First(ByPriority, nullptr), BlockId(1));
}

TEST(EvictionGroupsTest, GuardedBlocksWaitUntilTheyMayGo) {
  // A policy that cannot pay for a block must not lose it for its rank, but
  // what is kept by a higher priority stays all the same.
  EvictionGroups groups;
  EvictionGroupKey guarded = Key(0);
  guarded.guarded = true;
  groups.Insert(guarded, Place(1, 1));
  groups.Insert(Key(0), Place(2, 2));
  groups.Insert(Key(1), Place(3, 3));
  groups.Insert(Key(0, 60), Place(4, 0));
  EXPECT_EQ(groups.First(ByPriority, nullptr, false), BlockId(2));
  EXPECT_EQ(groups.First(ByPriority, nullptr, true), BlockId(1));
  groups.Remove(BlockId(2));
  EXPECT_EQ(groups.First(ByPriority, nullptr, false), BlockId(3));
  groups.Remove(BlockId(3));
  EXPECT_EQ(groups.First(ByPriority, nullptr, false), BlockId(1));
}

TEST(EvictionGroupsTest, NobodyIsFirstWhereAllAreProtected) {
  EvictionGroups groups;
  EXPECT_FALSE(groups.First(ByPriority, nullptr).valid());
  groups.Insert(Key(0, 0, /*pinned=*/true), Place(1));
  EXPECT_FALSE(groups.First(ByPriority, nullptr).valid());
  EXPECT_EQ(groups.size(), 1);
}

TEST(EvictionGroupsTest, EmptyGroupsAreTakenAgain) {
  // Or a daemon that makes a version a day would walk over years of them.
  EvictionGroups groups;
  for (int version = 0; version < 1000; ++version) {
    groups.Insert(Key(version), Place(7));
    groups.Remove(BlockId(7));
  }
  EXPECT_EQ(groups.group_count(), 1);
}

TEST(EvictionGroupsTest, OfManyPrioritiesFewEmptyGroupsAreLeft) {
  // A client that uses all of them must not leave their room behind.
  EvictionGroups groups;
  for (int priority = 0; priority <= 100; ++priority) {
    for (const bool guarded : {false, true}) {
      EvictionGroupKey key = Key(0, priority);
      key.guarded = guarded;
      groups.Insert(key, Place(2 * priority + (guarded ? 1 : 0)));
    }
  }
  EXPECT_EQ(groups.group_count(), 202);
  EXPECT_TRUE(groups.Offers(ByPriority));
  for (int block = 0; block < 202; ++block) groups.Remove(BlockId(block));
  EXPECT_EQ(groups.group_count(),
            static_cast<int64_t>(EvictionGroups::kMaxEmptyGroups));
  EXPECT_FALSE(groups.Offers(ByPriority));
  EXPECT_THAT(groups.Violations(), IsEmpty());
}

TEST(EvictionGroupsDeathTest, ABlockIsInOneGroupOnly) {
  EvictionGroups groups;
  groups.Insert(Key(0), Place(1));
  EXPECT_DEATH(groups.Insert(Key(1), Place(1)), "block 1");
  EXPECT_DEATH(groups.Remove(BlockId(2)), "block 2 is in no group");
}

TEST(EvictionGroupsTest, AgreesWithASortedList) {
  // Random joins and leaves against a list that is searched through.
  const uint32_t seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  const auto draw = [&](int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random);
  };
  using Twin = std::map<int, std::pair<EvictionGroupKey, EvictionOrder::Place>>;
  EvictionGroups groups;
  Twin twin;
  for (int turn = 0; turn < 5000; ++turn) {
    const int block = draw(60);
    if (twin.erase(block) > 0) {
      groups.Remove(BlockId(block));
    } else {
      auto key = Key(draw(3), 10 * draw(3), draw(5) == 0);
      key.guarded = draw(2) == 0;
      const auto place = Place(block, draw(4), draw(4));
      groups.Insert(key, place);
      twin.emplace(block, std::pair(key, place));
    }
    const bool guarded_too = draw(2) == 0;
    const Twin::value_type* first = nullptr;
    for (const auto& entry : twin) {
      const auto& [key, place] = entry.second;
      if (key.pinned) continue;
      const auto order = [&](const Twin::value_type& e) {
        const auto& [k, p] = e.second;
        const bool waits = k.guarded && !guarded_too;
        return std::tuple(k.priority, waits, p.rank, -p.depth, e.first);
      };
      if (first == nullptr || order(entry) < order(*first)) first = &entry;
    }
    ASSERT_EQ(groups.First(ByPriority, nullptr, guarded_too),
              first == nullptr ? BlockId() : BlockId(first->first));
    ASSERT_EQ(groups.size(), static_cast<int64_t>(twin.size()));
    ASSERT_THAT(groups.Violations(), IsEmpty());
  }
}

}  // namespace
}  // namespace kvasir

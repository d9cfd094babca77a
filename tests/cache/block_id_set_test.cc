#include "cache/block_id_set.h"

#include <iostream>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(BlockIdSetTest, FirstIsTheLowestAcrossWordsAndLevels) {
  // A summary bit left behind sends First() into an empty word.
  BlockIdSet set;
  set.Resize(64 * 64 * 64 + 1);
  for (const int id : {64 * 64 * 64, 64 * 64, 4095, 64, 63, 1}) {
    set.Insert(BlockId(id));
    EXPECT_EQ(set.First(), BlockId(id));
  }
  for (const int id : {1, 63, 64, 4095, 64 * 64}) {
    EXPECT_EQ(set.First(), BlockId(id));
    set.Erase(BlockId(id));
  }
  EXPECT_EQ(set.First(), BlockId(64 * 64 * 64));
  EXPECT_EQ(set.size(), 1);
}

TEST(BlockIdSetTest, ResizeKeepsMembersWhenLevelsComeAndGo) {
  // 64 ids are one level, 65 are two: growth has to build the new summary.
  BlockIdSet set;
  set.Resize(64);
  set.Insert(BlockId(5));
  set.Resize(100'000);
  EXPECT_TRUE(set.Contains(BlockId(5)));
  EXPECT_EQ(set.First(), BlockId(5));
  set.Insert(BlockId(99'999));
  set.Erase(BlockId(5));
  EXPECT_EQ(set.First(), BlockId(99'999));
  set.Insert(BlockId(3));
  set.Erase(BlockId(99'999));
  set.Resize(4);
  EXPECT_EQ(set.First(), BlockId(3));
  EXPECT_EQ(set.universe(), 4);
}

TEST(BlockIdSetTest, AgreesWithAnOrderedSet) {
  // Random insertions, erasures and resizes at the sizes where levels change.
  for (const unsigned seed : {1u, 2u, 3u}) {
    std::cout << "seed " << seed << "\n";
    std::mt19937 random(seed);
    BlockIdSet set;
    std::set<int> twin;
    int universe = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (i % 500 == 0) {
        const int lowest = twin.empty() ? 0 : *twin.rbegin() + 1;
        universe = lowest + static_cast<int>(random() % 5000);
        set.Resize(universe);
      }
      if (universe == 0) continue;
      const int id = static_cast<int>(random() % universe);
      ASSERT_EQ(set.Contains(BlockId(id)), twin.count(id) > 0);
      if (twin.erase(id) > 0) {
        set.Erase(BlockId(id));
      } else if (random() % 8 == 0) {
        set.Insert(BlockId(id));
        twin.insert(id);
      }
      ASSERT_EQ(set.size(), static_cast<int64_t>(twin.size()));
      if (!twin.empty()) {
        ASSERT_EQ(set.First(), BlockId(*twin.begin()));
      }
    }
  }
}

TEST(BlockIdSetDeathTest, RefusesWhatWouldCorruptIt) {
  // Freeing a block twice must stop here, and not grant one block to two.
  BlockIdSet set;
  set.Resize(10);
  set.Insert(BlockId(7));
  EXPECT_DEATH(set.Insert(BlockId(7)), "id 7 is a member");
  EXPECT_DEATH(set.Erase(BlockId(6)), "id 6 is no member");
  EXPECT_DEATH(set.Contains(BlockId(10)), "id 10 of 10");
  EXPECT_DEATH(set.Contains(BlockId()), "id -1 of 10");
  EXPECT_DEATH(set.Resize(7), "id 7 is a member beyond");
  set.Erase(BlockId(7));
  EXPECT_DEATH(set.First(), "empty");
}

}  // namespace
}  // namespace kvasir

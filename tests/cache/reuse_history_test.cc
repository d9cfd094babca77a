#include "cache/reuse_history.h"

#include <algorithm>
#include <iostream>
#include <list>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(ReuseHistoryTest, MarksWhatALeastRecentlyUsedCacheWouldHold) {
  // The marks decide whether what was learned is any good.
  ReuseHistory history;
  history.Resize(2);
  history.LimitRecent(2);
  for (const BlockName name : {1, 2, 1, 3}) history.Use(name);
  EXPECT_TRUE(history.Find(1)->recent);
  EXPECT_FALSE(history.Find(2)->recent);
  EXPECT_TRUE(history.Find(3)->recent);
  EXPECT_EQ(history.oldest().name, 2u);
  history.LimitRecent(1);
  EXPECT_FALSE(history.Find(1)->recent);
  history.LimitRecent(0);
  EXPECT_EQ(history.recent_count(), 0);
}

TEST(ReuseHistoryTest, KeepsWhatItKnowsOfABlockThatComesBack) {
  // Returns are told from new blocks by this alone.
  ReuseHistory history;
  history.Resize(1);
  history.Use(7).use_count = 3;
  history.Use(8);
  EXPECT_EQ(history.Use(7).use_count, 3);
  EXPECT_EQ(history.Find(9), nullptr);
}

TEST(ReuseHistoryTest, MemoryIsBoundedAndFollowsTheSizeOfTheCache) {
  // One entry for every block ever seen would be a leak.
  ReuseHistory history;
  constexpr int64_t kBlocks =
      2 * ReuseHistory::kMinEntries / ReuseHistory::kEntriesPerBlock;
  history.Resize(kBlocks);
  BlockName name = 0;
  for (int i = 0; i < 200'000; ++i) {
    history.Use(++name);
    ASSERT_LE(history.size(), 2 * ReuseHistory::kMinEntries);
  }
  EXPECT_EQ(history.size(), 2 * ReuseHistory::kMinEntries);
  history.Resize(1);
  for (int i = 0; i < 100'000; ++i) history.Use(++name);
  EXPECT_EQ(history.size(), ReuseHistory::kMinEntries);
  EXPECT_EQ(history.Find(name - ReuseHistory::kMinEntries), nullptr);
  EXPECT_NE(history.Find(name - ReuseHistory::kMinEntries + 1), nullptr);
}

TEST(ReuseHistoryTest, AgreesWithAList) {
  // Links, marks and gaps that are filled: each wrong one shows rarely. Enough
  // names that entries are forgotten, few enough that they come back.
  for (const unsigned seed : {1u, 2u}) {
    std::cout << "seed " << seed << "\n";
    std::mt19937 random(seed);
    ReuseHistory history;
    history.Resize(1);
    std::list<BlockName> twin;  // newest first
    for (BlockName name = ReuseHistory::kMinEntries; name > 0; --name) {
      history.Use(1'000'000 + name);
    }
    int64_t limit = 0;
    int64_t recent = 0;
    for (int i = 0; i < 5'000; ++i) {
      const BlockName name = 1 + random() % 300;
      const auto known = std::find(twin.begin(), twin.end(), name);
      const bool was_recent =
          known != twin.end() && std::distance(twin.begin(), known) < recent;
      if (known != twin.end()) twin.erase(known);
      twin.push_front(name);
      recent += was_recent ? 0 : 1;
      recent = std::min(recent, limit);
      history.Use(name);
      if (i % 50 == 0) limit = static_cast<int64_t>(random() % 200);
      history.LimitRecent(limit);
      recent = std::min(recent, limit);
      ASSERT_EQ(history.recent_count(), recent);
      int64_t place = 0;
      for (const BlockName each : twin) {
        ASSERT_EQ(history.Find(each)->recent, place++ < recent) << each;
      }
    }
  }
}

}  // namespace
}  // namespace kvasir

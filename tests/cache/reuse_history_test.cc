#include "cache/reuse_history.h"

#include <algorithm>
#include <iostream>
#include <list>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

BlockFacts Block(BlockName name) {
  return {.block = BlockId(static_cast<int>(name % 1000)), .name = name};
}

TEST(ReuseHistoryTest, MarksWhatALeastRecentlyUsedCacheWouldHold) {
  // The marks decide what may be evicted.
  ReuseHistory history;
  history.Resize(2);
  history.LimitRecent(2);
  for (const BlockName name : {1, 2, 1, 3}) history.Use(Block(name));
  EXPECT_TRUE(history.Find(Block(1))->recent);
  EXPECT_FALSE(history.Find(Block(2))->recent);
  EXPECT_TRUE(history.Find(Block(3))->recent);
  EXPECT_FALSE(history.Use(Block(2)).was_recent);
  EXPECT_TRUE(history.Use(Block(3)).was_recent);
  history.LimitRecent(1);
  EXPECT_FALSE(history.Find(Block(2))->recent);
  history.LimitRecent(0);
  EXPECT_EQ(history.recent_count(), 0);
}

TEST(ReuseHistoryTest, CountsWhatIsMissingUntilItIsOldOrBack) {
  // Each of these can cost the policy a hit, and nothing else can.
  ReuseHistory history;
  history.Resize(3);
  history.LimitRecent(3);
  for (const BlockName name : {1, 2, 3}) history.Use(Block(name));
  history.Evict(Block(1), /*from_both=*/false);
  history.Evict(Block(2), /*from_both=*/false);
  EXPECT_EQ(history.missing_count(), 2);
  history.Use(Block(2));
  EXPECT_EQ(history.missing_count(), 1);
  history.Use(Block(4));
  EXPECT_EQ(history.missing_count(), 0);
  // An eviction that neither cache could help.
  history.Evict(Block(4), /*from_both=*/true);
  EXPECT_EQ(history.missing_count(), 0);
  EXPECT_FALSE(history.Find(Block(4))->recent);
  EXPECT_EQ(history.recent_count(), 2);
}

TEST(ReuseHistoryTest, TellsOnceOfEachBlockThatOnlyTheCacheHolds) {
  // An order that is not told would go on sparing them.
  ReuseHistory history;
  history.Resize(2);
  history.LimitRecent(2);
  for (const BlockName name : {1, 2, 3, 4, 5}) history.Use(Block(name));
  history.Evict(Block(2), /*from_both=*/false);
  EXPECT_EQ(history.TakeStale(), BlockId(1));
  BlockFacts moved = Block(3);
  moved.block = BlockId(77);
  history.Relocate(moved);
  EXPECT_EQ(history.TakeStale(), BlockId(77));
  EXPECT_FALSE(history.TakeStale().valid());
  history.Use(Block(3));
  EXPECT_EQ(history.TakeStale(), BlockId(4));
  history.EvictAll();
  EXPECT_FALSE(history.TakeStale().valid());
}

TEST(ReuseHistoryTest, KeepsWhatItKnowsOfABlockThatComesBack) {
  // Returns are told from new blocks by this alone, under whatever id.
  ReuseHistory history;
  history.Resize(1);
  history.Use(Block(7)).entry.use_count = 3;
  history.Use(Block(8));
  BlockFacts back = Block(7);
  back.block = Block(8).block;
  EXPECT_EQ(history.Use(back).entry.use_count, 3);
  EXPECT_EQ(history.Find(Block(8))->name, 8u);
  EXPECT_EQ(history.Find(Block(9)), nullptr);
}

TEST(ReuseHistoryTest, MemoryIsBoundedAndFollowsTheSizeOfTheCache) {
  // One entry for every block ever seen would be a leak.
  ReuseHistory history;
  constexpr int64_t kBlocks =
      2 * ReuseHistory::kMinEntries / ReuseHistory::kEntriesPerBlock;
  history.Resize(kBlocks);
  BlockName name = 0;
  for (int i = 0; i < 200'000; ++i) {
    const auto used = history.Use(Block(++name));
    if (used.forgotten.has_value()) {
      ASSERT_EQ(used.forgotten->name, name - 2 * ReuseHistory::kMinEntries);
    }
    ASSERT_LE(history.size(), 2 * ReuseHistory::kMinEntries);
  }
  EXPECT_EQ(history.size(), 2 * ReuseHistory::kMinEntries);
  history.Resize(1);
  for (int i = 0; i < 200'000; ++i) history.Use(Block(++name));
  EXPECT_EQ(history.size(), ReuseHistory::kMinEntries);
  EXPECT_EQ(history.Find(Block(name - ReuseHistory::kMinEntries)), nullptr);
  EXPECT_NE(history.Find(Block(name - ReuseHistory::kMinEntries + 1)), nullptr);
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
    std::set<BlockName> cached;
    for (BlockName name = ReuseHistory::kMinEntries; name > 0; --name) {
      history.Use(Block(1'000'000 + name));
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
      ASSERT_EQ(history.Use(Block(name)).was_recent, was_recent);
      cached.insert(name);
      const BlockName gone = 1 + random() % 300;
      history.Evict(Block(gone), /*from_both=*/false);
      cached.erase(gone);
      if (i % 50 == 0) limit = static_cast<int64_t>(random() % 200);
      history.LimitRecent(limit);
      recent = std::min(recent, limit);
      ASSERT_EQ(history.recent_count(), recent);
      int64_t place = 0;
      int64_t missing = 0;
      for (const BlockName each : twin) {
        missing += place < recent && !cached.contains(each);
        ASSERT_EQ(history.Find(Block(each))->recent, place++ < recent) << each;
      }
      ASSERT_EQ(history.missing_count(), missing);
    }
  }
}

}  // namespace
}  // namespace kvasir

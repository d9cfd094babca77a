#include "cache/prefix_cache.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using TokenVector = std::vector<TokenId>;

constexpr int32_t kBlockTokens = 2;
constexpr VersionId kVersion(0);

// Puts heads of prefixes first, which is the worst it can do.
class ShallowFirst final : public EvictionPolicy {
  EvictionRank RankOf(const BlockFacts& block, int64_t) const override {
    return static_cast<EvictionRank>(block.depth);
  }
};

// Writes down what it is told, as "event block-depth@tick".
class Diary final : public EvictionPolicy {
 public:
  explicit Diary(std::vector<std::string>& lines) : lines_(lines) {}
  void OnResize(int64_t blocks) override {
    lines_.push_back(absl::StrCat("resize ", blocks));
  }
  void OnHit(const BlockFacts& block, int64_t tick) override {
    Note("hit", block, tick);
  }
  void OnInsert(const BlockFacts& block, int64_t tick) override {
    Note("insert", block, tick);
  }
  void OnRelease(const BlockFacts& block) override {
    Note("release", block, block.last_use);
  }
  void OnEvict(const BlockFacts& block) override {
    Note("evict", block, block.last_use);
  }
  void OnFlush() override { lines_.push_back("flush"); }
  // Falls with each tick that the block rests: most recently used first.
  EvictionRank RankOf(const BlockFacts& block, int64_t tick) const override {
    return static_cast<EvictionRank>(tick - block.last_use) + offset_;
  }
  bool ranks_change() const override { return true; }

 private:
  void Note(absl::string_view event, const BlockFacts& block, int64_t tick) {
    EXPECT_NE(block.name, 0);
    lines_.push_back(absl::StrCat(event, " ", block.depth, "@", tick));
  }

  static constexpr EvictionRank offset_ = 100;
  std::vector<std::string>& lines_;
};

// Guards every block until it is told to let one go, and finds the youngest
// the dullest.
class Guard final : public EvictionPolicy {
 public:
  struct Wishes {
    std::vector<BlockId> unguarded;
    bool pays = false;
    size_t told = 0;  // of `unguarded`
  };
  explicit Guard(Wishes& wishes) : wishes_(wishes) {}
  EvictionRank RankOf(const BlockFacts& block, int64_t) const override {
    return -static_cast<EvictionRank>(block.last_use);
  }
  bool Guards(const BlockFacts& block) const override {
    return !absl::c_linear_search(wishes_.unguarded, block.block);
  }
  bool may_evict_guarded() const override { return wishes_.pays; }
  BlockId TakeUnguarded() override {
    if (wishes_.told == wishes_.unguarded.size()) return BlockId();
    return wishes_.unguarded[wishes_.told++];
  }

 private:
  Wishes& wishes_;
};

class PrefixCacheTest : public testing::Test {
 protected:
  explicit PrefixCacheTest(
      std::unique_ptr<EvictionPolicy> policy = MakeLruPolicy())
      : pool_(kBlockTokens),
        prefixes_(pool_, kBlockTokens, 64, std::move(policy)) {
    pool_.Grow(16);
  }

  BlockIdentity Identity(BlockId parent, const TokenVector& tokens) {
    return {.parent = parent, .scope = scope_, .tokens = tokens};
  }

  // The table of a sequence whose block `i` holds blocks[i]; found where it is
  // cached, published where it is not.
  BlockTable Table(const std::vector<TokenVector>& blocks) {
    BlockTable table;
    BlockId parent;
    for (const TokenVector& tokens : blocks) {
      const BlockIdentity identity = Identity(parent, tokens);
      BlockRef block = prefixes_.Find(identity);
      if (!block.held()) {
        block = pool_.Grant(kVersion);
        pool_.Fill(block, kBlockTokens);
        prefixes_.Publish(identity, block);
      }
      parent = block.block();
      table.Append(std::move(block));
    }
    return table;
  }

  // How many leading blocks of `blocks` can be found; pins none of them.
  int64_t Found(const std::vector<TokenVector>& blocks) {
    int64_t found = 0;
    BlockId parent;
    for (const TokenVector& tokens : blocks) {
      const BlockRef block = prefixes_.Find(Identity(parent, tokens));
      if (!block.held()) break;
      parent = block.block();
      pinned_.Append(pool_.Pin(parent));
      ++found;
    }
    prefixes_.Release(std::exchange(pinned_, BlockTable()));
    return found;
  }

  BlockPool pool_;
  PrefixCache prefixes_;
  BlockTable pinned_;
  std::shared_ptr<const BlockScope> scope_ =
      std::make_shared<const BlockScope>(BlockScope{.fingerprint = "aa"});
  const TokenVector a_ = {1, 1};
  const TokenVector b_ = {2, 2};
  const TokenVector c_ = {3, 3};
  const TokenVector d_ = {4, 4};
};

TEST_F(PrefixCacheTest, ReleasedBlocksAreFoundAgainAndPinnedByIt) {
  // The whole point of the cache.
  prefixes_.Release(Table({a_, b_}));
  EXPECT_EQ(pool_.tally().blocks.cached, 2);
  BlockTable again = Table({a_, b_, c_});
  EXPECT_EQ(pool_.tally().blocks.cached, 0);
  EXPECT_EQ(pool_.tally().blocks.pinned, 3);
  EXPECT_THAT(prefixes_.Violations(), IsEmpty());
  prefixes_.Release(std::move(again));
  EXPECT_THAT(prefixes_.Violations(), IsEmpty());
}

TEST_F(PrefixCacheTest, APrefixIsEatenFromItsEnd) {
  // What is left of a half-evicted prefix must still be of use.
  prefixes_.Release(Table({a_, b_, c_}));
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_EQ(prefixes_.index().size(), 2);
  EXPECT_EQ(Found({a_, b_, c_}), 2);
  EXPECT_THAT(prefixes_.Violations(), IsEmpty());
}

TEST_F(PrefixCacheTest, TheLeastRecentlyUsedBranchGoesFirst) {
  // A shared head lives as long as its youngest branch.
  prefixes_.Release(Table({a_, b_}));
  prefixes_.Release(Table({a_, c_}));
  prefixes_.Release(Table({c_, a_}));
  prefixes_.Release(Table({a_, b_}));
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_EQ(prefixes_.index().size(), 4);
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_EQ(Found({c_, a_}), 0);
  EXPECT_EQ(Found({a_, c_}), 1);
  EXPECT_EQ(Found({a_, b_}), 2);
}

class ShallowFirstTest : public PrefixCacheTest {
 protected:
  ShallowFirstTest() : PrefixCacheTest(std::make_unique<ShallowFirst>()) {}
};

TEST_F(ShallowFirstTest, NoPolicyCanTearAPrefixApart) {
  // A policy that wants the head first gets the end first all the same, and
  // everything cached can be evicted.
  prefixes_.Release(Table({a_, b_, c_}));
  prefixes_.Release(Table({a_, c_}));
  for (int64_t left = 3; left >= 0; --left) {
    EXPECT_TRUE(prefixes_.EvictOne());
    EXPECT_EQ(prefixes_.index().size(), left);
    EXPECT_THAT(prefixes_.Violations(), IsEmpty());
  }
  EXPECT_EQ(pool_.tally().blocks.free, 16);
}

class GuardTest : public PrefixCacheTest {
 protected:
  GuardTest() : GuardTest(std::make_shared<Guard::Wishes>()) {}
  Guard::Wishes& wishes() { return *wishes_; }
  BlockId Head(const TokenVector& tokens) {
    return prefixes_.Peek(Identity(BlockId(), tokens));
  }

 private:
  explicit GuardTest(std::shared_ptr<Guard::Wishes> wishes)
      : PrefixCacheTest(std::make_unique<Guard>(*wishes)),
        wishes_(std::move(wishes)) {}
  const std::shared_ptr<Guard::Wishes> wishes_;
};

TEST_F(GuardTest, GuardedBlocksStayUntilThePolicyLetsThemGo) {
  // A policy that owes its users hits must be able to spare what they need,
  // from the moment it says so, whatever its ranks were when a block came to
  // rest; and memory is found even if it would spare all.
  prefixes_.Release(Table({a_}));
  prefixes_.Release(Table({b_}));
  prefixes_.Release(Table({c_}));
  prefixes_.Release(Table({d_}));
  wishes().unguarded.push_back(Head(b_));
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_FALSE(Head(b_).valid());
  wishes().pays = true;
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_FALSE(Head(d_).valid());
  wishes().pays = false;
  wishes().unguarded.push_back(Head(a_));
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_FALSE(Head(a_).valid());
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_EQ(prefixes_.index().size(), 0);
  EXPECT_THAT(prefixes_.Violations(), IsEmpty());
}

TEST_F(GuardTest, HearsOnlyOfChoicesThatAreMade) {
  // Who is told that something will go, and nothing goes or by somebody else's
  // choice, reckons with a cache that is not there.
  prefixes_.book().SetVersionQuota(kVersion, 1);
  BlockTable running = Table({a_});
  wishes().unguarded.push_back(Head(a_));
  EXPECT_FALSE(prefixes_.EvictOne());
  EXPECT_EQ(wishes().told, 0u);
  prefixes_.Release(std::move(running));
  EXPECT_TRUE(prefixes_.EvictOverQuota(8)) << "it keeps no more";
  prefixes_.Release(Table({b_}));
  EXPECT_TRUE(prefixes_.EvictOverQuota(8));
  EXPECT_EQ(prefixes_.index().size(), 1);
  EXPECT_EQ(wishes().told, 0u);
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_EQ(wishes().told, 1u);
}

class DiaryTest : public PrefixCacheTest {
 protected:
  DiaryTest() : DiaryTest(std::make_shared<std::vector<std::string>>()) {}
  std::vector<std::string> Lines() { return std::exchange(*lines_, {}); }

 private:
  explicit DiaryTest(std::shared_ptr<std::vector<std::string>> lines)
      : PrefixCacheTest(std::make_unique<Diary>(*lines)),
        lines_(std::move(lines)) {}
  const std::shared_ptr<std::vector<std::string>> lines_;
};

TEST_F(DiaryTest, ThePolicyHearsOfEveryStepInABlocksLife) {
  // A policy that learns from what it is told learns nonsense from gaps.
  prefixes_.Release(Table({a_, b_}));
  EXPECT_THAT(Lines(), ElementsAre("resize 16", "insert 0@0", "insert 1@0",
                                   "release 1@1", "release 0@1"));
  BlockTable again = Table({a_});
  prefixes_.RecordHit(again.ids()[0]);
  EXPECT_THAT(Lines(), ElementsAre("hit 0@1"));
  prefixes_.Release(std::move(again));
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_THAT(Lines(), ElementsAre("release 0@2", "evict 1@1"));
  pool_.Grow(20);
  prefixes_.Release(Table({c_}));
  prefixes_.Flush();
  EXPECT_THAT(Lines(),
              ElementsAre("resize 20", "insert 0@2", "release 0@3", "flush"));
}

TEST_F(DiaryTest, RanksAreAskedForAgainAsTimeGoesOn) {
  // Ranked as they came to rest all three would be equal, and the first one
  // would go; by now the youngest one should.
  prefixes_.Release(Table({a_}));
  prefixes_.Release(Table({b_}));
  prefixes_.Release(Table({c_}));
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_EQ(Found({c_}), 0);
  EXPECT_EQ(Found({a_}), 1);
}

TEST_F(PrefixCacheTest, WhatRoomWasMadeForGrowsNoTable) {
  // A table that moves to a larger place stops every stream meanwhile.
  prefixes_.Reserve(16);
  BlockTable first = Table({a_});
  const BlockId block = first.ids()[0];
  const void* const entry = &prefixes_.index().At(block);
  const void* const key = &prefixes_.index().Key(block);
  const void* const record = &prefixes_.book().Of(block);
  const BlockTable others =
      Table({b_, a_, b_, c_, d_, a_, b_, c_, d_, a_, b_, c_, d_, a_, b_});
  EXPECT_EQ(prefixes_.index().size(), 16);
  EXPECT_EQ(entry, &prefixes_.index().At(block));
  EXPECT_EQ(key, &prefixes_.index().Key(block));
  EXPECT_EQ(record, &prefixes_.book().Of(block));
}

TEST_F(PrefixCacheTest, PinnedBlocksAndTheirParentsAreNotEvicted) {
  // The blocks of a running sequence look idle while others come and go.
  prefixes_.Release(Table({a_, b_, c_}));
  BlockTable running = Table({a_, b_});
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_EQ(pool_.tally().blocks.cached, 0);
  EXPECT_FALSE(prefixes_.EvictOne());
  prefixes_.Release(std::move(running));
  EXPECT_TRUE(prefixes_.EvictOne());
  EXPECT_EQ(Found({a_, b_}), 1);
}

TEST_F(PrefixCacheTest, FlushFreesCachedBlocksAndForgetsPinnedOnes) {
  // After a flush nothing of before may be found, whoever still runs.
  prefixes_.Release(Table({a_, b_}));
  BlockTable running = Table({c_, b_});
  EXPECT_EQ(prefixes_.Flush(), 2);
  EXPECT_EQ(prefixes_.index().size(), 0);
  EXPECT_EQ(pool_.tally().blocks.pinned, 2);
  EXPECT_THAT(prefixes_.Violations(), IsEmpty());
  BlockTable second = Table({c_, b_});
  EXPECT_EQ(pool_.tally().blocks.pinned, 4) << "a flushed block was found";
  prefixes_.Release(std::move(running));
  EXPECT_EQ(pool_.tally().blocks.cached, 0);
  prefixes_.Release(std::move(second));
  EXPECT_EQ(pool_.tally().blocks.cached, 2);
  EXPECT_EQ(pool_.tally().blocks.free, 14);
}

}  // namespace
}  // namespace kvasir

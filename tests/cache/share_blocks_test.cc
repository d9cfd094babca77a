#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "cache/kv_cache.h"
#include "cache/memory/host_memory.h"
#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using ::testing::IsEmpty;

constexpr int32_t kBlock = kSmallBlock;

class ShareBlocksTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    auto made = KvCache::Create({.layout = SmallLayout(),
                                 .capacity_blocks = 32,
                                 .prefix_caching = GetParam()},
                                MakeHostMemory(), MakeLruPolicy());
    ASSERT_TRUE(made.ok());
    cache_ = *std::move(made);
    version_ = cache_->AddVersion("v", "00");
  }

  Lease Open(const std::vector<TokenId>& known, bool write) {
    auto lease = cache_->OpenLease({.version = version_,
                                    .tokens = known,
                                    .read_cache = false,
                                    .write_cache = write});
    EXPECT_TRUE(lease.ok());
    return *std::move(lease);
  }

  void Grow(Lease& lease, const std::vector<TokenId>& known, int64_t count) {
    const LeaseGrowth growth{
        &lease, absl::MakeConstSpan(known).subspan(lease.token_count(), count)};
    cache_->Reserve({&growth, 1}).Commit();
  }

  int64_t Pinned() const {
    return cache_->Snapshot().tiers.front().blocks.pinned;
  }

  std::vector<TokenId> known_ = Tokens(1, 14);
  std::unique_ptr<KvCache> cache_;
  VersionId version_;
};

INSTANTIATE_TEST_SUITE_P(PrefixCaching, ShareBlocksTest, testing::Bool());

// Sequences of one request hold their prompt once, also where nothing may be
// found by others.
TEST_P(ShareBlocksTest, FullBlocksAreHeldByBoth) {
  for (const bool write : {false, true}) {
    Lease first = Open(known_, write);
    Grow(first, known_, 10);
    Lease second = Open(known_, write);
    EXPECT_EQ(cache_->ShareBlocks(second, first, 13), 8);
    EXPECT_EQ(second.token_count(), 8);
    EXPECT_EQ(second.cached_token_count(), 0) << "nobody's hits";
    EXPECT_EQ(Pinned(), 3);
    EXPECT_EQ(second.Table().blocks[1], first.Table().blocks[1]);
    // More of it later; the open block is never shared.
    Grow(first, known_, 4);
    EXPECT_EQ(cache_->ShareBlocks(second, first, 13), 4);
    EXPECT_EQ(cache_->ShareBlocks(second, first, 13), 0);
    EXPECT_THAT(cache_->Violations(), IsEmpty());
    // What the first gives up the second keeps.
    first = Lease();
    EXPECT_EQ(Pinned(), 3);
    Grow(second, known_, 2);
    EXPECT_THAT(cache_->Violations(), IsEmpty());
  }
  cache_->Flush();
  EXPECT_EQ(cache_->Snapshot().tiers.front().blocks.free, 32);
}

TEST_P(ShareBlocksTest, StopsAtTheLimitAndInsideABlock) {
  Lease first = Open(known_, false);
  Grow(first, known_, 12);
  Lease second = Open(known_, false);
  EXPECT_EQ(cache_->ShareBlocks(second, first, 7), 4) << "whole blocks below";
  Grow(second, known_, 1);
  EXPECT_EQ(cache_->ShareBlocks(second, first, 14), 0) << "not at a border";
  const CacheCounters counters = cache_->Snapshot().counters;
  EXPECT_EQ(counters.hit_tokens, 0);
  EXPECT_EQ(counters.lookup_tokens, 0);
}

// Contract C6: a shrink moves blocks that two hold, and both follow. Random
// sequences of several requests, with the bytes of each token checked.
TEST_P(ShareBlocksTest, HoldsWhileThePoolShrinksAndGrows) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    std::vector<std::vector<Lease>> groups;
    for (int i = 0; i < 60; ++i) {
      const uint64_t choice = random() % 10;
      if (choice < 3 && groups.size() < 4) {
        groups.emplace_back();
        groups.back().push_back(Open(known_, random() % 2 == 0));
        Grow(groups.back()[0], known_, 1 + random() % 13);
      } else if (choice < 6 && !groups.empty()) {
        auto& group = groups[random() % groups.size()];
        if (group.size() > 3) continue;
        group.push_back(Open(known_, false));
        const int64_t shared =
            cache_->ShareBlocks(group.back(), group.front(), 13);
        EXPECT_EQ(shared, group.front().token_count() / kBlock * kBlock);
      } else if (choice < 8 && !groups.empty()) {
        groups.erase(groups.begin() + random() % groups.size());
      } else {
        ASSERT_TRUE(cache_->SetTarget(20 + random() % 13).ok());
      }
      ASSERT_TRUE(cache_->ContinueResize().ok());
      ASSERT_THAT(cache_->Violations(), IsEmpty());
      for (const auto& group : groups) {
        for (const Lease& lease : group) {
          const int64_t full =
              std::min(lease.token_count(), group.front().token_count()) /
              kBlock;
          for (int64_t block = 0; block < full; ++block) {
            EXPECT_EQ(lease.Table().blocks[block],
                      group.front().Table().blocks[block]);
          }
        }
      }
    }
    groups.clear();
    cache_->Flush();
    EXPECT_EQ(Pinned(), 0);
  }
}

}  // namespace
}  // namespace kvasir

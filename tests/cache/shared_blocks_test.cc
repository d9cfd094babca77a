// KvCache::CountSharedBlocks() and PinnedPrefixBlocks(): what admission may
// leave out of its sums.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "cache/kv_cache.h"
#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

class SharedBlocksTest : public ::testing::Test {
 protected:
  int64_t Shared(absl::Span<const TokenId> tokens, std::string_view salt = "",
                 bool read_cache = true) {
    return cache_->CountSharedBlocks({.version = version_,
                                      .tokens = tokens,
                                      .salt = salt,
                                      .read_cache = read_cache});
  }

  std::unique_ptr<KvCache> cache_ = MakeCache(SmallOptions(32));
  VersionId version_ = cache_->AddVersion("v", "00");
};

// Exactly what opening the lease takes less from the capacity, or admission
// would count wrong.
TEST_F(SharedBlocksTest, IsWhatALeaseTakesLess) {
  const std::vector<TokenId> tokens = Tokens(0, 80);
  const auto first = [&](int64_t count) {
    return absl::MakeConstSpan(tokens).subspan(0, count);
  };
  { const Lease done = OpenAndFill(*cache_, version_, first(20)); }
  const Lease held = OpenAndFill(*cache_, version_, first(13));
  for (const int64_t length : {1, 4, 5, 8, 9, 12, 13, 20, 21, 80}) {
    const int64_t shared = Shared(first(length));
    EXPECT_EQ(shared, std::min<int64_t>((length - 1) / kSmallBlock, 3));
    const int64_t before = cache_->Capacity().available_blocks();
    const Lease lease = Open(*cache_, version_, first(length));
    const int64_t taken = before - cache_->Capacity().available_blocks();
    EXPECT_EQ(taken, lease.block_count() - shared) << length;
  }
}

// A cached block that nobody holds is part of the capacity: taking it costs.
TEST_F(SharedBlocksTest, CachedBlocksAreNotShared) {
  const std::vector<TokenId> tokens = Tokens(0, 13);
  { const Lease done = OpenAndFill(*cache_, version_, tokens); }
  EXPECT_EQ(Shared(tokens), 0);
  EXPECT_EQ(FoundTokens(*cache_, version_, tokens), 12);
}

// Asking must not count as a look-up or a hit.
TEST_F(SharedBlocksTest, AskingChangesNothing) {
  const std::vector<TokenId> tokens = Tokens(0, 13);
  const Lease held = OpenAndFill(*cache_, version_, tokens);
  const CacheCounters before = cache_->Snapshot().counters;
  EXPECT_EQ(Shared(tokens), 3);
  const CacheCounters after = cache_->Snapshot().counters;
  EXPECT_EQ(after.lookup_tokens, before.lookup_tokens);
  EXPECT_EQ(after.hit_tokens, before.hit_tokens);
  EXPECT_TRUE(cache_->Violations().empty());
}

// What a lease would not find it does not share either.
TEST_F(SharedBlocksTest, FollowsTheRulesOfALease) {
  const std::vector<TokenId> tokens = Tokens(0, 13);
  const Lease held = OpenAndFill(*cache_, version_, tokens);
  EXPECT_EQ(Shared(tokens, "other tenant"), 0);
  EXPECT_EQ(Shared(tokens, "", false), 0);
  EXPECT_EQ(Shared(Tokens(1, 13)), 0);
  EXPECT_EQ(cache_->CountSharedBlocks(
                {.version = VersionId(7), .tokens = tokens, .salt = ""}),
            0);
  cache_->Flush();
  EXPECT_EQ(Shared(tokens), 0) << "held, but no longer findable";
}

// Its pins counted beside its tokens, a sequence that runs on a pinned prefix
// would drive out pins of others, and its own.
TEST_F(SharedBlocksTest, WhoRunsOnAPinnedPrefixNeedsItsRoomOnce) {
  const std::vector<TokenId> prompt = Tokens(0, 16 * kSmallBlock);
  const std::vector<TokenId> other = Tokens(1000, 6 * kSmallBlock);
  const auto pin = [&](const std::vector<TokenId>& tokens) {
    { const Lease done = OpenAndFill(*cache_, version_, tokens); }
    const auto found =
        cache_->FindPrefix({.version = version_, .tokens = tokens});
    return cache_->PinPrefix(found->key, absl::InfiniteDuration()).status();
  };
  ASSERT_TRUE(pin(prompt).ok());
  LeaseRequest request = {
      .version = version_, .most_tokens = 28 * kSmallBlock, .tokens = prompt};
  EXPECT_EQ(cache_->PinnedPrefixBlocks(request), 15) << "the last is computed";
  request.read_cache = false;
  EXPECT_EQ(cache_->PinnedPrefixBlocks(request), 0);
  request.read_cache = true;
  const Lease running = *cache_->OpenLease(request);
  EXPECT_TRUE(absl::IsResourceExhausted(pin(other)))
      << "13 blocks beside 16 and 6 are more than 32";
  for (const VersionState state :
       {VersionState::kDraining, VersionState::kServing}) {
    ASSERT_TRUE(cache_->MoveVersion(version_, state).ok());
  }
  EXPECT_EQ(cache_->PinnedPrefixBlocks(), 16) << "a rollback ends no pin";
}

}  // namespace
}  // namespace kvasir

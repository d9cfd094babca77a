#include "cache/prefix_admin.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::IsEmpty;
using TokenVector = std::vector<TokenId>;

constexpr int64_t B = kSmallBlock;

TokenVector Join(TokenVector first, const TokenVector& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// A stem of 2 blocks with branches of 1 and 3 blocks, and a tenant's own stem.
class PrefixAdminTest : public testing::Test {
 protected:
  PrefixAdminTest() {
    for (const TokenVector* prompt : {&left_, &right_, &right_}) {
      const Lease lease = OpenAndFill(*cache_, version_, *prompt);
    }
    const Lease lease = OpenAndFill(*cache_, version_, stem_, "tenant");
  }

  PrefixInfo Info(const TokenVector& prompt, const std::string& salt = "") {
    const auto info = cache_->FindPrefix(
        {.version = version_, .tokens = prompt, .salt = salt});
    EXPECT_TRUE(info.ok()) << info.status();
    return *info;
  }

  const TokenVector stem_ = Tokens(0, 2 * B);
  const TokenVector left_ = Join(stem_, Tokens(100, B));
  const TokenVector right_ = Join(stem_, Tokens(200, 3 * B));
  std::unique_ptr<KvCache> cache_ = MakeCache(SmallOptions(32));
  VersionId version_ = cache_->AddVersion("m", "aa");
};

TEST_F(PrefixAdminTest, ListsThePrefixesThatNothingFollows) {
  const std::vector<PrefixInfo> all = cache_->Prefixes({});
  ASSERT_EQ(all.size(), 3u);
  EXPECT_LT(all[0].key, all[1].key) << "in the order of keys, for paging";
  EXPECT_LT(all[1].key, all[2].key);
  const PrefixInfo right = Info(right_);
  EXPECT_EQ(right.token_count, 5 * B);
  EXPECT_EQ(right.block_count, 5);
  EXPECT_EQ(right.hit_count, 0) << "the last block of a prompt is computed";
  EXPECT_EQ(Info(stem_).hit_count, 2);
  EXPECT_EQ(right.lease_count, 0);
  EXPECT_EQ(right.version, version_);
  EXPECT_EQ(*Info(left_).parent, Info(stem_).key);
  const auto digits_of = [](const BlockKey& key) {
    return absl::BytesToHexString(std::string(key.begin(), key.end()))
        .substr(0, 8);
  };
  ASSERT_EQ(cache_->PrefixesByDigits(digits_of(all[1].key)).size(), 1u);
  EXPECT_EQ(cache_->PrefixesByDigits(digits_of(all[1].key))[0].key, all[1].key);
  EXPECT_THAT(cache_->PrefixesByDigits(digits_of(Info(stem_).key)),
              testing::IsEmpty())
      << "not listed";
  EXPECT_FALSE(Info(Tokens(0, B)).parent.has_value());
  EXPECT_EQ(cache_->FindPrefix(right.key)->key, right.key);
}

TEST_F(PrefixAdminTest, FiltersAndPinnedOnesInside) {
  EXPECT_EQ(cache_->Prefixes({.salt = "tenant"}).size(), 1u);
  EXPECT_EQ(cache_->Prefixes({.salt = "nobody"}).size(), 0u);
  EXPECT_EQ(cache_->Prefixes({.min_tokens = 3 * B}).size(), 2u);
  EXPECT_EQ(cache_->Prefixes({.version = VersionId(7)}).size(), 0u);
  ASSERT_TRUE(
      cache_->PinPrefix(Info(stem_).key, absl::InfiniteDuration()).ok());
  EXPECT_EQ(cache_->Prefixes({}).size(), 4u);
  const auto pinned = cache_->Prefixes({.pinned = true});
  ASSERT_EQ(pinned.size(), 1u);
  EXPECT_EQ(pinned[0].key, Info(stem_).key);
  EXPECT_EQ(pinned[0].pinned_until, absl::InfiniteDuration());
}

TEST_F(PrefixAdminTest, EvictsANamedPrefixAndWhatOnlyItNeeds) {
  // The stem is shared with the other branch and stays.
  const std::vector<BlockKey> keys = {Info(right_).key};
  EXPECT_EQ(cache_->EvictPrefixes(keys, true)->blocks, 3);
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 8) << "a dry run changes nothing";
  EXPECT_EQ(cache_->EvictPrefixes(keys, false)->blocks, 3);
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 5);
  EXPECT_EQ(Info(right_).token_count, 2 * B);
  EXPECT_EQ(cache_->EvictPrefixes({{Info(left_).key}}, false)->blocks, 3)
      << "now the stem is nobody else's";
  EXPECT_EQ(cache_->Snapshot().counters.evicted[EvictionCause::kNamed], 6);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(PrefixAdminTest, EvictingAStemTakesItsBranches) {
  // They could never be found again.
  const auto evicted = cache_->EvictPrefixes({{Info(stem_).key}}, false);
  EXPECT_EQ(evicted->blocks, 6);
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 2) << "the tenant's";
  EXPECT_EQ(
      cache_->EvictPrefixes({{Info(stem_, "tenant").key}, BlockKey{}}, false)
          .status()
          .code(),
      absl::StatusCode::kNotFound);
}

TEST_F(PrefixAdminTest, NamingEveryBranchTakesTheStem) {
  // Nothing is found through it any more, whoever named them in which order.
  const std::vector<BlockKey> keys = {Info(left_).key, Info(right_).key};
  EXPECT_EQ(cache_->EvictPrefixes(keys, true)->blocks, 6);
  EXPECT_EQ(cache_->EvictPrefixes(keys, false)->blocks, 6);
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 2) << "the tenant's";
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(PrefixAdminTest, AStemOfBranchesWithStemsGoesOnceAllAreNamed) {
  // A fork whose branches fork again: the last name completes all of them.
  const TokenVector other = Join(Join(stem_, Tokens(200, B)), Tokens(300, B));
  { const Lease lease = OpenAndFill(*cache_, version_, other); }
  const std::vector<BlockKey> two = {Info(right_).key, Info(other).key};
  EXPECT_EQ(cache_->EvictPrefixes(two, true)->blocks, 4)
      << "with the fork, but the other branch needs the stem";
  const std::vector<BlockKey> three = {two[0], Info(left_).key, two[1]};
  EXPECT_EQ(cache_->EvictPrefixes(three, true)->blocks, 7);
  EXPECT_EQ(cache_->EvictPrefixes(three, false)->blocks, 7);
}

TEST_F(PrefixAdminTest, APinnedBranchOutlivesItsStemsEviction) {
  // Only who names it means it.
  ASSERT_TRUE(
      cache_->PinPrefix(Info(right_).key, absl::InfiniteDuration()).ok());
  const auto evicted = cache_->EvictPrefixes({{Info(stem_).key}}, false);
  EXPECT_EQ(evicted->blocks, 1) << "the other branch";
  EXPECT_EQ(Info(right_).token_count, 5 * B);
  EXPECT_TRUE(Info(right_).pinned);
  EXPECT_EQ(cache_->EvictPrefixes({{Info(right_).key}}, false)->blocks, 5);
}

TEST_F(PrefixAdminTest, WhatIsHeldOrPinnedStays) {
  const Lease running = Open(*cache_, version_, Join(left_, {1}));
  ASSERT_TRUE(
      cache_->PinPrefix(Info(stem_, "tenant").key, absl::InfiniteDuration())
          .ok());
  const PrefixEviction evicted = cache_->EvictPrefixes(PrefixFilter{}, false);
  EXPECT_EQ(evicted.blocks, 3);
  EXPECT_EQ(evicted.kept_blocks, 5);
  EXPECT_EQ(Info(left_).lease_count, 1);
  EXPECT_EQ(cache_->EvictPrefixes({.pinned = true}, false).blocks, 1)
      << "who asks for pinned ones means them";
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(PrefixAdminTest, FindsAsMuchOfAPromptAsThereIs) {
  // All of it, while a lease leaves the last token to be computed.
  EXPECT_EQ(Info(Join(right_, Tokens(900, 2 * B))).token_count, 5 * B);
  EXPECT_EQ(Info(right_).token_count, 5 * B);
  EXPECT_EQ(
      cache_->FindPrefix({.version = version_, .tokens = {}}).status().code(),
      absl::StatusCode::kNotFound);
}

TEST(BlockTimesTest, AreThoseOfTheClock) {
  const auto cache = MakeCache(SmallOptions(32));
  const VersionId version = cache->AddVersion("m", "aa");
  const TokenVector prompt = Tokens(0, 2 * B + 1);
  const auto sum = [&](const Histogram& histogram, uint64_t count) {
    uint64_t total = 0;
    for (const uint64_t each : histogram.counts) total += each;
    EXPECT_EQ(total, count);
    return histogram.sum;
  };
  cache->Advance(absl::Seconds(100));
  { const Lease lease = OpenAndFill(*cache, version, prompt); }
  cache->Advance(absl::Seconds(107));
  EXPECT_EQ(FoundTokens(*cache, version, prompt), 2 * B);  // after 7 s
  cache->Advance(absl::Seconds(120));
  cache->Flush();
  const BlockTimes times = cache->Snapshot().times;
  EXPECT_EQ(sum(times.reuse_gap, 2), 2 * 7);
  EXPECT_EQ(sum(times.lifetime, 2), 2 * 20);
  EXPECT_EQ(sum(times.idle_before_evict, 2), 2 * 13);
}

}  // namespace
}  // namespace kvasir

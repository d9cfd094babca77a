#include "cache/hot_prefixes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

BlockKey Key(uint32_t number) {
  BlockKey key{};
  for (int i = 0; i < 4; ++i) key[i] = static_cast<uint8_t>(number >> (8 * i));
  return key;
}

void Count(HotPrefixes& hot, uint32_t number, int64_t length = 4) {
  hot.Count(Key(number), Tokens(static_cast<TokenId>(number), length), "");
}

std::vector<TokenId> FirstTokens(const std::vector<HotPrefix>& top) {
  std::vector<TokenId> first;
  for (const HotPrefix& prefix : top) first.push_back(prefix.tokens.front());
  return first;
}

TEST(HotPrefixes, TheHottestComeFirstWithWhatItTakesToReplayThem) {
  HotPrefixes hot;
  for (int i = 0; i < 3; ++i) hot.Count(Key(1), Tokens(10, 8), "tenant");
  for (int i = 0; i < 5; ++i) hot.Count(Key(2), Tokens(20, 4), "");
  hot.Count(Key(3), Tokens(30, 12), "");
  const std::vector<HotPrefix> top = hot.Top(2);
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].tokens, Tokens(20, 4));
  EXPECT_EQ(top[0].hits, 5);
  EXPECT_EQ(top[1].tokens, Tokens(10, 8));
  EXPECT_EQ(top[1].salt, "tenant");
  EXPECT_EQ(top[1].hits, 3);
  EXPECT_EQ(hot.Top(100).size(), 3u);
  EXPECT_EQ(hot.token_count(), 24);
  EXPECT_THAT(HotPrefixes().Top(5), IsEmpty());
}

// A lease that finds more later would count for both prefixes.
TEST(HotPrefixes, AHitThatIsTakenBackLeavesNothing) {
  HotPrefixes hot;
  Count(hot, 1);
  hot.TakeBack(Key(1));
  EXPECT_EQ(hot.size(), 0u);
  EXPECT_EQ(hot.token_count(), 0);
  hot.TakeBack(Key(1));
  for (int i = 0; i < 3; ++i) Count(hot, 2);
  hot.TakeBack(Key(2));
  EXPECT_EQ(hot.Top(1).front().hits, 2);
}

// A flood of prefixes that are hit once each must not hide the hot ones, nor
// take more memory.
TEST(HotPrefixes, AFloodNeitherHidesTheHotNorGrows) {
  HotPrefixes hot({.max_prefixes = 16, .age_hits = int64_t{1} << 40});
  for (uint32_t i = 0; i < 5000; ++i) {
    Count(hot, 1000 + i);
    if (i % 4 == 0) Count(hot, 1);
    if (i % 6 == 0) Count(hot, 2);
    ASSERT_LE(hot.size(), 16u);
  }
  EXPECT_THAT(FirstTokens(hot.Top(2)), ElementsAre(1, 2));
}

TEST(HotPrefixes, TokensAreBoundedTogether) {
  HotPrefixes hot(
      {.max_prefixes = 1000, .max_tokens = HotPrefixes::kMaxPrefixTokens});
  for (uint32_t i = 0; i < 100; ++i) {
    Count(hot, i, 1000);
    ASSERT_LE(hot.token_count(), HotPrefixes::kMaxPrefixTokens);
  }
  EXPECT_EQ(hot.size(), 16u);
  Count(hot, 7777, HotPrefixes::kMaxPrefixTokens);
  EXPECT_EQ(hot.size(), 1u) << "the largest one has room if it is alone";
}

// What was asked for last week is not what is worth warming today.
TEST(HotPrefixes, WhatWasHotOnceMakesWay) {
  HotPrefixes hot({.max_prefixes = 8, .age_hits = 100});
  for (int i = 0; i < 1000; ++i) Count(hot, 1);
  for (int i = 0; i < 400; ++i) Count(hot, 2);
  EXPECT_THAT(FirstTokens(hot.Top(2)), ElementsAre(2, 1));
}

// The algorithm's two promises beside an exact count: no more hits are told
// than there were, and whatever has more than its share is remembered.
TEST(HotPrefixes, AgreesWithAnExactCountWithinItsBounds) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    HotPrefixes hot({.max_prefixes = 24, .age_hits = int64_t{1} << 40});
    std::map<TokenId, int64_t> exact;
    int64_t hits = 0;
    for (int i = 0; i < 3000; ++i) {
      // A few are hot, most are not.
      const double u = std::uniform_real_distribution<>(0, 1)(random);
      const auto number = static_cast<uint32_t>(1 / (u + 0.002));
      Count(hot, number);
      ++exact[static_cast<TokenId>(number)];
      ++hits;
    }
    std::map<TokenId, int64_t> told;
    for (const HotPrefix& prefix : hot.Top(24)) {
      told[prefix.tokens.front()] = prefix.hits;
    }
    ASSERT_EQ(told.size(), hot.size());
    for (const auto& [number, count] : told) {
      EXPECT_LE(count, exact[number]) << number;
      EXPECT_GT(count, 0) << number;
    }
    for (const auto& [number, count] : exact) {
      if (count > hits / 24) {
        EXPECT_TRUE(told.contains(number)) << number << ", " << count;
      }
    }
  }
}

// --- As the cache feeds it.

class CacheHotPrefixesTest : public ::testing::Test {
 protected:
  void Fill(absl::Span<const TokenId> tokens, std::string_view salt = "") {
    (void)OpenAndFill(*cache_, version_, tokens, salt);
  }
  std::vector<HotPrefix> Top() const {
    return cache_->HottestPrefixes(version_, 10);
  }

  std::unique_ptr<KvCache> cache_ = MakeCache(SmallOptions(8));
  VersionId version_ = cache_->AddVersion("v", "aa");
};

TEST_F(CacheHotPrefixesTest, TheDeepestFoundBlockDecidesThePrefix) {
  Fill(Tokens(0, 12));
  EXPECT_THAT(Top(), IsEmpty()) << "what is not found is not hot";
  Fill(Tokens(0, 13), "other");
  EXPECT_THAT(Top(), IsEmpty());
  { const Lease lease = Open(*cache_, version_, Tokens(0, 13)); }
  { const Lease lease = Open(*cache_, version_, Tokens(0, 13)); }
  { const Lease lease = Open(*cache_, version_, Tokens(0, 9)); }
  const std::vector<HotPrefix> top = Top();
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].tokens, Tokens(0, 12));
  EXPECT_EQ(top[0].hits, 2);
  EXPECT_EQ(top[1].tokens, Tokens(0, 8));
  EXPECT_EQ(top[1].hits, 1);
}

TEST_F(CacheHotPrefixesTest, ALeaseThatFindsMoreCountsForTheLongerPrefix) {
  Fill(Tokens(0, 4));
  Lease late = Open(*cache_, version_, Tokens(0, 13));
  ASSERT_EQ(late.token_count(), 4);
  ASSERT_EQ(Top().size(), 1u);
  Fill(Tokens(0, 12));  // finds 4 tokens itself
  ASSERT_EQ(Top().front().hits, 2);
  EXPECT_EQ(cache_->ExtendLease(late, Tokens(0, 13)), 8);
  const std::vector<HotPrefix> top = Top();
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].hits + top[1].hits, 2) << "two leases found something";
}

TEST_F(CacheHotPrefixesTest, SurvivesEvictionButNotItsVersion) {
  Fill(Tokens(0, 12), "salt");
  { const Lease hit = Open(*cache_, version_, Tokens(0, 13), "salt"); }
  for (TokenId i = 1; i <= 4; ++i) Fill(Tokens(100 * i, 16));
  ASSERT_EQ(FoundTokens(*cache_, version_, Tokens(0, 13), "salt"), 0);
  ASSERT_EQ(Top().size(), 1u);
  EXPECT_EQ(Top().front().tokens, Tokens(0, 12));
  EXPECT_EQ(Top().front().salt, "salt");
  const VersionId other = cache_->AddVersion("w", "bb");
  EXPECT_THAT(cache_->HottestPrefixes(other, 10), IsEmpty());
  ASSERT_TRUE(cache_->MoveVersion(version_, VersionState::kDraining).ok());
  ASSERT_TRUE(cache_->MoveVersion(version_, VersionState::kRetired).ok());
  EXPECT_THAT(Top(), IsEmpty());
}

// Who flushes a tenant's prompts does not want them computed again, in the next
// version for instance, nor shown.
TEST_F(CacheHotPrefixesTest, AFlushForgetsWhatItMeans) {
  const auto hit_both = [this] {
    for (const char* salt : {"one", "two"}) {
      Fill(Tokens(0, 5), salt);
      const Lease hit = Open(*cache_, version_, Tokens(0, 5), salt);
    }
    ASSERT_EQ(Top().size(), 2u);
  };
  hit_both();
  const auto sweep_one = [this](EvictionCause cause) {
    PrefixSweep sweep;
    sweep.cause = cause;
    sweep.filter.salt.emplace("one");
    while (!cache_->Continue(sweep)) {
    }
  };
  sweep_one(EvictionCause::kNamed);
  EXPECT_EQ(Top().size(), 2u) << "evicted, but not flushed";
  sweep_one(EvictionCause::kFlush);
  ASSERT_EQ(Top().size(), 1u);
  EXPECT_EQ(Top().front().salt, "two");
  hit_both();
  cache_->Flush();
  EXPECT_THAT(Top(), IsEmpty());
}

// C3: a request counts once, however often it was preempted.
TEST_F(CacheHotPrefixesTest, AResumedLeaseCountsForNothing) {
  Fill(Tokens(0, 12));
  const std::vector<TokenId> tokens = Tokens(0, 13);
  const Lease lease = Open(*cache_, {.version = version_,
                                     .tokens = tokens,
                                     .resumed = true,
                                     .recompute_tokens = 12});
  EXPECT_EQ(lease.token_count(), 12);
  EXPECT_THAT(Top(), IsEmpty());
}

}  // namespace
}  // namespace kvasir

// Quotas that are shares of the cache, through the cache's front door.

#include <memory>
#include <string>

#include "cache/retention.h"
#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::IsEmpty;

class TenantShareTest : public testing::Test {
 protected:
  TenantShareTest()
      : cache_(MakeCache(SmallOptions(32))),
        version_(cache_->AddVersion("m", "aa")) {}

  // One-off prompts of `blocks` blocks each that have nothing in common.
  void Flood(int count, int64_t blocks, const std::string& salt = "") {
    for (int i = 0; i < count; ++i) {
      const auto tokens = Tokens(next_one_off_, blocks * kSmallBlock);
      const Lease lease = OpenAndFill(*cache_, version_, tokens, salt);
      next_one_off_ += 1000;
    }
  }

  std::unique_ptr<KvCache> cache_;
  VersionId version_;
  TokenId next_one_off_ = 0;
};

TEST_F(TenantShareTest, SharesAreOfTheBlocksThatThereAre) {
  // A tenth of the cache is a tenth after a resize, too, both ways.
  const auto resize = [&](int64_t blocks) {
    ASSERT_TRUE(cache_->SetTarget(blocks).ok());
    while (!cache_->resize().done()) {
      ASSERT_TRUE(cache_->ContinueResize().ok());
    }
    EXPECT_THAT(cache_->Violations(), IsEmpty());
  };
  ASSERT_TRUE(
      cache_->SetTenantQuota("t", {.floor_ratio = 0.25, .max_ratio = 0.5})
          .ok());
  const auto quota = [&] { return cache_->Snapshot().tenants.at(0).quota; };
  EXPECT_EQ(quota(), (TenantQuota{.floor_blocks = 8, .max_blocks = 16}));
  EXPECT_EQ(cache_->KeptBlocks(16), 4) << "of what would be";
  Flood(12, 2, "t");
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 16);
  resize(16);
  EXPECT_EQ(quota(), (TenantQuota{.floor_blocks = 4, .max_blocks = 8}));
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 8);
  EXPECT_EQ(cache_->KeptBlocks(16), 4);
  Flood(20, 2);
  EXPECT_EQ(cache_->Snapshot().tenants.at(0).blocks, 4) << "the floor";
  resize(32);
  EXPECT_EQ(quota(), (TenantQuota{.floor_blocks = 8, .max_blocks = 16}));
  Flood(12, 2, "t");
  EXPECT_EQ(cache_->Snapshot().tenants.at(0).blocks, 16);
}

TEST_F(TenantShareTest, WhatASmallerPoolWouldKeepIsReckonedWithItsFloors) {
  // Or a resize waits for room, or ends a request, that nobody has to give.
  ASSERT_TRUE(cache_->SetTenantQuota("t", {.floor_ratio = 0.25}).ok());
  const auto tokens = Tokens(0, 8 * kSmallBlock);
  { const Lease lease = OpenAndFill(*cache_, version_, tokens, "t"); }
  EXPECT_EQ(cache_->KeptBlocksAtRest(32), 8);
  EXPECT_EQ(cache_->KeptBlocksAtRest(16), 4);
  EXPECT_EQ(cache_->KeptBlocksAtRest(64), 8) << "of more there is no more";
  {
    const auto part = absl::MakeConstSpan(tokens).first(3 * kSmallBlock + 1);
    const Lease lease = Open(*cache_, version_, part, "t");
    EXPECT_EQ(cache_->KeptBlocksAtRest(32), 5);
    EXPECT_EQ(cache_->KeptBlocksAtRest(16), 1) << "what is held counts first";
    EXPECT_EQ(cache_->KeptBlocksAtRest(8), 0);
  }
  // Floors in blocks have to share what may be kept of the smaller pool.
  ASSERT_TRUE(cache_->SetTenantQuota("t", {.floor_blocks = 8}).ok());
  ASSERT_TRUE(cache_->SetTenantQuota("u", {.floor_blocks = 16}).ok());
  Flood(2, 8, "u");
  EXPECT_EQ(cache_->KeptBlocksAtRest(32), 24);
  EXPECT_EQ(cache_->KeptBlocksAtRest(16), 4 + 8);
}

TEST_F(TenantShareTest, AShareOfASmallPoolIsStillALimit) {
  // Of a single block a half is none, and none would mean no limit at all.
  EXPECT_EQ((TenantQuota{.floor_ratio = 0.5, .max_ratio = 0.5}.Of(1)),
            (TenantQuota{.floor_blocks = 0, .max_blocks = 1}));
  // Written in different units they can cross when the pool shrinks.
  EXPECT_EQ((TenantQuota{.floor_blocks = 8, .max_ratio = 0.5}.Of(10)),
            (TenantQuota{.floor_blocks = 5, .max_blocks = 5}));
  EXPECT_EQ(
      cache_->SetTenantQuota("t", {.floor_blocks = 8, .max_ratio = 0.2}).code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache_->SetTenantQuota("t", {.floor_ratio = 1.5}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(cache_->SetTenantQuota("t", {.floor_ratio = 0.8}).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(TenantShareSliceTest, AShareThatShrinksIsTakenBackInSlices) {
  // With a million blocks the others would wait for it all.
  const auto cache = MakeCache(SmallOptions(4096));
  const VersionId version = cache->AddVersion("m", "aa");
  ASSERT_TRUE(cache->SetTenantQuota("t", {.max_ratio = 0.75}).ok());
  for (TokenId i = 0; i < 60; ++i) {
    const Lease lease =
        OpenAndFill(*cache, version, Tokens(i * 1000, 50 * kSmallBlock), "t");
  }
  const auto evicted = [&] {
    return cache->Snapshot().counters.evicted[EvictionCause::kQuota];
  };
  EXPECT_EQ(evicted(), 0);
  ASSERT_TRUE(cache->SetTarget(2048).ok());
  EXPECT_EQ(evicted(), 1024);
  EXPECT_LE(cache->NextDeadline(), absl::ZeroDuration()) << "there is more";
  cache->Advance(absl::ZeroDuration());
  EXPECT_EQ(evicted(), 3000 - 2048 * 3 / 4);
  EXPECT_EQ(cache->NextDeadline(), absl::InfiniteDuration());
  EXPECT_THAT(cache->Violations(), IsEmpty());
}

}  // namespace
}  // namespace kvasir

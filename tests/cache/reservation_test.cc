#include "cache/reservation.h"

#include <optional>
#include <utility>
#include <vector>

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ReservationTest : public testing::Test {
 protected:
  Reservation Reserve(Lease& lease, const std::vector<TokenId>& tokens) {
    const LeaseGrowth growth{.lease = &lease, .tokens = tokens};
    return cache_->Reserve({&growth, 1});
  }

  std::unique_ptr<KvCache> cache_ = MakeCache(SmallOptions(8));
  VersionId version_ = cache_->AddVersion("m", "aa");
};

TEST_F(ReservationTest, ShowsTheTableOfAfterwardsAndTheLeaseThatOfBefore) {
  // Kernels write behind what the lease holds; nobody else may count on it.
  Lease lease = OpenAndFill(*cache_, version_, Tokens(0, 5));
  Reservation reservation = Reserve(lease, Tokens(5, 8));
  EXPECT_THAT(reservation.Table(0).blocks,
              ElementsAre(BlockId(0), BlockId(1), BlockId(2), BlockId(3)));
  EXPECT_THAT(lease.Table().blocks, ElementsAre(BlockId(0), BlockId(1)));
  EXPECT_EQ(lease.token_count(), 5);
  EXPECT_EQ(DeviceBlocks(*cache_).reserved, 2);
  std::move(reservation).Commit();
  EXPECT_EQ(lease.Table().blocks.size(), 4u);
  EXPECT_EQ(lease.token_count(), 13);
  EXPECT_EQ(DeviceBlocks(*cache_).reserved, 0);
}

TEST_F(ReservationTest, DroppedItGivesBackEverythingItTook) {
  // A failed step never happened (DESIGN 3.5): blocks, places in the open
  // block and accounts are as before.
  Lease a = OpenAndFill(*cache_, version_, Tokens(0, 6));
  Lease b = OpenAndFill(*cache_, version_, Tokens(50, 1));
  const CacheSnapshot before = cache_->Snapshot();
  {
    const auto a_more = Tokens(6, 5);
    const auto b_more = Tokens(51, 2);
    const LeaseGrowth growths[] = {{.lease = &a, .tokens = a_more},
                                   {.lease = &b, .tokens = b_more}};
    const Reservation reservation = cache_->Reserve(growths);
    EXPECT_EQ(DeviceBlocks(*cache_).reserved, 1);
    EXPECT_THAT(cache_->Violations(), IsEmpty());
  }
  const CacheSnapshot after = cache_->Snapshot();
  EXPECT_EQ(after.tiers[0].blocks, before.tiers[0].blocks);
  EXPECT_EQ(after.tiers[0].bytes, before.tiers[0].bytes);
  EXPECT_EQ(after.versions[0].bytes, before.versions[0].bytes);
  EXPECT_EQ(after.counters.inserted_blocks, before.counters.inserted_blocks);
  EXPECT_EQ(a.token_count(), 6);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
  Append(*cache_, a, Tokens(6, 5));
  EXPECT_EQ(a.token_count(), 11);
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 12)), 8);
}

TEST_F(ReservationTest, DroppedItGivesBackPiecesToo) {
  // The open block that was to become full is in pieces again, with its
  // tokens, and so is whatever it was moved for.
  cache_ = MakeCache(SmallOptions(8, 16));
  version_ = cache_->AddVersion("m", "aa");
  Lease a = OpenAndFill(*cache_, version_, Tokens(0, 22));
  Lease b = OpenAndFill(*cache_, version_, Tokens(50, 3));
  EXPECT_EQ(a.piece_count(), 6);
  EXPECT_EQ(a.Table().tail.size(), 2u);
  const CacheSnapshot before = cache_->Snapshot();
  EXPECT_EQ(before.tiers[0].split_blocks, 1);
  {
    const auto a_more = Tokens(22, 15);
    const auto b_more = Tokens(53, 8);
    const LeaseGrowth growths[] = {{.lease = &a, .tokens = a_more},
                                   {.lease = &b, .tokens = b_more}};
    const Reservation reservation = cache_->Reserve(growths);
    EXPECT_EQ(reservation.Table(0).blocks.size(), 2u);
    EXPECT_EQ(reservation.Table(0).tail.size(), 2u);
    EXPECT_EQ(reservation.Table(1).tail.size(), 3u);
    EXPECT_EQ(a.Table().blocks.size(), 2u) << "as whole as it will be";
    EXPECT_EQ(a.Table().tail.size(), 0u);
    EXPECT_EQ(b.Table().tail.size(), 1u);
    EXPECT_EQ(cache_->Snapshot().tiers[0].bytes.reserved,
              4 * SmallLayout(16).BlockBytes() / 4);
    EXPECT_THAT(cache_->Violations(), IsEmpty());
  }
  const CacheSnapshot after = cache_->Snapshot();
  EXPECT_EQ(after.tiers[0].bytes, before.tiers[0].bytes);
  EXPECT_EQ(after.versions[0].bytes, before.versions[0].bytes);
  EXPECT_EQ(a.Table().tail.size(), 2u);
  EXPECT_EQ(a.token_count(), 22);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
  Append(*cache_, a, Tokens(22, 11));
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 33)), 32);
}

TEST_F(ReservationTest, WhatWasEvictedForADroppedOneStaysEvicted) {
  // The old content may be overwritten already.
  { const Lease gone = OpenAndFill(*cache_, version_, Tokens(0, 32)); }
  Lease lease = Open(*cache_, version_, Tokens(100, 9));
  { const Reservation reservation = Reserve(lease, Tokens(100, 9)); }
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 5);
  EXPECT_EQ(DeviceBlocks(*cache_).free, 3);
  EXPECT_EQ(cache_->Snapshot().counters.evicted[EvictionCause::kCapacity], 3);
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 33)), 20);
}

TEST_F(ReservationTest, TwoLeasesThatFillTheSameBlockInOneStepShareIt) {
  // Two clients send one prompt at the same moment: neither finds it, both
  // compute it, one copy is kept (contract C2: their bytes are equal).
  Lease a = Open(*cache_, version_, Tokens(0, 10));
  Lease b = Open(*cache_, version_, Tokens(0, 10));
  const auto tokens = Tokens(0, 10);
  const LeaseGrowth growths[] = {{.lease = &a, .tokens = tokens},
                                 {.lease = &b, .tokens = tokens}};
  Reservation reservation = cache_->Reserve(growths);
  EXPECT_NE(reservation.Table(0).blocks[0], reservation.Table(1).blocks[0]);
  std::move(reservation).Commit();
  EXPECT_EQ(a.Table().blocks[0], b.Table().blocks[0]);
  EXPECT_EQ(a.Table().blocks[1], b.Table().blocks[1]);
  EXPECT_NE(a.Table().blocks[2], b.Table().blocks[2]) << "an open block";
  EXPECT_EQ(DeviceBlocks(*cache_).pinned, 4);
  EXPECT_EQ(cache_->Snapshot().counters.deduplicated_blocks, 2);
  EXPECT_EQ(cache_->Snapshot().counters.inserted_blocks, 2);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(ReservationTest, ACachedTwinTakesThePlaceOfAFreshCopy) {
  // The twin's lease may have ended while this one was computing.
  Lease late = Open(*cache_, version_, Tokens(0, 9));
  { const Lease early = OpenAndFill(*cache_, version_, Tokens(0, 9)); }
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 2);
  Append(*cache_, late, Tokens(0, 9));
  EXPECT_THAT(late.Table().blocks.subspan(0, 2),
              ElementsAre(BlockId(0), BlockId(1)));
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 0);
  EXPECT_EQ(DeviceBlocks(*cache_).pinned, 3);
  EXPECT_EQ(late.cached_token_count(), 0) << "computed, so not a hit";
}

TEST_F(ReservationTest, MovesWithItsContent) {
  // Runners take it by value.
  Lease lease = Open(*cache_, version_, Tokens(0, 3));
  Reservation source = Reserve(lease, Tokens(0, 3));
  std::optional<Reservation> target(std::move(source));
  EXPECT_EQ(DeviceBlocks(*cache_).reserved, 1);
  EXPECT_EQ(target->Table(0).blocks.size(), 1u);
  target.reset();
  EXPECT_EQ(DeviceBlocks(*cache_).reserved, 0);
}

TEST_F(ReservationTest, CanBeEmpty) {
  // A step without work takes nothing and leaves nothing.
  Lease lease = Open(*cache_, version_, Tokens(0, 3));
  cache_->Reserve({}).Commit();
  Append(*cache_, lease, {});
  EXPECT_EQ(lease.block_count(), 0);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(ReservationTest, AFullPoolIsAnExactFit) {
  // The last block counts: a scheduler that may not use it stalls.
  Lease lease = Open(*cache_, version_, Tokens(0, 32));
  Append(*cache_, lease, Tokens(0, 32));
  EXPECT_EQ(cache_->Capacity().available_blocks(), 0);
  EXPECT_EQ(cache_->PiecesNeeded(lease, 0), 0);
  EXPECT_EQ(cache_->PiecesNeeded(lease, 1), 1);
  EXPECT_DEATH(Append(*cache_, lease, {1}),
               "1 pieces wanted, 0 free and 0 cached");
}

TEST_F(ReservationTest, ASequenceInPiecesFillsThePoolToItsLastPlace) {
  // SCHED: whatever shares its blocks before, and in the smallest pools.
  for (const int64_t blocks : {1, 2, 3}) {
    cache_ = MakeCache(SmallOptions(blocks, 16));
    version_ = cache_->AddVersion("m", "aa");
    Lease other = OpenAndFill(*cache_, version_, Tokens(90, 3));
    Lease lease = Open(*cache_, version_, {});
    for (TokenId token = 0; token < blocks * 16; ++token) {
      if (cache_->PiecesNeeded(lease, 1) >
          cache_->Capacity().available_pieces()) {
        EXPECT_EQ(token, blocks * 16 - 4);
        other = Lease();
      }
      Append(*cache_, lease, {token});
      ASSERT_THAT(cache_->Violations(), IsEmpty()) << token;
    }
    EXPECT_EQ(cache_->Capacity().available_pieces(), 0);
  }
}

TEST_F(ReservationTest, StopsPlansThatNoSchedulerMayMake) {
  // Each of these would write two steps into one place.
  Lease lease = Open(*cache_, version_, Tokens(0, 3));
  const auto tokens = Tokens(0, 3);
  const LeaseGrowth twice[] = {{.lease = &lease, .tokens = tokens},
                               {.lease = &lease, .tokens = tokens}};
  EXPECT_DEATH((void)cache_->Reserve(twice), "a lease is named twice");
  Lease empty;
  EXPECT_DEATH(Append(*cache_, empty, tokens), "held");
  const auto other_cache = MakeCache(SmallOptions(8));
  EXPECT_DEATH(Append(*other_cache, lease, tokens), "of another cache");

  Reservation reservation = Reserve(lease, tokens);
  EXPECT_DEATH((void)cache_->Reserve({}), "one reservation at a time");
  EXPECT_DEATH(lease = Lease(), "part of a live reservation");
  EXPECT_DEATH((void)cache_->ExtendLease(lease, tokens),
               "part of a live reservation");
  EXPECT_DEATH((void)reservation.Table(1), "growth 1");
  Reservation target = std::move(reservation);
  EXPECT_DEATH(std::move(reservation).Commit(), "moved from");
}

}  // namespace
}  // namespace kvasir

#include "cache/kv_cache.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::IsEmpty;

TEST(KvCacheCreateTest, RefusesSizesThatMakeNoSenseByName) {
  // Numbers from a model file or a flag; a product that overflows would become
  // a small pool with large offsets.
  struct Case {
    const char* name;
    void (*spoil)(KvCache::Options&);
  };
  const Case cases[] = {
      {"layer_count", [](auto& o) { o.layout.layer_count = 0; }},
      {"layer_count", [](auto& o) { o.layout.layer_count = 1 << 20; }},
      {"kv_head_count", [](auto& o) { o.layout.kv_head_count = -1; }},
      {"head_dim", [](auto& o) { o.layout.head_dim = 0; }},
      {"block_tokens", [](auto& o) { o.layout.block_tokens = 0; }},
      {"block_tokens", [](auto& o) { o.layout.block_tokens = 5000; }},
      {"capacity_blocks", [](auto& o) { o.capacity_blocks = 0; }},
      {"capacity_blocks",
       [](auto& o) {
         o.capacity_blocks = std::numeric_limits<int64_t>::max();
       }},
      {"address_space_blocks", [](auto& o) { o.address_space_blocks = 7; }},
      {"index_hash_bits", [](auto& o) { o.index_hash_bits = 0; }},
      {"index_hash_bits", [](auto& o) { o.index_hash_bits = 65; }},
  };
  for (const Case& c : cases) {
    KvCache::Options options = SmallOptions(8);
    c.spoil(options);
    const auto cache =
        KvCache::Create(options, MakeHostMemory(), MakeLruPolicy());
    EXPECT_EQ(cache.status().code(), absl::StatusCode::kInvalidArgument)
        << c.name;
    EXPECT_TRUE(absl::StrContains(cache.status().message(), c.name))
        << cache.status();
  }
}

TEST(KvCacheCreateTest, MemoryThatIsNotThereIsAStatus) {
  // The n-th commit fails; whatever was committed is given back.
  KvCache::Options options = SmallOptions(1 << 20);  // 64 MiB: 16 extents
  for (const int64_t fail_at : {0, 1, 15}) {
    auto record = std::make_shared<FlakyMemory::Record>();
    record->fail_at_commit = fail_at;
    const auto cache = KvCache::Create(
        options, std::make_unique<FlakyMemory>(record), MakeLruPolicy());
    EXPECT_EQ(cache.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(record->commits, fail_at + 1);
    EXPECT_EQ(record->committed_bytes, 0);
  }
}

TEST(KvCacheCreateTest, CommitsTheCapacityAndReservesTheAddressSpace) {
  // Room to grow costs addresses only.
  auto record = std::make_shared<FlakyMemory::Record>();
  KvCache::Options options = SmallOptions(1 << 16);  // 4 MiB
  options.address_space_blocks = int64_t{1} << 24;   // 1 GiB
  const auto cache = KvCache::Create(
      options, std::make_unique<FlakyMemory>(record), MakeLruPolicy());
  ASSERT_TRUE(cache.ok()) << cache.status();
  EXPECT_EQ(record->committed_bytes, int64_t{4} << 20);
  EXPECT_EQ(record->reserved_bytes, int64_t{1} << 30);
  EXPECT_EQ((*cache)->Capacity().total_blocks, 1 << 16);
  EXPECT_EQ((*cache)->layout(), options.layout);
}

class KvCacheTest : public testing::Test {
 protected:
  explicit KvCacheTest(KvCache::Options options = SmallOptions(64))
      : cache_(MakeCache(options)), version_(cache_->AddVersion("m", "aa")) {}

  CacheCounters Counters() const { return cache_->Snapshot().counters; }

  std::unique_ptr<KvCache> cache_;
  VersionId version_;
};

TEST_F(KvCacheTest, UnknownVersionsAreNotFound) {
  // The caller's mistake, with the number it gave.
  const auto lease = cache_->OpenLease({.version = VersionId(3), .tokens = {}});
  EXPECT_EQ(lease.status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(absl::StrContains(lease.status().message(), "3"));
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST(KvCachePiecesTest, TheSnapshotTellsWhatOpenBlocksHold) {
  // C3: four sequences of 17 tokens share one block for their last ones. What
  // of it is free is free to grow, but no whole block can use it.
  const auto cache = MakeCache(SmallOptions(64, 16));
  const VersionId version = cache->AddVersion("m", "aa");
  const int64_t token = SmallLayout(16).TokenBytes();
  std::vector<Lease> leases;
  for (int i = 0; i < 4; ++i) {
    leases.push_back(OpenAndFill(*cache, version, Tokens(100 * i, 17)));
  }
  TierSnapshot tier = cache->Snapshot().tiers[0];
  EXPECT_EQ(tier.blocks.pinned, 5);
  EXPECT_EQ(tier.split_blocks, 1);
  EXPECT_EQ(tier.bytes.tokens, 4 * 17 * token);
  EXPECT_EQ(tier.bytes.fragmentation, 4 * 3 * token);
  EXPECT_EQ(tier.bytes.free, 59 * 16 * token);
  EXPECT_DOUBLE_EQ(tier.TokenShare(), 4 * 17 / 80.0);
  const int64_t slack = tier.committed_bytes - tier.capacity_bytes;
  EXPECT_EQ(tier.committed_bytes, int64_t{4} << 20) << "an extent";
  EXPECT_EQ(tier.external_fragmentation_bytes, slack);

  leases.resize(1);
  tier = cache->Snapshot().tiers[0];
  EXPECT_EQ(tier.blocks.pinned, 2);
  EXPECT_EQ(tier.blocks.cached, 3);
  EXPECT_EQ(tier.bytes.fragmentation, 3 * token);
  EXPECT_EQ(tier.bytes.free, (59 * 16 + 12) * token);
  EXPECT_EQ(tier.external_fragmentation_bytes, slack + 12 * token);
  EXPECT_DOUBLE_EQ(tier.TokenShare(), (4 * 16 + 1) / 80.0);
  EXPECT_EQ(cache->Capacity().free_pieces, 59 * 4 + 3);

  leases.clear();
  cache->Flush();
  tier = cache->Snapshot().tiers[0];
  EXPECT_EQ(tier.split_blocks, 0);
  EXPECT_EQ(tier.bytes.free, tier.capacity_bytes);
  EXPECT_EQ(tier.external_fragmentation_bytes, slack);
  EXPECT_DOUBLE_EQ(tier.TokenShare(), 1) << "nothing in use, nothing wasted";
}

TEST_F(KvCacheTest, ALeaseFindsAtMostAllTokensButTheLast) {
  // PFX-3: at an exact multiple the last block must be computed again, or
  // there are no logits to sample from.
  constexpr int64_t B = kSmallBlock;
  for (const int64_t length :
       {int64_t{1}, B - 1, B, B + 1, 3 * B - 1, 3 * B, 3 * B + 1}) {
    cache_->Flush();
    const auto tokens = Tokens(1000, length);
    { const Lease cold = OpenAndFill(*cache_, version_, tokens); }
    for (int repeat = 0; repeat < 2; ++repeat) {
      Lease warm = Open(*cache_, version_, tokens);
      EXPECT_EQ(warm.cached_token_count(), (length - 1) / B * B) << length;
      EXPECT_LT(warm.token_count(), length);
      Append(*cache_, warm,
             absl::MakeConstSpan(tokens).subspan(warm.token_count()));
      EXPECT_EQ(warm.token_count(), length);
      ASSERT_THAT(cache_->Violations(), IsEmpty()) << length;
    }
    EXPECT_EQ(DeviceBlocks(*cache_).cached, length / B) << "one copy of each";
  }
}

TEST_F(KvCacheTest, NoTokenIsAPromptWithNothingToFind) {
  // Callers refuse it; the cache must not compute -1 blocks.
  const Lease lease = Open(*cache_, version_, {});
  EXPECT_EQ(lease.token_count(), 0);
}

TEST_F(KvCacheTest, VariantsOfARequestNeverShare) {
  // PFX-2: salt and version, and fields whose concatenations are equal.
  const VersionId other = cache_->AddVersion("x", "bb");
  const VersionId ab = cache_->AddVersion("ab", "ab");
  const VersionId a = cache_->AddVersion("a", "a");
  const std::pair<VersionId, const char*> variants[] = {
      {version_, ""}, {version_, "x"}, {version_, "y"}, {other, ""},
      {other, "x"},   {ab, "c"},       {a, "bc"}};
  const auto tokens = Tokens(0, 9);
  for (const auto& [version, salt] : variants) {
    EXPECT_EQ(FoundTokens(*cache_, version, tokens, salt), 0) << salt;
    { const Lease lease = OpenAndFill(*cache_, version, tokens, salt); }
    EXPECT_EQ(FoundTokens(*cache_, version, tokens, salt), 8) << salt;
  }
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 14);
}

TEST_F(KvCacheTest, TheSameWeightsUnderAnotherLabelAreAnotherVersion) {
  // PFX-2: an alias is a version of its own; what it keeps, it pays for and
  // loses alone.
  { const Lease lease = OpenAndFill(*cache_, version_, Tokens(0, 9)); }
  const VersionId alias = cache_->AddVersion("alias of m", "aa");
  { const Lease lease = OpenAndFill(*cache_, alias, Tokens(0, 9)); }
  const CacheSnapshot snapshot = cache_->Snapshot();
  EXPECT_EQ(snapshot.counters.hit_tokens, 0);
  EXPECT_EQ(snapshot.versions[0].blocks.cached, 2);
  EXPECT_EQ(snapshot.versions[1].blocks.cached, 2);
}

TEST_F(KvCacheTest, AVersionThatRetiresLosesItsBlocksAndNoOther) {
  // Its memory is for those who serve; another label of the same weights is
  // not touched.
  const VersionId old = cache_->AddVersion("old", "aa");
  { const Lease lease = OpenAndFill(*cache_, version_, Tokens(0, 9)); }
  { const Lease lease = OpenAndFill(*cache_, old, Tokens(0, 13)); }
  ASSERT_TRUE(cache_->MoveVersion(old, VersionState::kDraining).ok());
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 5) << "a rollback still finds them";
  ASSERT_TRUE(cache_->MoveVersion(old, VersionState::kRetired).ok());
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 2);
  const CacheSnapshot snapshot = cache_->Snapshot();
  EXPECT_EQ(snapshot.counters.evicted[EvictionCause::kVersion], 3);
  EXPECT_EQ(snapshot.versions[1].state, "retired");
  EXPECT_EQ(snapshot.versions[1].blocks, BlockCounts());
  EXPECT_THAT(cache_->Violations(), IsEmpty());
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 9)), 8);
  const VersionId again = cache_->AddVersion("old", "aa");
  EXPECT_EQ(FoundTokens(*cache_, again, Tokens(0, 13)), 0);
}

TEST_F(KvCacheTest, TotalsOutliveTheVersionsThatMadeThem) {
  // A roll-out a day: snapshots stay short, and what a scrape sums up from them
  // never falls.
  constexpr int kRollouts = 40;
  CacheCounters before;
  for (int i = 0; i < kRollouts; ++i) {
    const VersionId version = cache_->AddVersion("next", absl::StrCat(i));
    { const Lease lease = OpenAndFill(*cache_, version, Tokens(0, 9)); }
    EXPECT_EQ(FoundTokens(*cache_, version, Tokens(0, 9)), 8);
    ASSERT_TRUE(cache_->MoveVersion(version, VersionState::kDraining).ok());
    ASSERT_TRUE(cache_->MoveVersion(version, VersionState::kRetired).ok());
    const CacheSnapshot snapshot = cache_->Snapshot();
    EXPECT_LE(snapshot.versions.size(), 1 + VersionTable::kMaxRetired);
    EXPECT_EQ(snapshot.counters.hit_tokens, before.hit_tokens + 8);
    EXPECT_EQ(snapshot.counters.evicted[EvictionCause::kVersion],
              before.evicted[EvictionCause::kVersion] + 2);
    EXPECT_THAT(cache_->Violations(), IsEmpty());
    before = snapshot.counters;
  }
  const ForgottenVersions forgotten = cache_->Snapshot().forgotten;
  const int64_t gone = kRollouts - VersionTable::kMaxRetired;
  EXPECT_EQ(forgotten.hit_tokens, 8 * gone);
  EXPECT_EQ(forgotten.evicted.total(), 2 * gone);
}

TEST_F(KvCacheTest, ALeaseKeepsItsVersionFromRetiring) {
  // Contract C5: it began there and may fill blocks there to its end.
  const auto tokens = Tokens(0, 9);
  Lease running = OpenAndFill(*cache_, version_, tokens);
  ASSERT_TRUE(cache_->MoveVersion(version_, VersionState::kDraining).ok());
  EXPECT_EQ(cache_->LeaseCount(version_), 1);
  EXPECT_EQ(cache_->MoveVersion(version_, VersionState::kRetired).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cache_->OpenLease({.version = version_, .tokens = tokens})
                .status()
                .code(),
            absl::StatusCode::kFailedPrecondition);
  running = Lease();
  running = Open(
      *cache_,
      {.version = version_, .purpose = LeasePurpose::kHeld, .tokens = tokens});
  EXPECT_EQ(running.cached_token_count(), 8);
  running = Lease();
  EXPECT_TRUE(cache_->MoveVersion(version_, VersionState::kRetired).ok());
}

TEST_F(KvCacheTest, RunningSequencesShareWithoutWaitingForAnEnd) {
  // A block is findable from the step that fills it.
  const Lease first = OpenAndFill(*cache_, version_, Tokens(0, 10));
  const Lease second = Open(*cache_, version_, Tokens(0, 10));
  EXPECT_EQ(second.cached_token_count(), 8);
  EXPECT_EQ(second.Table().blocks[1], first.Table().blocks[1]);
  EXPECT_EQ(DeviceBlocks(*cache_).pinned, 3);
}

TEST_F(KvCacheTest, GeneratedTokensAreFoundByTheNextTurn) {
  // A conversation sends back what was generated.
  {
    Lease lease = OpenAndFill(*cache_, version_, Tokens(0, 5));
    for (TokenId token = 5; token < 12; ++token) {
      Append(*cache_, lease, {token});
    }
  }
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 20)), 12);
}

TEST_F(KvCacheTest, ReadAndWriteSwitchesDoWhatTheySay) {
  // Requests may opt out of either side.
  const auto tokens = Tokens(0, 9);
  {
    Lease silent = Open(
        *cache_, {.version = version_, .tokens = tokens, .write_cache = false});
    Append(*cache_, silent, tokens);
  }
  EXPECT_EQ(UsedBlocks(*cache_), 0);
  EXPECT_EQ(Counters().lookup_tokens, 9);
  { const Lease lease = OpenAndFill(*cache_, version_, tokens); }
  Lease blind = Open(
      *cache_, {.version = version_, .tokens = tokens, .read_cache = false});
  EXPECT_EQ(blind.cached_token_count(), 0);
  EXPECT_EQ(Counters().lookup_tokens, 18) << "not asked, so not counted";
  EXPECT_EQ(cache_->ExtendLease(blind, tokens), 0);
  Append(*cache_, blind, tokens);
  EXPECT_EQ(Counters().deduplicated_blocks, 2);
  Lease both = Open(*cache_, {.version = version_,
                              .tokens = tokens,
                              .read_cache = false,
                              .write_cache = false});
  Append(*cache_, both, tokens);
  EXPECT_EQ(Counters().deduplicated_blocks, 2);
  EXPECT_EQ(Counters().inserted_blocks, 2);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(KvCacheTest, ASilentLeaseSharesAsLongAsItsPrefixIsFindable) {
  // Its private blocks must not become parents of findable ones: nobody could
  // walk through them.
  const auto tokens = Tokens(0, 12);
  Lease silent = Open(
      *cache_, {.version = version_, .tokens = tokens, .write_cache = false});
  Append(*cache_, silent, Tokens(0, 4));
  { const Lease loud = OpenAndFill(*cache_, version_, tokens); }
  EXPECT_EQ(cache_->ExtendLease(silent, tokens), 0);
  Append(*cache_, silent, Tokens(4, 8));
  EXPECT_EQ(DeviceBlocks(*cache_).pinned, 3);
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 3);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(KvCacheTest, ExtendLeaseGainsWhatOthersSealedMeanwhile) {
  // Two requests share a long system prompt and arrive in the same step.
  const auto tokens = Tokens(0, 21);
  Lease late = Open(*cache_, version_, tokens);
  EXPECT_EQ(cache_->ExtendLease(late, tokens), 0);
  const Lease early = OpenAndFill(*cache_, version_, Tokens(0, 17));
  EXPECT_EQ(cache_->ExtendLease(late, tokens), 16);
  EXPECT_EQ(late.token_count(), 16);
  EXPECT_EQ(late.cached_token_count(), 16);
  EXPECT_EQ(Counters().hit_tokens, 16);
  EXPECT_EQ(Counters().lookup_tokens, 21 + 17) << "one look-up per request";
  EXPECT_EQ(cache_->ExtendLease(late, tokens), 0);
  Append(*cache_, late, Tokens(16, 5));
  EXPECT_EQ(DeviceBlocks(*cache_).pinned, 7);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(KvCacheTest, ExtendLeaseWaitsForABlockBorder) {
  // In the middle of a block the rest of it has to be computed first.
  const auto tokens = Tokens(0, 13);
  Lease late = Open(*cache_, version_, tokens);
  Append(*cache_, late, Tokens(0, 2));
  const Lease early = OpenAndFill(*cache_, version_, tokens);
  EXPECT_EQ(cache_->ExtendLease(late, tokens), 0);
  Append(*cache_, late, Tokens(2, 2));
  EXPECT_EQ(cache_->ExtendLease(late, tokens), 8);
  EXPECT_EQ(late.Table().blocks, early.Table().blocks.subspan(0, 3));
  EXPECT_DEATH((void)cache_->ExtendLease(late, Tokens(0, 11)),
               "11 known tokens, 12 held");
}

TEST_F(KvCacheTest, ALookUpThatWasAnsweredForOtherTokensIsNotBelieved) {
  // The key of the next block is remembered; the tokens that come may differ
  // from those that were looked for.
  Lease lease = Open(*cache_, version_, Tokens(0, 9));
  Append(*cache_, lease, Tokens(500, 4));
  { const Lease other = OpenAndFill(*cache_, version_, Tokens(0, 5)); }
  EXPECT_EQ(Counters().deduplicated_blocks, 0);
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(500, 5)), 4);
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 5)), 4);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(KvCacheTest, FlushLeavesPinnedBlocksToTheirLeasesOnly) {
  // A flush in the middle of a generation changes no answer, and afterwards
  // nothing of before is found.
  { const Lease idle = OpenAndFill(*cache_, version_, Tokens(100, 8)); }
  Lease running = OpenAndFill(*cache_, version_, Tokens(0, 9));
  const FlushResult flushed = cache_->Flush();
  EXPECT_EQ(flushed.freed_blocks, 2);
  EXPECT_EQ(flushed.freed_bytes, 2 * SmallLayout().BlockBytes());
  EXPECT_EQ(running.Table().blocks.size(), 3u);
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 9)), 0);
  Append(*cache_, running, Tokens(9, 8));
  EXPECT_EQ(cache_->ExtendLease(running, Tokens(0, 30)), 0);
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 17)), 0);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
  running = Lease();
  EXPECT_EQ(UsedBlocks(*cache_), 0);
  EXPECT_EQ(Counters().evicted[EvictionCause::kFlush], 2);

  // A lease whose first block is still open has nothing that could be
  // forgotten, but its tokens are of before, too.
  Lease open = OpenAndFill(*cache_, version_, Tokens(0, 3));
  cache_->Flush();
  Append(*cache_, open, Tokens(3, 8));
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 11)), 0);
}

TEST_F(KvCacheTest, UsedBlocksAreZeroAtIdleAfterAFlush) {
  // Contract C4 / LEAK-2 at every length around the borders.
  constexpr int64_t B = kSmallBlock;
  for (const int64_t total : {B - 1, B, B + 1, 2 * B, 2 * B + 1}) {
    for (int i = 0; i < 100; ++i) {
      std::vector<Lease> together;
      for (int j = 0; j < 8; ++j) {
        together.push_back(Open(*cache_, version_, Tokens(10 * j, total)));
        Append(*cache_, together.back(),
               absl::MakeConstSpan(Tokens(10 * j, total))
                   .subspan(together.back().token_count()));
      }
    }
    EXPECT_EQ(DeviceBlocks(*cache_).pinned, 0);
    cache_->Flush();
    EXPECT_EQ(UsedBlocks(*cache_), 0) << total;
    EXPECT_THAT(cache_->Violations(), IsEmpty());
  }
}

TEST_F(KvCacheTest, EveryByteIsInExactlyOneAccount) {
  // Contract C3 in a state where every account but `leaving` is in use.
  const VersionId other = cache_->AddVersion("n", "bb");
  const int64_t token = SmallLayout().TokenBytes();
  const int64_t block = SmallLayout().BlockBytes();
  { const Lease cached = OpenAndFill(*cache_, other, Tokens(0, 8)); }
  Lease running = OpenAndFill(*cache_, version_, Tokens(0, 5));
  const auto more = Tokens(5, 9);
  const LeaseGrowth growth{.lease = &running, .tokens = more};
  const Reservation reservation = cache_->Reserve({&growth, 1});

  const CacheSnapshot snapshot = cache_->Snapshot();
  const TierSnapshot& tier = snapshot.tiers[0];
  EXPECT_EQ(tier.tier, "device");
  EXPECT_EQ(tier.capacity_bytes, 64 * block);
  EXPECT_EQ(tier.bytes, (ByteAccount{.free = 58 * block,
                                     .reserved = 2 * block,
                                     .tokens = 13 * token,
                                     .fragmentation = 3 * token,
                                     .leaving = 0}));
  EXPECT_EQ(tier.bytes.total(), tier.capacity_bytes);
  EXPECT_EQ(snapshot.versions[0].bytes,
            (ByteAccount{.reserved = 2 * block,
                         .tokens = 5 * token,
                         .fragmentation = 3 * token}));
  EXPECT_EQ(snapshot.versions[1].bytes, (ByteAccount{.tokens = 8 * token}));
  EXPECT_EQ(snapshot.versions[0].state, "serving");
  EXPECT_EQ(snapshot.versions[1].fingerprint, "bb");
  EXPECT_EQ(snapshot.block_tokens, kSmallBlock);
  EXPECT_EQ(snapshot.token_bytes, token);
  EXPECT_EQ(snapshot.index_entries, 3);
}

class SmallPoolTest : public KvCacheTest {
 protected:
  SmallPoolTest() : KvCacheTest(SmallOptions(8)) {}
};

TEST_F(SmallPoolTest, TheOldestPrefixMakesRoomFromItsEnd) {
  // LRU over prefixes, and what remains of one is still found.
  { const Lease oldest = OpenAndFill(*cache_, version_, Tokens(0, 12)); }
  { const Lease middle = OpenAndFill(*cache_, version_, Tokens(100, 12)); }
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 5)), 4)
      << "uses the first block of the oldest again";
  Lease lease = OpenAndFill(*cache_, version_, Tokens(200, 16));
  EXPECT_EQ(Counters().evicted[EvictionCause::kCapacity], 2);
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(100, 13)), 12);
  EXPECT_EQ(FoundTokens(*cache_, version_, Tokens(0, 13)), 4);
}

TEST_F(SmallPoolTest, CountsARequestOnceHoweverOftenItIsPreempted) {
  // MEM-1: neither its second look-up nor what it finds of its own counts, and
  // what is computed again has a counter of its own.
  const auto prompt = Tokens(0, 10);
  Lease lease = OpenAndFill(*cache_, version_, prompt);
  Append(*cache_, lease, {10, 11, 12});
  const auto known = Tokens(0, 14);  // the last one is not computed yet
  for (int preemption = 0; preemption < 2; ++preemption) {
    lease = Lease();
    lease = Open(*cache_, {.version = version_,
                           .tokens = known,
                           .resumed = true,
                           .recompute_tokens = 13});
    EXPECT_EQ(lease.cached_token_count(), 12);
    Append(*cache_, lease, {12, 13});
    EXPECT_EQ(Counters().recomputed_tokens, preemption + 1);
  }
  cache_->Flush();
  lease = Lease();
  lease = Open(*cache_, {.version = version_,
                         .tokens = known,
                         .resumed = true,
                         .recompute_tokens = 13});
  Append(*cache_, lease, Tokens(0, 7));
  Append(*cache_, lease, Tokens(7, 7));
  EXPECT_EQ(Counters().recomputed_tokens, 2 + 13);
  EXPECT_EQ(Counters().lookup_tokens, 10);
  EXPECT_EQ(Counters().hit_tokens, 0);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST(KvCacheOffTest, WithoutPrefixCachingNothingIsKeptOrCounted) {
  // LEAK-2 with the prefix cache off: the end of a lease frees everything.
  KvCache::Options options = SmallOptions(16);
  options.prefix_caching = false;
  const auto cache = MakeCache(options);
  const VersionId version = cache->AddVersion("m", "aa");
  {
    Lease lease = OpenAndFill(*cache, version, Tokens(0, 9));
    EXPECT_EQ(cache->ExtendLease(lease, Tokens(0, 30)), 0);
  }
  EXPECT_EQ(UsedBlocks(*cache), 0);
  EXPECT_EQ(FoundTokens(*cache, version, Tokens(0, 9)), 0);
  EXPECT_EQ(cache->Snapshot().counters.lookup_tokens, 0);
  EXPECT_EQ(cache->Snapshot().index_entries, 0);
}

TEST(KvCacheCollisionTest, ACollisionCostsAMissAtWorst) {
  // PFX-4: 600 prompts of two blocks under an 8-bit hash, then all of them
  // again. None may find a block that is not its own, and each finds its own.
  KvCache::Options options = SmallOptions(1200, 16);
  options.index_hash_bits = 8;
  const auto cache = MakeCache(options);
  const VersionId version = cache->AddVersion("m", "aa");
  std::vector<std::vector<BlockId>> tables;
  for (int prompt = 0; prompt < 600; ++prompt) {
    const auto tokens = Tokens(prompt * 7, 32);
    const Lease lease = OpenAndFill(*cache, version, tokens);
    ASSERT_EQ(lease.cached_token_count(), 0) << prompt;
    const auto blocks = lease.Table().blocks;
    tables.emplace_back(blocks.begin(), blocks.end());
  }
  const int64_t collisions = cache->Snapshot().counters.rejected_collisions;
  EXPECT_GT(collisions, 600);
  for (int prompt = 0; prompt < 600; ++prompt) {
    auto tokens = Tokens(prompt * 7, 32);
    tokens.push_back(1);
    const Lease lease = Open(*cache, version, tokens);
    EXPECT_EQ(lease.cached_token_count(), 32) << prompt;
    EXPECT_EQ(lease.Table().blocks, absl::MakeConstSpan(tables[prompt]));
  }
  EXPECT_GT(cache->Snapshot().counters.rejected_collisions, collisions);
  EXPECT_THAT(cache->Violations(), IsEmpty());
}

}  // namespace
}  // namespace kvasir

#include "cache/prefix_walk.h"

#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::IsEmpty;
using TokenVector = std::vector<TokenId>;

constexpr int64_t B = kSmallBlock;

// What a filter by salt drops, found by looking at everything as often as
// something changes: a block goes if it is meant, at rest and not pinned, and
// nothing is found through it any more.
int64_t CountByHand(const KvCache& cache, const std::string& salt) {
  std::vector<PrefixInfo> left;
  for (const PrefixInfo& leaf : cache.Prefixes({})) {
    std::optional<BlockKey> key = leaf.key;
    while (key.has_value()) {
      left.push_back(*cache.FindPrefix(*key));
      key = left.back().parent;
    }
  }
  std::set<BlockKey> there;
  for (const PrefixInfo& info : left) there.insert(info.key);
  int64_t gone = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (const PrefixInfo& info : left) {
      if (!there.contains(info.key) || info.salt != salt || info.pinned ||
          info.lease_count > 0) {
        continue;
      }
      bool last = true;
      for (const PrefixInfo& other : left) {
        last &= !(there.contains(other.key) && other.parent == info.key);
      }
      if (!last) continue;
      there.erase(info.key);
      ++gone;
      changed = true;
    }
  }
  return gone;
}

// Requests of two tenants on a small cache that is resized now and then, while
// walks with slices of a block or a few are under way.
class PrefixWalkTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    std::cout << "seed " << GetParam() << "\n";
    random_.seed(GetParam());
    KvCache::Options options = SmallOptions(kBlocks);
    options.address_space_blocks = kBlocks;
    cache_ = MakeCache(options);
    version_ = cache_->AddVersion("m", "aa");
  }

  int Draw(int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random_);
  }

  std::string Salt() { return Draw(2) == 0 ? "" : "tenant"; }

  void Request() {
    TokenVector prompt(1 + Draw(5 * B));
    for (TokenId& token : prompt) token = Draw(9) == 0;
    const std::string salt = Salt();
    if (cache_->Capacity().available_blocks() <
        SmallLayout().BlocksFor(prompt.size())) {
      leases_.clear();
      return;
    }
    Lease lease =
        Open(*cache_, {.version = version_, .tokens = prompt, .salt = salt});
    Append(*cache_, lease,
           absl::MakeConstSpan(prompt).subspan(lease.token_count()));
    if (Draw(4) == 0) leases_.push_back(std::move(lease));
    if (leases_.size() > 2) leases_.erase(leases_.begin());
  }

  void Resize() {
    const int64_t target = kBlocks / 2 + Draw(kBlocks / 2 + 1);
    if (!cache_->CheckTarget(target).ok()) return;
    ASSERT_TRUE(cache_->SetTarget(target).ok());
    for (int i = 0; i < 10 && !cache_->resize().done(); ++i) {
      ASSERT_TRUE(cache_->ContinueResize().ok());
    }
  }

  void PinSome() {
    for (const PrefixInfo& info : cache_->Prefixes({})) {
      if (Draw(8) == 0) (void)cache_->PinPrefix(info.key, absl::Seconds(9));
    }
  }

  static constexpr int64_t kBlocks = 40;
  std::mt19937 random_;
  std::unique_ptr<KvCache> cache_;
  VersionId version_;
  std::vector<Lease> leases_;
};

TEST_P(PrefixWalkTest, SlicesDropWhatOneWalkWould) {
  // Where a slice ends must not decide what goes: a prefix whose beginning was
  // met before its end would otherwise stay.
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 20; ++i) Request();
    PinSome();
    const int64_t expected = CountByHand(*cache_, "tenant");
    const int64_t entries = cache_->Snapshot().index_entries;
    for (const bool dry_run : {true, false}) {
      PrefixSweep sweep{{.filter = {.salt = "tenant"}}, dry_run};
      sweep.slice_blocks = 1 + Draw(40);
      int slices = 1;
      for (; !cache_->Continue(sweep); ++slices) {
        ASSERT_THAT(cache_->Violations(), IsEmpty());
      }
      ASSERT_EQ(sweep.sum.blocks, expected) << "dry run " << dry_run;
      ASSERT_GT(slices, 1);
    }
    ASSERT_EQ(cache_->Snapshot().index_entries, entries - expected);
    for (const PrefixInfo& info : cache_->Prefixes({.pinned = true})) {
      ASSERT_TRUE(cache_->UnpinPrefix(info.key).ok());
    }
  }
}

TEST_P(PrefixWalkTest, AListMeetsWhateverIsThereAllTheTime) {
  // A resize relocates blocks between two slices; a prefix that hides from a
  // list in that way would look evicted.
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 10; ++i) Request();
    std::set<BlockKey> always;
    for (const PrefixInfo& info : cache_->Prefixes({})) always.insert(info.key);
    std::set<BlockKey> found;
    PrefixListing listing;
    listing.slice_blocks = 1 + Draw(12);
    for (bool done = false; !done;) {
      done = cache_->Continue(listing);
      for (const PrefixInfo& info : listing.found) found.insert(info.key);
      if (Draw(3) == 0) Resize();
      if (Draw(3) == 0) Request();
      std::set<BlockKey> now;
      for (const PrefixInfo& info : cache_->Prefixes({})) now.insert(info.key);
      std::erase_if(always,
                    [&](const BlockKey& k) { return !now.contains(k); });
    }
    for (const BlockKey& key : always) ASSERT_TRUE(found.contains(key));
  }
}

TEST_P(PrefixWalkTest, AFlushInSlicesEndsPinsAndSparesWhatIsHeld) {
  // Requests go on between the slices: what they hold stays, and every count
  // is right at every moment (C3).
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 20; ++i) Request();
    PinSome();
    PrefixSweep sweep;
    sweep.unpin = true;
    sweep.slice_blocks = 1 + Draw(20);
    while (!cache_->Continue(sweep)) {
      if (Draw(3) == 0) Request();
      if (Draw(6) == 0) Resize();
      ASSERT_THAT(cache_->Violations(), IsEmpty());
    }
    leases_.clear();
    PrefixSweep rest;
    rest.unpin = true;
    while (!cache_->Continue(rest)) {
    }
    ASSERT_EQ(rest.sum.kept_blocks, 0);
    ASSERT_EQ(UsedBlocks(*cache_), 0);
    ASSERT_EQ(cache_->Snapshot().pinned_prefixes, 0);
  }
}

TEST_P(PrefixWalkTest, AVersionRetiresWithTheLastOfItsSlices) {
  // C4: when a version is gone its blocks are, and nobody else's.
  const VersionId other = cache_->AddVersion("n", "bb");
  for (int i = 0; i < 40; ++i) Request();
  leases_.clear();
  { const Lease lease = OpenAndFill(*cache_, other, Tokens(0, 3 * B)); }
  PinSome();
  ASSERT_TRUE(cache_->MoveVersion(version_, VersionState::kDraining).ok());
  while (!cache_->ContinueDrop(version_)) {
    ASSERT_THAT(cache_->Violations(), IsEmpty());
  }
  EXPECT_EQ(cache_->Snapshot().versions[0].blocks.cached, 0);
  ASSERT_TRUE(cache_->MoveVersion(version_, VersionState::kRetired).ok());
  EXPECT_EQ(UsedBlocks(*cache_), 3);
  EXPECT_GT(cache_->Snapshot().counters.evicted[EvictionCause::kVersion], 0);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_P(PrefixWalkTest, NothingMeantIsLeftWhereOthersEvictMeanwhile) {
  // A tenant's blocks are wiped while another one's requests push out ends of
  // its prefixes: the blocks before them were met already.
  int passes = 0;
  for (int round = 0; round < 100; ++round) {
    leases_.clear();
    for (TokenId i = 0; i < 40; ++i) {
      const auto prompt = Tokens(1000 * Draw(8), (1 + Draw(6)) * B);
      const Lease lease = OpenAndFill(*cache_, version_, prompt, "tenant");
    }
    PrefixSweep sweep{{.filter = {.salt = "tenant"}}};
    sweep.slice_blocks = 1 + Draw(20);
    while (!cache_->Continue(sweep)) {
      const auto prompt = Tokens(10'000 + 1000 * Draw(900), Draw(6) * B + 1);
      const Lease lease = OpenAndFill(*cache_, version_, prompt, "other");
      ASSERT_THAT(cache_->Violations(), IsEmpty());
    }
    ASSERT_EQ(cache_->Prefixes({.salt = "tenant"}).size(), 0u) << round;
    ASSERT_EQ(sweep.sum.kept_blocks, 0);
    passes += sweep.pass;
  }
  EXPECT_GT(passes, 100) << "no pass was disturbed";
}

TEST_P(PrefixWalkTest, TheBlocksKeptAreOnesThatAreThere) {
  // What comes, goes and moves while they are counted must not make them less
  // than none or more than all.
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 5; ++i) Request();
    PrefixSweep sweep;
    sweep.dry_run = Draw(2) == 0;
    sweep.slice_blocks = 1 + Draw(12);
    while (!cache_->Continue(sweep)) {
      Request();
      if (Draw(3) == 0) Resize();
      if (Draw(3) == 0) cache_->Flush();
      ASSERT_GE(sweep.sum.kept_blocks, 0);
    }
    ASSERT_LE(sweep.sum.kept_blocks, cache_->Snapshot().index_entries);
  }
}

TEST(PrefixSweepTest, WhatItNeverMetIsNotTakenFromWhatItKeeps) {
  // A new prefix whose beginning is behind the walk and whose end before it is
  // eaten whole.
  const auto cache = MakeCache(SmallOptions(16));
  const VersionId version = cache->AddVersion("m", "aa");
  const TokenVector early = Tokens(0, 4 * B);
  const TokenVector late = Tokens(100, 3 * B);
  { const Lease lease = OpenAndFill(*cache, version, early); }
  PrefixSweep sweep{{.filter = {.salt = "tenant"}}};
  sweep.slice_blocks = 1;
  EXPECT_FALSE(cache->Continue(sweep));
  const auto stem = absl::MakeConstSpan(late).first(2 * B);
  { const Lease lease = OpenAndFill(*cache, version, stem, "tenant"); }
  const auto name =
      cache->FindPrefix({.version = version, .tokens = early})->key;
  ASSERT_EQ(cache->EvictPrefixes({{name}}, false)->blocks, 4);
  { const Lease lease = OpenAndFill(*cache, version, late, "tenant"); }
  while (!cache->Continue(sweep)) ASSERT_GE(sweep.sum.kept_blocks, 0);
  EXPECT_EQ(sweep.sum.blocks, 3);
  EXPECT_EQ(sweep.sum.kept_blocks, 0);
  EXPECT_EQ(UsedBlocks(*cache), 0);
}

// An old version with 575 prefixes of five blocks, of which the last has a
// lower id than the others, in a full cache with a new version.
class VersionDropTest : public testing::Test {
 protected:
  VersionDropTest() {
    Fill(next_, 0, 700);
    for (TokenId i = 1; i <= 575; ++i) Fill(old_, 10'000 * i, 4);
    EXPECT_EQ(DeviceBlocks(*cache_).free, 0);
    cache_->EvictPrefixes({.version = next_}, false);
    for (TokenId i = 1; i <= 575; ++i) Fill(old_, 10'000 * i, 5);
    Fill(next_, 5000, 125);
  }

  void Fill(VersionId version, TokenId first, int64_t blocks) {
    const auto prompt = Tokens(first, blocks * B);
    const Lease lease = OpenAndFill(*cache_, version, prompt);
  }

  int64_t OldBlocks() {
    return cache_->Snapshot().versions[old_.value()].blocks.cached;
  }

  std::unique_ptr<KvCache> cache_ = MakeCache(SmallOptions(3000));
  const VersionId old_ = cache_->AddVersion("m", "aa");
  const VersionId next_ = cache_->AddVersion("n", "bb");
};

TEST_F(VersionDropTest, IsDoneWhenNoBlockIsLeft) {
  // Who retires a version then finds nothing to drop in one go, whatever
  // requests of others have pushed out between the slices.
  ASSERT_TRUE(cache_->MoveVersion(old_, VersionState::kDraining).ok());
  int slices = 1;
  for (; !cache_->ContinueDrop(old_); ++slices) {
    ASSERT_GT(OldBlocks(), 0);
    Fill(next_, 20'000'000 + 10'000 * slices, 301);
  }
  EXPECT_GT(slices, 3);
  EXPECT_EQ(OldBlocks(), 0);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(VersionDropTest, BeginsAnewAfterTheVersionHasServedAgain) {
  // What came while it served is behind the walk that was called off.
  ASSERT_TRUE(cache_->MoveVersion(old_, VersionState::kDraining).ok());
  EXPECT_FALSE(cache_->ContinueDrop(old_));
  ASSERT_TRUE(cache_->MoveVersion(old_, VersionState::kServing).ok());
  for (TokenId i = 1; i <= 575; ++i) Fill(old_, 10'000 * i, 5);
  ASSERT_TRUE(cache_->MoveVersion(old_, VersionState::kDraining).ok());
  while (!cache_->ContinueDrop(old_)) ASSERT_GT(OldBlocks(), 0);
  EXPECT_EQ(OldBlocks(), 0);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Seeds, PrefixWalkTest, testing::Range(1, 5));

}  // namespace
}  // namespace kvasir

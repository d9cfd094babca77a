#include "cache/invariants.h"

#include <memory>
#include <utility>
#include <vector>

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A snapshot in which all is well: 10 blocks of 4 tokens of 16 bytes.
CacheSnapshot GoodSnapshot() {
  CacheSnapshot snapshot;
  snapshot.block_tokens = 4;
  snapshot.token_bytes = 16;
  snapshot.index_entries = 3;
  TierSnapshot tier;
  tier.tier = "device";
  tier.block_bytes = 64;
  tier.capacity_bytes = 640;
  tier.committed_bytes = 1000;
  tier.split_blocks = 2;
  tier.external_fragmentation_bytes = 392;
  tier.blocks = {
      .free = 3, .reserved = 1, .pinned = 3, .cached = 2, .leaving = 1};
  tier.bytes = {.free = 208,  // 16 of them in a split block, and so
                .reserved = 64,
                .tokens = 258,
                .fragmentation = 30,
                .leaving = 80};  // 16 of these
  snapshot.tiers.push_back(tier);
  VersionSnapshot first;
  first.label = "first";
  first.state = "serving";
  first.lease_count = 2;
  first.blocks = {.reserved = 1, .pinned = 3};
  first.bytes = {.reserved = 64, .tokens = 130, .fragmentation = 30};
  first.hit_tokens = 8;
  VersionSnapshot second;
  second.label = "second";
  second.state = "retired";
  second.blocks = {.cached = 2};
  second.bytes = {.tokens = 128};
  second.hit_tokens = 4;
  snapshot.versions = {first, second};
  snapshot.counters.lookup_tokens = 100;
  snapshot.counters.hit_tokens = 12;
  return snapshot;
}

TEST(CheckSnapshotTest, FindsNothingWhereAllIsWell) {
  // Also the base of the next test: each of its cases changes one number.
  EXPECT_THAT(CheckSnapshot(GoodSnapshot()), IsEmpty());
  EXPECT_THAT(CheckSnapshot(CacheSnapshot()), IsEmpty());
}

TEST(CheckSnapshotTest, NamesEveryNumberThatDoesNotAddUp) {
  // A validator that accepts a wrong snapshot makes every test above it blind.
  struct Case {
    const char* violation;
    void (*spoil)(CacheSnapshot&);
  };
  const Case cases[] = {
      {"accounts for 641 of 640", [](auto& s) { ++s.tiers[0].bytes.free; }},
      {"accounts for 639 of 640", [](auto& s) { --s.tiers[0].bytes.leaving; }},
      {"has 11 blocks", [](auto& s) { ++s.tiers[0].blocks.free; }},
      {"negative count", [](auto& s) { s.tiers[0].blocks.cached = -1; }},
      {"has 4 split of 3", [](auto& s) { s.tiers[0].split_blocks = 4; }},
      {"191 bytes free", [](auto& s) { s.tiers[0].bytes.free = 191; }},
      {"639 committed", [](auto& s) { s.tiers[0].committed_bytes = 639; }},
      {"of which 359",
       [](auto& s) { s.tiers[0].external_fragmentation_bytes = 359; }},
      {"of which 489",
       [](auto& s) { s.tiers[0].external_fragmentation_bytes = 489; }},
      {"negative count", [](auto& s) { s.versions[0].lease_count = -1; }},
      {"negative count", [](auto& s) { s.versions[1].bytes.tokens = -1; }},
      {"do not sum up", [](auto& s) { ++s.versions[1].blocks.cached; }},
      {"do not sum up", [](auto& s) { ++s.versions[0].blocks.free; }},
      {"do not sum up", [](auto& s) { ++s.versions[0].bytes.fragmentation; }},
      {"holds 120 bytes of tokens",
       [](auto& s) {
         s.tiers[0].bytes.tokens = 120;
         s.tiers[0].bytes.fragmentation = 200;
       }},
      {"retired under 1 leases",
       [](auto& s) { s.versions[1].lease_count = 1; }},
      {"count 13 hit tokens", [](auto& s) { ++s.versions[1].hit_tokens; }},
      {"12 hits in 11", [](auto& s) { s.counters.lookup_tokens = 11; }},
      {"6 blocks indexed, 5 held", [](auto& s) { s.index_entries = 6; }},
  };
  for (const Case& c : cases) {
    CacheSnapshot snapshot = GoodSnapshot();
    c.spoil(snapshot);
    EXPECT_THAT(CheckSnapshot(snapshot),
                testing::Contains(HasSubstr(c.violation)));
  }
}

TEST(CheckSnapshotTest, ReturnsAllViolationsAtOnce) {
  // A bug report with the first of five is four reports too few.
  CacheSnapshot snapshot = GoodSnapshot();
  ++snapshot.tiers[0].bytes.free;
  snapshot.index_entries = 99;
  snapshot.versions[1].lease_count = 1;
  EXPECT_EQ(CheckSnapshot(snapshot).size(), 3u);
}

class CheckLeasesTest : public testing::Test {
 protected:
  CheckLeasesTest() : pool_(4) {
    pool_.Grow(8);
    version_ = versions_.Add("m", "aa");
  }

  // A lease of `token_count` tokens with the blocks it needs.
  LeaseState& AddLease(int64_t token_count) {
    auto lease = std::make_unique<LeaseState>();
    lease->version = version_;
    lease->tail.version = version_;
    lease->token_count = token_count;
    lease->open_tokens.resize(token_count % 4);
    for (int64_t left = token_count; left > 0; left -= 4) {
      lease->table.Append(pool_.Grant(version_));
      pool_.Fill(lease->table.ref(lease->table.size() - 1),
                 static_cast<int32_t>(std::min<int64_t>(left, 4)));
    }
    lease->list_index = leases_.size();
    versions_.AddLease(version_);
    leases_.push_back(std::move(lease));
    return *leases_.back();
  }

  std::vector<std::string> Check() const {
    std::vector<const LeaseState*> leases;
    for (const auto& lease : leases_) leases.push_back(lease.get());
    return CheckLeases(pool_, versions_, leases);
  }

  BlockPool pool_;
  VersionTable versions_;
  VersionId version_;
  std::vector<std::unique_ptr<LeaseState>> leases_;
};

TEST_F(CheckLeasesTest, FindsNothingWhereAllIsWell) {
  // Two leases, one of which shares a full block with the other, and a step in
  // hand.
  LeaseState& first = AddLease(6);
  LeaseState& second = AddLease(4);
  second.table.Replace(0, pool_.Pin(first.table.ids()[0]));
  second.table.Append(pool_.Grant(version_));
  second.growing = true;
  EXPECT_THAT(Check(), IsEmpty());
}

TEST_F(CheckLeasesTest, APinThatNoLeaseHoldsIsALeak) {
  // What a leak looks like from the inside.
  AddLease(4);
  const BlockRef leaked = pool_.Pin(BlockId(0));
  EXPECT_THAT(Check(), ElementsAre("block 0 is pinned 2 times and held 1 "
                                   "times"));
}

TEST_F(CheckLeasesTest, ASharedOpenBlockIsFound) {
  // Two sequences that write into one block corrupt each other's keys.
  LeaseState& first = AddLease(6);
  LeaseState& second = AddLease(6);
  second.table.Replace(1, pool_.Pin(first.table.ids()[1]));
  EXPECT_THAT(Check(), testing::Contains(HasSubstr("open and shared")));
}

TEST_F(CheckLeasesTest, TokensThatAreNotInTheBlocksAreFound) {
  // A lease that believes to hold what was never computed reads old bytes.
  LeaseState& lease = AddLease(6);
  lease.token_count = 7;
  EXPECT_THAT(Check(),
              ElementsAre(HasSubstr("filled with 2"),
                          HasSubstr("a lease of 7 tokens has 2 blocks")));
}

TEST_F(CheckLeasesTest, AReservedBlockWithoutAReservationIsFound) {
  // The rest of a step that was neither committed nor dropped.
  AddLease(4).table.Append(pool_.Grant(version_));
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("is reserved")));
}

TEST_F(CheckLeasesTest, ATailWithTooFewOrTooManyPiecesIsFound) {
  // Tokens behind the last piece are written over somebody else's.
  BlockPool pool(16);
  pool.Grow(2);
  const BlockRef split = pool.Grant(version_);
  const BlockRef whole = pool.Grant(version_);
  pool.Split(split);
  pool.Fill(whole, 16);
  LeaseState lease;
  lease.version = lease.tail.version = version_;
  versions_.AddLease(version_);
  lease.token_count = lease.tail.tokens = 5;
  lease.open_tokens.resize(5);
  const auto check = [&] {
    std::vector<std::string> found = CheckLeases(pool, versions_, {{&lease}});
    std::erase(found, "block 1 is pinned 1 times and held 0 times");
    return found;
  };
  lease.tail.pieces = {{split.block(), 0}, {split.block(), 8}};
  EXPECT_THAT(check(), IsEmpty());
  lease.tail.pieces.push_back({split.block(), 12});
  EXPECT_THAT(check(), ElementsAre("a tail of 5 tokens has 3 pieces"));
  lease.growing = true;
  EXPECT_THAT(check(), IsEmpty());
  lease.tail.pieces.resize(1);
  EXPECT_THAT(check(), ElementsAre("a tail of 5 tokens has 1 pieces"));
  lease.tail.pieces.push_back({whole.block(), 0});
  EXPECT_THAT(check(), ElementsAre("a tail has a piece of block 1, which is "
                                   "whole"));
  lease.tail.version = VersionId(7);
  EXPECT_EQ(check().size(), 2u) << "and it belongs to another version";
}

TEST_F(CheckLeasesTest, LeaseCountsAndPlacesAreCompared) {
  // A version with a lost lease can never retire.
  AddLease(4).list_index = 3;
  versions_.AddLease(version_);
  EXPECT_THAT(Check(), ElementsAre(HasSubstr("believes to be lease 3"),
                                   HasSubstr("counts 2 leases and has 1")));
}

}  // namespace
}  // namespace kvasir

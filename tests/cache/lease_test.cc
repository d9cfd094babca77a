#include "cache/lease.h"

#include <thread>
#include <utility>

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::IsEmpty;

class LeaseTest : public testing::Test {
 protected:
  std::unique_ptr<KvCache> cache_ = MakeCache(SmallOptions(16));
  VersionId version_ = cache_->AddVersion("m", "aa");
};

TEST_F(LeaseTest, ADefaultLeaseHoldsNothing) {
  // Sequences that wait have one of these.
  Lease lease;
  EXPECT_FALSE(lease.held());
  lease = Lease();
  EXPECT_FALSE(lease.held());
}

TEST_F(LeaseTest, CountsItsTokensAndBlocks) {
  // The scheduler plans by these numbers.
  Lease lease = Open(*cache_, version_, Tokens(0, 9));
  EXPECT_EQ(lease.version(), version_);
  EXPECT_EQ(lease.token_count(), 0);
  EXPECT_EQ(lease.block_count(), 0);
  Append(*cache_, lease, Tokens(0, 9));
  EXPECT_EQ(lease.token_count(), 9);
  EXPECT_EQ(lease.block_count(), 3);
  EXPECT_EQ(lease.cached_token_count(), 0);
  EXPECT_EQ(lease.Table().blocks.size(), 3u);
  EXPECT_EQ(lease.Table().block_bytes, SmallLayout().BlockBytes());
}

TEST_F(LeaseTest, ItsEndKeepsSealedBlocksAndFreesTheOpenOne) {
  // An open block has no identity and can serve nobody.
  { const Lease lease = OpenAndFill(*cache_, version_, Tokens(0, 9)); }
  EXPECT_EQ(DeviceBlocks(*cache_).cached, 2);
  EXPECT_EQ(DeviceBlocks(*cache_).free, 14);
  EXPECT_EQ(cache_->Snapshot().versions[0].lease_count, 0);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(LeaseTest, AMovedFromLeaseIsEmptyAndEndsNothing) {
  // Sequences live in containers that move them.
  Lease source = OpenAndFill(*cache_, version_, Tokens(0, 5));
  Lease target = std::move(source);
  EXPECT_FALSE(source.held());
  EXPECT_TRUE(target.held());
  source = Lease();
  EXPECT_EQ(DeviceBlocks(*cache_).pinned, 2);
  Lease other = OpenAndFill(*cache_, version_, Tokens(50, 5));
  other = std::move(target);
  EXPECT_EQ(other.Table().blocks[0], BlockId(0));
  EXPECT_EQ(DeviceBlocks(*cache_).pinned, 2);
  EXPECT_EQ(cache_->Snapshot().versions[0].lease_count, 1);
  Lease& alias = other;
  other = std::move(alias);
  EXPECT_TRUE(other.held());
}

TEST_F(LeaseTest, LeasesEndInAnyOrder) {
  // The list of leases is kept by swapping; a wrong index ends another lease.
  std::vector<Lease> leases;
  for (int i = 0; i < 5; ++i) {
    leases.push_back(OpenAndFill(*cache_, version_, Tokens(100 * i, 5)));
  }
  for (const int index : {1, 3, 0, 1, 0}) {
    leases.erase(leases.begin() + index);
    ASSERT_THAT(cache_->Violations(), IsEmpty());
  }
  EXPECT_EQ(DeviceBlocks(*cache_).pinned, 0);
}

TEST_F(LeaseTest, ALeaseMustNotOutliveItsCache) {
  // It would give its blocks back to a pool that is gone.
  EXPECT_DEATH(
      {
        const Lease lease = Open(*cache_, version_, Tokens(0, 3));
        cache_.reset();
      },
      "1 leases and no reservation outlive the cache");
}

#ifndef NDEBUG
TEST_F(LeaseTest, OnlyTheThreadOfTheFirstLeaseMayUseTheCache) {
  // Nothing locks in the cache; a second thread is a bug that tests may miss.
  Lease lease = Open(*cache_, version_, Tokens(0, 3));
  EXPECT_DEATH(std::thread([&] { (void)cache_->Capacity(); }).join(),
               "OnEngineThread");
  EXPECT_DEATH(std::thread([&] { lease = Lease(); }).join(), "OnEngineThread");
}
#endif

TEST(LeaseThreadTest, TheCacheMayBeSetUpOnAnotherThread) {
  // The engine's owner creates the cache, the engine's thread uses it.
  std::unique_ptr<KvCache> cache;
  std::thread([&] { cache = MakeCache(SmallOptions(4)); }).join();
  const VersionId version = cache->AddVersion("m", "aa");
  EXPECT_EQ(cache->Capacity().free_pieces, 4);
  std::thread([&] {
    const Lease lease = OpenAndFill(*cache, version, Tokens(0, 5));
    EXPECT_EQ(lease.block_count(), 2);
  }).join();
}

}  // namespace
}  // namespace kvasir

#include "cache/block_arena.h"

#include <cstring>
#include <memory>
#include <utility>

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

constexpr int64_t kExtent = BlockArena::kExtentBytes;
constexpr int64_t kBlock = 3 * (int64_t{1} << 20);  // 3 MiB: straddles extents

class BlockArenaTest : public testing::Test {
 protected:
  BlockArena Make(int64_t max_blocks) {
    auto arena = BlockArena::Create(kBlock, max_blocks,
                                    std::make_unique<FlakyMemory>(record_));
    EXPECT_TRUE(arena.ok()) << arena.status();
    return *std::move(arena);
  }

  std::shared_ptr<FlakyMemory::Record> record_ =
      std::make_shared<FlakyMemory::Record>();
};

TEST_F(BlockArenaTest, ReservesEverythingAndCommitsNothing) {
  // Addresses are for all that may come, memory for what is.
  const BlockArena arena = Make(1000);
  EXPECT_EQ(record_->reserved_bytes, 750 * kExtent);
  EXPECT_EQ(arena.committed_bytes(), 0);
  EXPECT_EQ(record_->commits, 0);
}

TEST_F(BlockArenaTest, GrowsByWholeExtentsAndNeverMoves) {
  // Kernels keep the base pointer across a resize.
  BlockArena arena = Make(100);
  std::byte* const base = arena.base();
  ASSERT_TRUE(arena.Grow(1).ok());
  EXPECT_EQ(arena.committed_bytes(), kExtent);
  ASSERT_TRUE(arena.Grow(2).ok());
  EXPECT_EQ(arena.committed_bytes(), 2 * kExtent);
  ASSERT_TRUE(arena.Grow(4).ok());
  EXPECT_EQ(arena.committed_bytes(), 3 * kExtent);
  EXPECT_EQ(arena.base(), base);
  std::memset(base, 0x5a, 4 * kBlock);
  EXPECT_EQ(base[4 * kBlock - 1], std::byte{0x5a});
}

TEST_F(BlockArenaTest, AFailedCommitLeavesTheArenaAsItWas) {
  // Half a growth would be committed memory that no block uses.
  BlockArena arena = Make(100);
  ASSERT_TRUE(arena.Grow(2).ok());
  const int64_t before = arena.committed_bytes();
  record_->fail_at_commit = record_->commits + 2;  // the third of this growth
  const absl::Status status = arena.Grow(20);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(arena.committed_bytes(), before);
  std::memset(arena.base(), 1, 2 * kBlock);
  record_->fail_at_commit = -1;
  ASSERT_TRUE(arena.Grow(20).ok());
  EXPECT_EQ(arena.committed_bytes(), 15 * kExtent);
  std::memset(arena.base(), 1, 20 * kBlock);
}

TEST_F(BlockArenaTest, ShrinkKeepsTheExtentThatABlockStillReachesInto) {
  // Block 1 ends in extent 1; giving that back would tear it.
  BlockArena arena = Make(100);
  ASSERT_TRUE(arena.Grow(8).ok());
  arena.base()[2 * kBlock - 1] = std::byte{7};
  arena.Shrink(2);
  EXPECT_EQ(arena.committed_bytes(), 2 * kExtent);
  EXPECT_EQ(arena.base()[2 * kBlock - 1], std::byte{7});
  arena.Shrink(0);
  EXPECT_EQ(arena.committed_bytes(), 0);
  EXPECT_EQ(record_->committed_bytes, 0);
}

TEST_F(BlockArenaTest, NoAddressSpaceIsAStatus) {
  // A 32-bit or rlimited process must get an error, and no crash.
  record_->fail_reserve = true;
  const auto arena =
      BlockArena::Create(kBlock, 10, std::make_unique<FlakyMemory>(record_));
  EXPECT_EQ(arena.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(BlockArenaTest, StopsAGrowthBeyondItsAddresses) {
  // The pages behind the range belong to somebody else.
  BlockArena arena = Make(3);
  EXPECT_DEATH((void)arena.Grow(4), "4 of at most 3 blocks");
}

}  // namespace
}  // namespace kvasir

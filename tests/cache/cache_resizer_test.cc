#include "cache/cache_resizer.h"

#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "cache/kv_cache.h"
#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

// 64 KiB a block, 64 of them to an extent.
constexpr int32_t kBigBlock = 1024;
constexpr KvLayout kBigLayout = {.layer_count = 1,
                                 .kv_head_count = 1,
                                 .head_dim = 8,
                                 .block_tokens = kBigBlock,
                                 .type = KvType::kF32};

class CacheResizerTest : public testing::Test {
 protected:
  CacheResizerTest() : record_(std::make_shared<FlakyMemory::Record>()) {
    record_->fail_at_commit = std::numeric_limits<int64_t>::max();
    KvCache::Options options;
    options.layout = kBigLayout;
    options.capacity_blocks = 1024;
    options.address_space_blocks = 4096;
    auto cache = KvCache::Create(
        options, std::make_unique<FlakyMemory>(record_), MakeLruPolicy());
    EXPECT_TRUE(cache.ok()) << cache.status();
    cache_ = *std::move(cache);
    version_ = cache_->AddVersion("m", "aa");
  }

  // A lease of `blocks` full blocks and one token in a piece of another, all
  // bytes of block i being `mark` + i, and so are the last token's values.
  Lease Fill(TokenId first, int64_t blocks, int mark) {
    const std::vector<TokenId> tokens = Tokens(first, blocks * kBigBlock + 1);
    Lease lease = Open(*cache_, {.version = version_, .tokens = tokens});
    std::vector<LeaseGrowth> growth = {{.lease = &lease, .tokens = tokens}};
    Reservation reservation = cache_->Reserve(growth);
    const BlockTableView table = reservation.Table(0);
    for (int64_t i = 0; i < blocks; ++i) {
      std::memset(table.Block(i), static_cast<int>(mark + i),
                  static_cast<size_t>(kBigLayout.BlockBytes()));
    }
    std::memset(LastValues(table, blocks), static_cast<int>(mark + blocks),
                kBigLayout.head_dim * sizeof(float));
    std::move(reservation).Commit();
    return lease;
  }

  static std::byte* LastValues(const BlockTableView& table, int64_t blocks) {
    const auto place = table.At(kBigLayout, blocks * kBigBlock);
    return place.block + kBigLayout.ValueOffset(0, 0) +
           place.slot * kBigLayout.head_dim * sizeof(float);
  }

  void ExpectFilled(const Lease& lease, int64_t blocks, int mark) {
    const BlockTableView table = lease.Table();
    if (lease.token_count() > blocks * kBigBlock) {
      ASSERT_EQ(static_cast<int>(*LastValues(table, blocks)), mark + blocks);
    }
    ASSERT_EQ(static_cast<int64_t>(table.blocks.size()), blocks);
    for (int64_t i = 0; i < blocks; ++i) {
      const std::byte* bytes = table.Block(i);
      for (const int64_t at : {int64_t{0}, kBigLayout.BlockBytes() - 1}) {
        ASSERT_EQ(static_cast<int>(bytes[at]), mark + i) << i;
      }
    }
  }

  void Finish() {
    for (int i = 0; i < 1000 && !cache_->resize().done(); ++i) {
      ASSERT_TRUE(cache_->ContinueResize().ok());
      ASSERT_THAT(cache_->Violations(), IsEmpty());
    }
    ASSERT_TRUE(cache_->resize().done());
  }

  int64_t found(TokenId first, int64_t blocks) {
    const auto tokens = Tokens(first, blocks * kBigBlock + 1);
    return Open(*cache_, {.version = version_, .tokens = tokens})
               .cached_token_count() /
           kBigBlock;
  }

  std::shared_ptr<FlakyMemory::Record> record_;
  std::unique_ptr<KvCache> cache_;
  VersionId version_;
};

TEST_F(CacheResizerTest, MemoryFollowsTheSizeDownAndUp) {
  const int64_t block = kBigLayout.BlockBytes();
  EXPECT_EQ(record_->committed_bytes, 1024 * block);
  ASSERT_TRUE(cache_->SetTarget(100).ok());
  EXPECT_EQ(cache_->Capacity().total_blocks, 100) << "at once";
  Finish();
  EXPECT_LE(record_->committed_bytes, 100 * block + BlockArena::kExtentBytes);
  EXPECT_EQ(cache_->Snapshot().tiers[0].capacity_bytes, 100 * block);
  ASSERT_TRUE(cache_->SetTarget(4096).ok());
  EXPECT_EQ(cache_->Capacity().total_blocks, 100) << "only what is there";
  Finish();
  EXPECT_EQ(record_->committed_bytes, 4096 * block);
  EXPECT_EQ(cache_->Capacity().available_blocks(), 4096);
}

TEST_F(CacheResizerTest, EveryPrefixThatFitsIsKeptWhereverItLies) {
  // Three prefixes, of which the first fills the front: the others have to
  // move there once it is gone, one of them while it is read.
  Lease front = Fill(0, 300, 1);
  { const Lease cached = Fill(10000000, 20, 50); }
  Lease running = Fill(20000000, 30, 100);
  front = Lease();
  cache_->Flush();
  { const Lease cached = Fill(30000000, 300, 1); }  // at the front again
  { const Lease cached = Fill(10000000, 20, 50); }
  ASSERT_TRUE(cache_->SetTarget(60).ok());
  Finish();
  ExpectFilled(running, 30, 100);
  EXPECT_EQ(found(10000000, 20), 20) << "used last";
  EXPECT_LT(found(30000000, 300), 10) << "eaten from its end";
  Lease again = Open(*cache_, {.version = version_,
                               .tokens = Tokens(10000000, 20 * kBigBlock + 1)});
  ExpectFilled(again, 20, 50);
  const CacheCounters counters = cache_->Snapshot().counters;
  EXPECT_GT(counters.relocated_blocks, 30);
  EXPECT_GT(counters.evicted[EvictionCause::kResize], 290);
  EXPECT_EQ(counters.evicted[EvictionCause::kCapacity], 0);
}

TEST_F(CacheResizerTest, PinnedBlocksThatDoNotFitAreWaitedFor) {
  // C6: no running request fails, and memory is back with the last pin.
  Lease running = Fill(0, 200, 1);
  ASSERT_TRUE(cache_->SetTarget(100).ok());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(cache_->ContinueResize().ok());
    ASSERT_THAT(cache_->Violations(), IsEmpty());
  }
  EXPECT_FALSE(cache_->resize().done());
  EXPECT_EQ(cache_->resize().waiting_blocks, 101);
  EXPECT_EQ(cache_->Capacity().available_blocks(), 0);
  ExpectFilled(running, 200, 1);
  running = Lease();
  Finish();
  EXPECT_EQ(found(0, 200), 100) << "as much of it as fits";
}

TEST_F(CacheResizerTest, AResizeIsCalledOffByThePresentSize) {
  Lease running = Fill(0, 200, 1);
  ASSERT_TRUE(cache_->SetTarget(100).ok());
  ASSERT_TRUE(cache_->ContinueResize().ok());
  const int64_t now = cache_->resize().block_count;
  ASSERT_TRUE(cache_->SetTarget(now).ok());
  EXPECT_TRUE(cache_->resize().done());
  EXPECT_EQ(cache_->Capacity().total_blocks, now);
  EXPECT_EQ(cache_->Capacity().available_blocks(), now - 201);
  ExpectFilled(running, 200, 1);
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(CacheResizerTest, MemoryThatIsNotThereEndsTheGrowthWhereItStands) {
  record_->fail_at_commit = record_->commits + 3;
  ASSERT_TRUE(cache_->SetTarget(4096).ok());
  const absl::Status grown = cache_->ContinueResize();
  EXPECT_EQ(grown.code(), absl::StatusCode::kResourceExhausted) << grown;
  EXPECT_TRUE(cache_->resize().done());
  EXPECT_EQ(cache_->Capacity().total_blocks, 1024);
  EXPECT_EQ(record_->committed_bytes, 1024 * kBigLayout.BlockBytes());
  EXPECT_THAT(cache_->Violations(), IsEmpty());
}

TEST_F(CacheResizerTest, SizesBeyondTheAddressSpaceAreRefused) {
  for (const int64_t blocks : {int64_t{0}, int64_t{-1}, int64_t{4097}}) {
    const absl::Status status = cache_->SetTarget(blocks);
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
    EXPECT_THAT(std::string(status.message()), HasSubstr("1 to 4096"));
  }
  EXPECT_TRUE(cache_->resize().done());
}

}  // namespace
}  // namespace kvasir

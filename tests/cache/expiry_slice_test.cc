// What a turn of the engine reads of the times to live that are over.

#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "cache/prefix_cache.h"
#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::IsEmpty;
using TokenVector = std::vector<TokenId>;

constexpr int64_t B = kSmallBlock;

TEST(ExpirySliceTest, OneTurnReadsOnlySoManyNotes) {
  // A prompt that is asked for again and again leaves notes of times that mean
  // nothing any more: others must not wait until all of them are read.
  constexpr int64_t kBlocks = 3000;
  const auto cache = MakeCache(SmallOptions(2 * kBlocks));
  const VersionId version = cache->AddVersion("m", "aa");
  const TokenVector prompt = Tokens(0, kBlocks * B);
  const TokenVector other = Tokens(1'000'000, (kBlocks - 1) * B);
  { const Lease lease = OpenAndFill(*cache, version, other); }
  for (int second = 0; second < 3; ++second) {
    cache->Advance(absl::Seconds(second));
    Lease lease =
        Open(*cache, {.version = version,
                      .tokens = prompt,
                      .retention = Retention{.ttl = absl::Seconds(10)}});
    Append(*cache, lease,
           absl::MakeConstSpan(prompt).subspan(lease.token_count()));
  }
  const auto evicted = [&] {
    return cache->Snapshot().counters.evicted[EvictionCause::kTtl];
  };
  const absl::Duration now = absl::Seconds(20);
  static_assert(2 * kBlocks > PrefixCache::kMaxExpiryLooks);
  cache->Advance(now);
  EXPECT_EQ(evicted(), 0) << "only notes of before were read";
  int turns = 1;
  for (; cache->NextDeadline() <= now; ++turns) cache->Advance(now);
  EXPECT_EQ(evicted(), kBlocks);
  EXPECT_GT(turns, 4);
  EXPECT_EQ(DeviceBlocks(*cache).cached, kBlocks - 1);
  EXPECT_THAT(cache->Violations(), IsEmpty());
}

}  // namespace
}  // namespace kvasir

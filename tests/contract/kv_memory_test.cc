#include "tests/bench/kv_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace kvasir::bench {
namespace {

constexpr KvLayout kLayout = {
    .layer_count = 2, .kv_head_count = 1, .head_dim = 8};

void ExpectWhole(const MemoryShares& shares) {
  EXPECT_NEAR(
      shares.tokens + shares.internal + shares.reservation + shares.external, 1,
      1e-9);
  EXPECT_GT(shares.steps, 0);
}

// The kinds of waste must account for every place, or the comparison that
// README quotes means nothing.
TEST(KvMemory, SharesAccountForEveryPlace) {
  const std::vector<RequestLength> mix = MakeMix(3, 300, 256);
  const MemoryShares paged = SimulatePaged(kLayout, 4096, mix);
  const MemoryShares contiguous = SimulateContiguous(4096, 256, mix);
  ExpectWhole(paged);
  ExpectWhole(contiguous);
  EXPECT_EQ(paged.reservation, 0);
  EXPECT_GT(paged.tokens, contiguous.tokens);
}

// One request of known lengths: every figure can be worked out by hand. The
// second request does not fit, so that the first step counts.
TEST(KvMemory, ContiguousSharesOfOneRequest) {
  const std::vector<RequestLength> mix = {{10, 1}, {10, 1}};
  const MemoryShares shares = SimulateContiguous(100, 50, mix);
  EXPECT_EQ(shares.steps, 1);
  EXPECT_DOUBLE_EQ(shares.tokens, 0.11);
  EXPECT_DOUBLE_EQ(shares.reservation, 0);
  EXPECT_DOUBLE_EQ(shares.internal, 0.49);
  EXPECT_DOUBLE_EQ(shares.external, 0.40);
}

// Short requests are where a block at the end of each costs most: 15 of 32
// places at 17 tokens.
TEST(KvMemory, RunningSequencesWasteLittleInTheirOpenBlocks) {
  const std::vector<int64_t> short_ones(64, 17);
  EXPECT_NEAR(InternalFragmentationOfBlocks(kLayout, short_ones), 0.47, 0.01);
  EXPECT_LE(MeasureInternalFragmentation(kLayout, short_ones), 0.15);

  struct Case {
    int64_t mean;
    double most;
  };
  for (const Case& c : {Case{17, 0.15}, Case{512, 0.03}}) {
    const std::vector<int64_t> lengths = SpreadLengths(c.mean, 63);
    EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) / 63,
              c.mean);
    const double blocks = InternalFragmentationOfBlocks(kLayout, lengths);
    const double pieces = MeasureInternalFragmentation(kLayout, lengths);
    EXPECT_LE(pieces, c.most) << "mean " << c.mean;
    EXPECT_LT(pieces, blocks / 3) << "mean " << c.mean;
  }
}

TEST(KvMemory, BytesPerTokenAreThoseOfTheShape) {
  EXPECT_EQ(MeasureBytesPerToken(kLayout, 64), 2 * 2 * 8 * 2);
}

TEST(KvMemory, MixRepeatsForASeed) {
  const auto a = MakeMix(5, 50, 1024), b = MakeMix(5, 50, 1024);
  const auto c = MakeMix(6, 50, 1024);
  int differing = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].prompt_tokens, b[i].prompt_tokens);
    EXPECT_LE(a[i].output_tokens, 1024);
    differing += a[i].prompt_tokens != c[i].prompt_tokens;
  }
  EXPECT_GT(differing, 0);
}

}  // namespace
}  // namespace kvasir::bench

#include "cache/kv_layout.h"

#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

// Llama 2 7B at fp16: the shape of which "about 0.5 MB per token" is said.
constexpr KvLayout kLlama7b = {.layer_count = 32,
                               .kv_head_count = 32,
                               .head_dim = 128,
                               .block_tokens = 16,
                               .type = KvType::kF16};

TEST(KvLayoutTest, CountsBytesPerTokenAsTheFieldDoes) {
  // 2 (K and V) x 32 layers x 32 heads x 128 x 2 bytes.
  EXPECT_EQ(kLlama7b.TokenBytes(), 524'288);
  EXPECT_EQ(kLlama7b.BlockBytes(), 16 * 524'288);
  KvLayout f32 = kLlama7b;
  f32.type = KvType::kF32;
  EXPECT_EQ(f32.TokenBytes(), 2 * kLlama7b.TokenBytes());
}

TEST(KvLayoutTest, PlanesFillABlockWithoutGapOrOverlap) {
  // Two heads that share a byte corrupt each other only at some lengths.
  const KvLayout layout = {.layer_count = 3,
                           .kv_head_count = 2,
                           .head_dim = 5,
                           .block_tokens = 7,
                           .type = KvType::kF16};
  int64_t next = 0;
  for (int layer = 0; layer < layout.layer_count; ++layer) {
    for (int head = 0; head < layout.kv_head_count; ++head) {
      EXPECT_EQ(layout.KeyOffset(layer, head), next);
      next += layout.HeadPlaneBytes();
      EXPECT_EQ(layout.ValueOffset(layer, head), next);
      next += layout.HeadPlaneBytes();
    }
  }
  EXPECT_EQ(next, layout.BlockBytes());
}

TEST(KvLayoutTest, RoundsTokensUpToWholeBlocks) {
  // The arithmetic of every plan.
  EXPECT_EQ(kLlama7b.BlocksFor(0), 0);
  EXPECT_EQ(kLlama7b.BlocksFor(1), 1);
  EXPECT_EQ(kLlama7b.BlocksFor(16), 1);
  EXPECT_EQ(kLlama7b.BlocksFor(17), 2);
}

TEST(KvLayoutTest, LargeModelsDoNotOverflow) {
  // 32-bit products wrap at 2 GiB, which a block of a large model reaches.
  const KvLayout large = {.layer_count = 128,
                          .kv_head_count = 128,
                          .head_dim = 256,
                          .block_tokens = 128,
                          .type = KvType::kF32};
  EXPECT_EQ(large.BlockBytes(), int64_t{1} << 32);
}

TEST(BlockTableViewTest, FindsABlockByItsIdBehindTheBase) {
  // The table is the only indirection between a token and its bytes.
  std::vector<std::byte> pool(1024);
  const std::vector<BlockId> ids = {BlockId(3), BlockId(0)};
  const BlockTableView table = {
      .base = pool.data(), .block_bytes = 256, .blocks = ids};
  EXPECT_EQ(table.Block(0), pool.data() + 768);
  EXPECT_EQ(table.Block(1), pool.data());
}

}  // namespace
}  // namespace kvasir

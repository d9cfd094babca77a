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

TEST(KvLayoutTest, OnlyBlocksThatDivideComeInPieces) {
  // A piece more than a block has would be a place in somebody else's.
  struct Case {
    int32_t block_tokens, piece_tokens, pieces_per_block;
  };
  for (const Case& c : {Case{16, 4, 4}, Case{4, 4, 1}, Case{8, 4, 2},
                        Case{3, 3, 1}, Case{18, 18, 1}, Case{1024, 4, 256}}) {
    KvLayout layout = kLlama7b;
    layout.block_tokens = c.block_tokens;
    EXPECT_EQ(layout.PieceTokens(), c.piece_tokens) << c.block_tokens;
    EXPECT_EQ(layout.PiecesPerBlock(), c.pieces_per_block) << c.block_tokens;
  }
  EXPECT_EQ(kLlama7b.PiecesFor(0), 0);
  EXPECT_EQ(kLlama7b.PiecesFor(17), 5);
  EXPECT_EQ(kLlama7b.PiecesFor(20), 5);
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

TEST(BlockTableViewTest, FindsATokenInABlockOrInAPieceOfOne) {
  // Kernels write and read by this alone.
  std::vector<std::byte> pool(1024);
  const KvLayout layout = {.layer_count = 1, .kv_head_count = 1, .head_dim = 1};
  const std::vector<BlockId> ids = {BlockId(3)};
  const std::vector<TailPiece> tail = {{BlockId(1), 8}, {BlockId(2), 4}};
  const BlockTableView table = {
      .base = pool.data(), .block_bytes = 256, .blocks = ids, .tail = tail};
  EXPECT_EQ(table.Places(layout), 24);
  struct Case {
    int64_t position, block, slot;
  };
  for (const Case& c : {Case{0, 3, 0}, Case{15, 3, 15}, Case{16, 1, 8},
                        Case{19, 1, 11}, Case{20, 2, 4}, Case{23, 2, 7}}) {
    const BlockTableView::Place place = table.At(layout, c.position);
    EXPECT_EQ(place.block, pool.data() + c.block * 256) << c.position;
    EXPECT_EQ(place.slot, c.slot) << c.position;
  }
}

TEST(BlockTableViewTest, ATailInPlaceIsReadLikeABlock) {
  // What is not in order and is taken for it gives another sequence's keys.
  const KvLayout layout = {.layer_count = 1, .kv_head_count = 1, .head_dim = 1};
  const auto in_place = [&](std::vector<TailPiece> tail) {
    return BlockTableView{.tail = tail}.TailInPlace(layout);
  };
  EXPECT_TRUE(in_place({{BlockId(1), 0}}));
  EXPECT_TRUE(in_place({{BlockId(1), 0}, {BlockId(1), 4}, {BlockId(1), 8}}));
  EXPECT_FALSE(in_place({{BlockId(1), 4}}));
  EXPECT_FALSE(in_place({{BlockId(1), 0}, {BlockId(1), 8}}));
  EXPECT_FALSE(in_place({{BlockId(1), 0}, {BlockId(2), 4}}));
}

}  // namespace
}  // namespace kvasir

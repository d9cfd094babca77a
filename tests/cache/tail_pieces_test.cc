#include "cache/tail_pieces.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cache/cache_testing.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr VersionId kOne(0);
constexpr VersionId kTwo(1);
constexpr KvLayout kLayout = {.layer_count = 2,
                              .kv_head_count = 2,
                              .head_dim = 3,
                              .block_tokens = 16,
                              .type = KvType::kF16};

TailPiece Piece(int32_t block, int32_t index) {
  return {BlockId(block), index * KvLayout::kPieceTokens};
}

class TailPiecesTest : public testing::Test {
 protected:
  TailPiecesTest()
      : arena_(*BlockArena::Create(kLayout.BlockBytes(), 8, MakeHostMemory())),
        pool_(kLayout.block_tokens),
        tails_(pool_, arena_, kLayout) {
    EXPECT_TRUE(arena_.Grow(8).ok());
  }
  ~TailPiecesTest() override {
    for (const auto& tail : made_) tails_.Resize(*tail, 0);
  }

  // A tail of `tokens` tokens whose numbers all are `mark` and their place.
  Tail& Make(int32_t tokens, int32_t mark = 0, VersionId version = kOne) {
    made_.push_back(std::make_unique<Tail>(Tail{.version = version}));
    Tail& tail = *made_.back();
    Grow(tail, tokens, mark);
    return tail;
  }

  void Grow(Tail& tail, int32_t tokens, int32_t mark = 0) {
    tails_.Resize(tail, kLayout.PiecesFor(tokens));
    for (int32_t t = tail.tokens; t < tokens; ++t) {
      ForEach(View(tail), t, [&](int64_t n, uint16_t* number) {
        *number = Number(mark, t, n);
      });
    }
    tail.tokens = tokens;
  }

  // Two tails that took their pieces by turns, in a pool of `blocks`: each had
  // so many tokens at first, and has so many in the end.
  struct Growth {
    int32_t first;
    int32_t last;
  };
  std::pair<Tail&, Tail&> MakeTwo(int32_t blocks, Growth one, Growth two) {
    pool_.Grow(blocks);
    Tail& a = Make(one.first, 1);
    Tail& b = Make(two.first, 2);
    Grow(a, one.last, 1);
    Grow(b, two.last, 2);
    return {a, b};
  }

  static uint16_t Number(int32_t mark, int32_t token, int64_t n) {
    return static_cast<uint16_t>(mark * 4096 + token * 128 + n);
  }

  BlockTableView View(const Tail& tail) const {
    return {.base = arena_.base(),
            .block_bytes = arena_.block_bytes(),
            .blocks = {},
            .tail = tail.pieces};
  }

  // Calls `use` with every number of a token.
  template <typename Use>
  static void ForEach(const BlockTableView& view, int64_t token, Use use) {
    const auto place = view.At(kLayout, token);
    int64_t n = 0;
    for (int32_t layer = 0; layer < kLayout.layer_count; ++layer) {
      for (int32_t head = 0; head < kLayout.kv_head_count; ++head) {
        auto* keys = reinterpret_cast<uint16_t*>(
            place.block + kLayout.KeyOffset(layer, head));
        auto* values = reinterpret_cast<uint16_t*>(
            place.block + kLayout.ValueOffset(layer, head));
        for (int64_t d = 0; d < kLayout.head_dim; ++d) {
          use(n++, keys + d * kLayout.block_tokens + place.slot);
          use(n++, values + place.slot * kLayout.head_dim + d);
        }
      }
    }
  }

  static void ExpectTokens(const BlockTableView& view, int32_t tokens,
                           int32_t mark) {
    for (int32_t t = 0; t < tokens; ++t) {
      ForEach(view, t, [&](int64_t n, const uint16_t* number) {
        ASSERT_EQ(*number, Number(mark, t, n)) << "token " << t;
      });
    }
  }

  void ExpectBlock(BlockId block, int32_t tokens, int32_t mark) {
    BlockTableView view = View(Tail());
    view.blocks = {&block, 1};
    ExpectTokens(view, tokens, mark);
  }

  void ExpectSound() {
    EXPECT_THAT(tails_.Violations(), IsEmpty());
    EXPECT_THAT(pool_.Violations(), IsEmpty());
  }

  BlockArena arena_;
  BlockPool pool_;
  TailPieces tails_;
  std::vector<std::unique_ptr<Tail>> made_;
};

TEST_F(TailPiecesTest, ATailGrowsInItsOwnBlockThenInTheFullest) {
  // The piece behind the last one spares a copy; the fullest block keeps
  // others whole.
  pool_.Grow(4);
  Tail& a = Make(5, 1);
  EXPECT_THAT(a.pieces, ElementsAre(Piece(0, 0), Piece(0, 1)));
  Tail& b = Make(1, 2);
  EXPECT_THAT(b.pieces, ElementsAre(Piece(0, 2)));
  Grow(a, 9, 1);
  EXPECT_EQ(a.pieces.back(), Piece(0, 3));
  Grow(b, 5, 2);
  Tail& c = Make(12, 3);
  EXPECT_THAT(c.pieces, ElementsAre(Piece(1, 1), Piece(1, 2), Piece(1, 3)));
  Tail& d = Make(4, 4);
  EXPECT_THAT(d.pieces, ElementsAre(Piece(2, 0)));
  tails_.Resize(a, 1);
  EXPECT_EQ(a.tokens, 4);
  Tail& e = Make(4, 5);
  EXPECT_THAT(e.pieces, ElementsAre(Piece(0, 1))) << "fuller than block 2";
  EXPECT_EQ(tails_.used_pieces(), 8);
  EXPECT_EQ(tails_.packed_blocks(), 2);
  EXPECT_EQ(tails_.free_pieces(), 4);
  ExpectTokens(View(b), 5, 2);
  ExpectSound();
}

TEST_F(TailPiecesTest, ABlockIsFreeWithItsLastPiece) {
  // C4: nothing leaks, also through a block that several shared.
  pool_.Grow(2);
  Tail& a = Make(3);
  Tail& b = Make(3);
  tails_.Resize(a, 0);
  EXPECT_EQ(pool_.tally().blocks.pinned, 1);
  tails_.Resize(b, 0);
  EXPECT_EQ(pool_.tally().blocks.free, 2);
  EXPECT_EQ(tails_.used_pieces(), 0);
  ExpectSound();
}

TEST_F(TailPiecesTest, VersionsShareABlockAndAreCountedApart) {
  // C3: a retired version must not hold a block because of another's piece.
  pool_.Grow(2);
  Tail& one = Make(5, 1, kOne);
  Tail& two = Make(3, 2, kTwo);
  EXPECT_EQ(tails_.tally(kOne), (PieceTally{.held = 2, .tokens = 5}));
  EXPECT_EQ(tails_.tally(kTwo), (PieceTally{.held = 1, .tokens = 3}));
  tails_.Resize(two, 2);
  EXPECT_EQ(tails_.tally(kTwo),
            (PieceTally{.held = 1, .reserved = 1, .tokens = 3}));
  EXPECT_EQ(tails_.tally(),
            (PieceTally{.held = 3, .reserved = 1, .tokens = 8}));
  EXPECT_EQ(pool_.tally(kOne).blocks.pinned, 1);
  tails_.Resize(one, 0);
  EXPECT_EQ(pool_.tally(kOne).blocks.pinned, 0);
  EXPECT_EQ(pool_.tally(kTwo).blocks.pinned, 1);
  ExpectSound();
}

TEST_F(TailPiecesTest, ATailAloneBecomesItsBlock) {
  // The common case of one client: nothing is copied.
  pool_.Grow(2);
  Tail& tail = Make(14, 1);
  const BlockRef whole = tails_.Join(tail);
  EXPECT_EQ(whole.block(), BlockId(0));
  EXPECT_EQ(pool_.filled_tokens(whole.block()), 14);
  EXPECT_TRUE(tail.pieces.empty());
  EXPECT_EQ(tails_.used_pieces(), 0);
  ExpectBlock(whole.block(), 14, 1);
  ExpectSound();
}

TEST_F(TailPiecesTest, AScatteredTailIsCopiedToAFreeBlock) {
  const auto [a, b] = MakeTwo(3, {3, 13}, {3, 3});
  EXPECT_THAT(a.pieces,
              ElementsAre(Piece(0, 0), Piece(0, 2), Piece(0, 3), Piece(1, 0)));
  const BlockRef whole = tails_.Join(a);
  EXPECT_EQ(whole.block(), BlockId(2));
  ExpectBlock(whole.block(), 13, 1);
  EXPECT_EQ(pool_.state(BlockId(1)), BlockState::kFree);
  ExpectTokens(View(b), 3, 2);
  ExpectSound();
}

TEST_F(TailPiecesTest, ATailFillsItsBlockWhereOnlyItsLastPieceIsFree) {
  // SCHED: a sequence can fill the pool to the last place, however the tails
  // lie; here every block is split and one piece is free.
  const auto [a, b] = MakeTwo(2, {3, 12}, {12, 13});
  EXPECT_THAT(a.pieces, ElementsAre(Piece(0, 0), Piece(1, 0), Piece(1, 1)));
  EXPECT_EQ(b.pieces.back(), Piece(1, 2));
  const BlockRef whole = tails_.Join(a);
  ExpectBlock(whole.block(), 12, 1);
  ExpectTokens(View(b), 13, 2);
  EXPECT_EQ(b.pieces.size(), 4u);
  EXPECT_EQ(tails_.free_pieces(), 0);
  ExpectSound();
}

TEST_F(TailPiecesTest, AFullTailFindsABlockInAPoolThatIsTooSmallForIt) {
  // While a shrink waits for pins, running sequences go on: a tail that has
  // all its places needs none below the limit to become a block.
  const auto [a, b] = MakeTwo(3, {3, 16}, {3, 15});
  pool_.SetLimit(1);
  const BlockRef first = tails_.Join(a);
  ExpectBlock(first.block(), 16, 1);
  const BlockRef second = tails_.Join(b);
  ExpectBlock(second.block(), 15, 2);
  EXPECT_EQ(tails_.used_pieces(), 0);
  EXPECT_EQ(pool_.tally().blocks.pinned, 2);
  ExpectSound();
}

TEST_F(TailPiecesTest, SplitUndoesAJoin) {
  // A step that fails has taken nothing.
  pool_.Grow(2);
  Tail& tail = Make(6, 1);
  BlockRef whole = tails_.Join(tail);
  tails_.Split(std::move(whole), 6, tail);
  EXPECT_THAT(tail.pieces, ElementsAre(Piece(0, 0), Piece(0, 1)));
  EXPECT_EQ(tail.tokens, 6);
  EXPECT_EQ(tails_.free_pieces(), 2);
  ExpectTokens(View(tail), 6, 1);
  ExpectSound();
}

TEST_F(TailPiecesTest, PiecesMoveTogetherForAWholeBlock) {
  // As many free pieces as a block has are a block, wherever they lie.
  pool_.Grow(3);
  Tail& a = Make(16, 1);
  Tail& b = Make(16, 2);
  Tail& c = Make(16, 3);
  tails_.Resize(a, 3);
  tails_.Resize(b, 2);
  EXPECT_FALSE(tails_.MakeFreeBlock()) << "three pieces are none";
  tails_.Resize(c, 3);
  const BlockRef whole = tails_.GrantBlock(kTwo);
  EXPECT_EQ(pool_.state(whole.block()), BlockState::kReserved);
  EXPECT_EQ(whole.block(), BlockId(1)) << "it had the least to copy";
  ExpectTokens(View(a), 12, 1);
  ExpectTokens(View(b), 8, 2);
  ExpectTokens(View(c), 12, 3);
  EXPECT_EQ(tails_.free_pieces(), 0);
  ExpectSound();
}

TEST_F(TailPiecesTest, AVacatedBlockLeavesWhatItHeldBelowTheLimit) {
  // C6: a resize moves tails while their sequences run.
  pool_.Grow(3);
  Tail& a = Make(16, 1);
  Tail& b = Make(7, 2);
  tails_.Resize(a, 2);
  pool_.SetLimit(1);
  EXPECT_EQ(tails_.leaving_pieces(), 2);
  EXPECT_EQ(tails_.free_pieces(), 2);
  Tail& c = Make(1, 3);
  EXPECT_EQ(c.pieces.front().block, BlockId(0)) << "not beyond the limit";
  EXPECT_FALSE(tails_.Vacate(BlockId(1))) << "two pieces for one place";
  tails_.Resize(c, 0);
  EXPECT_TRUE(tails_.Vacate(BlockId(1)));
  EXPECT_EQ(pool_.state(BlockId(1)), BlockState::kLeaving);
  ExpectTokens(View(a), 8, 1);
  ExpectTokens(View(b), 7, 2);
  ExpectSound();
}

TEST_F(TailPiecesTest, StopsWhatNoPlanMayAskFor) {
  // Each would let two sequences write into one piece.
  pool_.Grow(1);
  Tail& a = Make(16, 1);
  EXPECT_DEATH(tails_.Resize(a, 5), "5 pieces of a block of 4");
  Tail b{.version = kOne};
  EXPECT_DEATH(tails_.Resize(b, 1), "the set is empty");
  EXPECT_DEATH((void)tails_.GrantBlock(kOne), "0 free pieces");
  EXPECT_DEATH((void)tails_.Join(b), "tokens > 0");
}

TEST(TailPiecesDeathTest, APieceThatOutlivesTheCacheIsFound) {
  // Its sequence would write into memory that is gone.
  EXPECT_DEATH(
      {
        BlockArena arena =
            *BlockArena::Create(kLayout.BlockBytes(), 1, MakeHostMemory());
        BlockPool pool(kLayout.block_tokens);
        pool.Grow(1);
        Tail tail{.version = kOne};
        TailPieces tails(pool, arena, kLayout);
        tails.Resize(tail, 2);
      },
      "2 pieces outlive the cache");
}

}  // namespace
}  // namespace kvasir

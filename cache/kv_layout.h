#ifndef KVASIR_CACHE_KV_LAYOUT_H_
#define KVASIR_CACHE_KV_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"

namespace kvasir {

// How one number of a key or value is stored in a block.
enum class KvType : uint8_t { kF32, kF16 };

constexpr int64_t KvTypeBytes(KvType type) {
  return type == KvType::kF32 ? 4 : 2;
}

// The shape of every block of a pool, from plain numbers; the one place that
// computes offsets inside a block. Plain value, any thread.
//
// A block holds, for each layer and each KV head in turn, first the keys as
// [head_dim][block_tokens] (transposed, so that a query times 16 keys is
// vertical arithmetic) and then the values as [block_tokens][head_dim].
struct KvLayout {
  int32_t layer_count = 0;
  int32_t kv_head_count = 0;
  int32_t head_dim = 0;
  int32_t block_tokens = 16;
  KvType type = KvType::kF16;

  // Bytes of the keys (or of the values) of one head of one layer.
  constexpr int64_t HeadPlaneBytes() const {
    return int64_t{head_dim} * block_tokens * KvTypeBytes(type);
  }
  constexpr int64_t BlockBytes() const {
    return 2 * HeadPlaneBytes() * kv_head_count * layer_count;
  }
  // Bytes that one token's keys and values take in all layers.
  constexpr int64_t TokenBytes() const { return BlockBytes() / block_tokens; }
  // Offset in bytes, from the block's first byte, of element [0][0].
  constexpr int64_t KeyOffset(int32_t layer, int32_t kv_head) const {
    return 2 * HeadPlaneBytes() * (int64_t{layer} * kv_head_count + kv_head);
  }
  constexpr int64_t ValueOffset(int32_t layer, int32_t kv_head) const {
    return KeyOffset(layer, kv_head) + HeadPlaneBytes();
  }
  constexpr int64_t BlocksFor(int64_t tokens) const {
    return (tokens + block_tokens - 1) / block_tokens;
  }

  // A piece is a run of slots of a block, the unit in which memory is granted
  // to a block that stays open (TailPieces). Blocks that do not divide into
  // pieces of kPieceTokens are one piece.
  static constexpr int32_t kPieceTokens = 4;
  constexpr int32_t PieceTokens() const {
    return block_tokens % kPieceTokens == 0 ? kPieceTokens : block_tokens;
  }
  constexpr int32_t PiecesPerBlock() const {
    return block_tokens / PieceTokens();
  }
  constexpr int64_t PiecesFor(int64_t tokens) const {
    return (tokens + PieceTokens() - 1) / PieceTokens();
  }
  friend constexpr bool operator==(const KvLayout&, const KvLayout&) = default;
};

// Where one piece of an open block lies: in the slots of `block` from
// `first_slot` on, among the pieces of other sequences.
struct TailPiece {
  BlockId block;
  int32_t first_slot = 0;
  friend bool operator==(const TailPiece&, const TailPiece&) = default;
};

// One sequence's blocks in token order, as kernels read them: whole blocks,
// and behind them, if the last block is in pieces, those. A view: valid while
// its Lease or Reservation is.
struct BlockTableView {
  // A token's keys are column `slot` of the key planes of the block that begins
  // at `block`, and its values row `slot` of the value planes.
  struct Place {
    std::byte* block = nullptr;
    int64_t slot = 0;
  };

  std::byte* base = nullptr;  // first byte of block 0 of the pool
  int64_t block_bytes = 0;
  absl::Span<const BlockId> blocks;
  absl::Span<const TailPiece> tail;

  std::byte* At(BlockId block) const {
    return base + int64_t{block.value()} * block_bytes;
  }
  // Of the whole block that is the sequence's `index`-th.
  std::byte* Block(int64_t index) const { return At(blocks[index]); }

  // Of the token at `position`, which the table must reach to.
  Place At(const KvLayout& layout, int64_t position) const {
    const int64_t index = position / layout.block_tokens;
    const int64_t slot = position % layout.block_tokens;
    if (index < static_cast<int64_t>(blocks.size()))
      return {Block(index), slot};
    const TailPiece& piece = tail[slot / layout.PieceTokens()];
    return {At(piece.block), piece.first_slot + slot % layout.PieceTokens()};
  }

  // Tokens that the table has places for.
  int64_t Places(const KvLayout& layout) const {
    return static_cast<int64_t>(blocks.size()) * layout.block_tokens +
           static_cast<int64_t>(tail.size()) * layout.PieceTokens();
  }

  // Whether the tail lies as if its block were whole and its own: in order,
  // from slot 0 of one block on.
  bool TailInPlace(const KvLayout& layout) const {
    for (size_t i = 0; i < tail.size(); ++i) {
      if (tail[i].block != tail[0].block ||
          tail[i].first_slot !=
              static_cast<int64_t>(i) * layout.PieceTokens()) {
        return false;
      }
    }
    return true;
  }
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_KV_LAYOUT_H_

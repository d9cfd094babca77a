#ifndef KVASIR_CACHE_TAIL_PIECES_H_
#define KVASIR_CACHE_TAIL_PIECES_H_

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "cache/base/strong_id.h"
#include "cache/block_arena.h"
#include "cache/block_pool.h"
#include "cache/kv_layout.h"

namespace kvasir {

// The open last block of a sequence while it lies in pieces. Owned by a lease,
// at a fixed address; empty where the sequence ends with a whole block.
struct Tail {
  VersionId version;
  std::vector<TailPiece> pieces;  // in token order
  int32_t tokens = 0;             // in the first of them; the rest is reserved
};

// What the pieces of all tails, or of one version's, hold. Plain value.
struct PieceTally {
  int64_t held = 0;      // pieces with at least one token
  int64_t reserved = 0;  // pieces granted to the step in hand, without one
  int64_t tokens = 0;
  friend bool operator==(const PieceTally&, const PieceTally&) = default;
};

// Grants memory to open blocks a piece at a time, so that a short tail does not
// hold a whole block. A split block is a pool block whose pieces belong to
// tails of any sequences and versions; it is split when a tail finds no free
// piece and is free again when its last piece goes.
//
// Free pieces are worth as much as free blocks: where every block is split,
// pieces are copied together until one is whole. So a step fits exactly if the
// pool has as many free pieces as it asks for, wherever they lie. Tails that
// move learn it here; kernels see a tail only through a BlockTableView.
//
// Split blocks beyond the pool's limit grant nothing more. If blocks are one
// piece each (KvLayout), nobody needs this class. Part of the CacheCore, whose
// pool and arena it works on. Engine thread only.
class TailPieces {
 public:
  TailPieces(BlockPool& pool, const BlockArena& arena, const KvLayout& layout);
  ~TailPieces();  // no piece may be held
  TailPieces(const TailPieces&) = delete;
  TailPieces& operator=(const TailPieces&) = delete;

  // The tail has `piece_count` pieces afterwards: new ones are reserved, those
  // at the end are free again. A piece that is asked for must be there to get,
  // in a split block or in a free one.
  void Resize(Tail& tail, int64_t piece_count);

  // Makes the tail's block a whole one, which holds the tail's tokens; the tail
  // is empty afterwards. As many pieces must be free as it lacks.
  BlockRef Join(Tail& tail);

  // Undoes Join(): the block's first `tokens` places become the pieces of the
  // empty tail, the others are free. No byte moves.
  void Split(BlockRef block, int32_t tokens, Tail& tail);

  // A free block for `owner`; as many pieces must be free as it has.
  BlockRef GrantBlock(VersionId owner);

  // Makes a block free by moving its pieces to others. False if that needs more
  // free pieces than there are.
  bool MakeFreeBlock();

  // The same for the split block `from`, be it beyond the pool's limit.
  bool Vacate(BlockId from);

  PieceTally tally() const;
  PieceTally tally(VersionId owner) const;
  // Pieces that tails hold or have reserved.
  int64_t used_pieces() const { return used_pieces_; }
  // Blocks that these would take if they lay together.
  int64_t packed_blocks() const;
  // Pieces of split blocks that nobody holds: up to the pool's limit, beyond.
  int64_t free_pieces() const;
  int64_t leaving_pieces() const;

  // What must hold of the pieces and does not. Walks all split blocks.
  std::vector<std::string> Violations() const;

 private:
  struct SplitBlock {
    BlockRef ref;
    std::vector<Tail*> holders;  // by piece; nullptr: free
    int32_t free = 0;
  };

  TailPiece PieceAt(BlockId block, int64_t index) const;
  bool Usable(BlockId block) const;
  TailPiece FindNext(const Tail& tail);
  TailPiece FindFree(VersionId owner, bool or_leaving);
  void AddSplit(BlockRef ref);
  void Hold(TailPiece piece, Tail* tail);
  void Release(TailPiece piece);
  void DropEmpty();
  void Index(BlockId block, int32_t free_before, int32_t free_after);
  void UpdateOwner(SplitBlock& block);
  BlockId Emptiest(bool or_leaving) const;
  BlockRef Evacuate(BlockId from);
  BlockRef JoinCopy(Tail& tail, int32_t tokens);
  void CopyOut(Tail& tail, std::byte* to);
  void CopyPiece(const std::byte* from, int64_t from_slot, std::byte* to,
                 int64_t to_slot) const;
  std::byte* Bytes(BlockId block) const;

  BlockPool& pool_;
  const BlockArena& arena_;
  const KvLayout layout_;
  const int32_t piece_tokens_;
  const int32_t pieces_per_block_;
  absl::flat_hash_map<BlockId, SplitBlock> blocks_;
  // Blocks with free pieces, the fullest first.
  std::set<std::pair<int32_t, BlockId>> by_free_;
  int64_t used_pieces_ = 0;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_TAIL_PIECES_H_

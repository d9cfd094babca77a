#ifndef KVASIR_CACHE_BLOCK_POOL_H_
#define KVASIR_CACHE_BLOCK_POOL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "cache/base/strong_id.h"
#include "cache/block_id_set.h"
#include "cache/snapshot.h"

namespace kvasir {

class BlockPool;

enum class BlockState : uint8_t {
  kFree,      // holds nothing
  kReserved,  // granted, no token yet
  kPinned,    // holds tokens and at least one BlockRef
  kCached,    // full, kept, and nobody holds it
  kLeaving,   // holds nothing, beyond the limit
};

// The metric label of a state.
absl::string_view BlockStateName(BlockState state);

// Blocks of a pool, or of one version in it, by state, and the tokens that its
// pinned and cached ones hold as whole blocks. Plain value.
struct BlockTally {
  BlockCounts blocks;
  int64_t split_blocks = 0;  // of the pinned ones, those in pieces
  int64_t tokens = 0;        // of the others
  friend bool operator==(const BlockTally&, const BlockTally&) = default;
};

// A pin: while it lives, its block is neither granted to anybody else nor
// evicted. The last one to go turns a kept block into a cached one and frees
// any other.
//
// Engine thread only; must not outlive its pool. Movable, the source is empty
// afterwards.
class [[nodiscard]] BlockRef {
 public:
  BlockRef() = default;
  BlockRef(BlockRef&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        block_(std::exchange(other.block_, BlockId())) {}
  BlockRef& operator=(BlockRef&& other) noexcept;
  ~BlockRef() {
    if (pool_ != nullptr) Unpin();
  }

  bool held() const { return pool_ != nullptr; }
  BlockId block() const { return block_; }

 private:
  friend class BlockPool;
  friend class BlockTable;  // follows a relocation
  BlockRef(BlockPool* pool, BlockId block) : pool_(pool), block_(block) {}
  void Unpin();

  BlockPool* pool_ = nullptr;
  BlockId block_;
};

// Ids, states and counts of the blocks of one tier. Knows neither bytes nor
// what the tokens are.
//
//   free     -> reserved  Grant()
//   reserved -> pinned    Fill()
//   reserved -> free      its BlockRef goes
//   pinned   -> cached    its last BlockRef goes, and it was kept
//   pinned   -> free      its last BlockRef goes, and it was not
//   cached   -> pinned    Pin()
//   cached   -> free      Forget()
//   reserved -> pinned    Split(): the block is in pieces, see TailPieces
//
// Blocks from limit() on are on their way out: where one of them would be free
// it is leaving, and SetLimit() turns the one into the other. Relocate() swaps
// a pinned or cached block with a free one.
//
// The lowest free id is granted first. Counts are kept up to date by every
// move, so that reading them costs nothing. Engine thread only.
class BlockPool {
 public:
  // An empty pool; `block_tokens` is what a full block holds.
  explicit BlockPool(int32_t block_tokens);
  ~BlockPool();  // no BlockRef may be left
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Adds blocks behind the last one until there are `block_count`, the limit.
  void Grow(int64_t block_count);

  // At most `block_count` blocks are to be left, those with the lowest ids.
  void SetLimit(int64_t limit);

  // Cuts off the last block if it is leaving. False if it is not.
  bool TrimLast();

  // Gives a pinned or cached block the lowest free id, with all that the pool
  // knows of it; `from` becomes free or leaving. There must be a free block.
  // Whoever keeps the old id has to learn the new one: see BlockTable.
  BlockId Relocate(BlockId from);

  // The lowest free block, reserved for `owner`. There must be a free one.
  BlockRef Grant(VersionId owner);

  // The block now holds `tokens` tokens, at least as many as before. Only for
  // its single holder, and not once it is kept.
  void Fill(const BlockRef& ref, int32_t tokens);

  // From now on the block is in pieces, of which TailPieces keeps account:
  // pinned as long as `ref` lives, whatever they hold. Only for its single
  // holder, and not once it is kept.
  void Split(const BlockRef& ref);

  // Undoes Split(): the block holds `tokens` tokens, all of `owner`.
  void Join(const BlockRef& ref, VersionId owner, int32_t tokens);

  // A split block is counted with another version.
  void SetOwner(const BlockRef& ref, VersionId owner);

  // One more pin on a pinned or cached block.
  BlockRef Pin(BlockId block);

  // The full block of `ref` stays as a cached one when its last pin goes.
  void Keep(const BlockRef& ref);

  // Undoes Keep(): a cached block becomes free now, a pinned one with its last
  // pin.
  void Forget(BlockId block);

  BlockState state(BlockId block) const { return At(block).state; }
  bool kept(BlockId block) const { return At(block).kept; }
  bool split(BlockId block) const { return At(block).split; }
  int32_t pin_count(BlockId block) const { return At(block).pins; }
  int32_t filled_tokens(BlockId block) const { return At(block).tokens; }
  // The version that the block was last granted to.
  VersionId owner(BlockId block) const { return At(block).owner; }

  int32_t block_tokens() const { return block_tokens_; }
  int64_t block_count() const { return static_cast<int64_t>(blocks_.size()); }
  int64_t limit() const { return limit_; }
  const BlockTally& tally() const { return total_; }
  // Free and leaving blocks belong to no version and are zero in it.
  BlockTally tally(VersionId owner) const;

  // What must hold of the pool and does not. Walks all blocks.
  std::vector<std::string> Violations() const;

 private:
  friend class BlockRef;
  struct Block {
    BlockState state = BlockState::kFree;
    bool kept = false;
    bool split = false;
    int32_t tokens = 0;
    int32_t pins = 0;
    VersionId owner;
  };

  // Called for every block that a lease finds or gives up, so kept short enough
  // to vanish in its callers.
  const Block& At(BlockId block) const {
    const auto index = static_cast<uint32_t>(block.value());
    if (index >= blocks_.size()) DieOfUnknown(block);
    return blocks_[index];
  }
  Block& At(BlockId block) {
    return const_cast<Block&>(std::as_const(*this).At(block));
  }
  [[noreturn]] void DieOfUnknown(BlockId block) const;
  BlockTally& TallyOf(VersionId owner) {
    const size_t index = static_cast<size_t>(owner.value());
    if (index >= by_owner_.size()) by_owner_.resize(index + 1);
    return by_owner_[index];
  }
  void Move(BlockId id, BlockState to);
  void MarkSplit(BlockId id, bool split);
  void Unpin(BlockId id);
  void Empty(BlockId id);

  const int32_t block_tokens_;
  std::vector<Block> blocks_;
  int64_t limit_ = 0;  // at most block_count()
  BlockIdSet free_;
  BlockTally total_;
  std::vector<BlockTally> by_owner_;  // by VersionId
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_BLOCK_POOL_H_

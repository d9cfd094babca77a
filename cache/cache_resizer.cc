#include "cache/cache_resizer.h"

#include <algorithm>
#include <cstring>

#include "cache/base/check.h"

namespace kvasir {

CacheResizer::CacheResizer(BlockPool& pool, BlockArena& arena,
                           TailPieces& tails, PrefixCache& prefixes,
                           CacheCounters& counters, int64_t slice_bytes)
    : pool_(pool),
      arena_(arena),
      tails_(tails),
      prefixes_(prefixes),
      counters_(counters),
      slice_blocks_(std::max<int64_t>(1, slice_bytes / arena.block_bytes())),
      target_(pool.block_count()) {}

void CacheResizer::SetTarget(int64_t blocks) {
  KV_CHECK(blocks > 0 && blocks <= arena_.max_blocks())
      << "a target of " << blocks << " of at most " << arena_.max_blocks();
  target_ = blocks;
  pool_.SetLimit(std::min(blocks, pool_.block_count()));
}

absl::Status CacheResizer::Continue(absl::Span<LeaseState* const> leases) {
  if (pool_.block_count() < target_) return Grow();
  if (pool_.block_count() == target_) return absl::OkStatus();
  Evict();
  Relocate(leases);
  arena_.Shrink(pool_.block_count());
  return absl::OkStatus();
}

ResizeProgress CacheResizer::progress() const {
  return {.target_blocks = target_,
          .block_count = pool_.block_count(),
          .pinned_blocks = PinnedBlocks(),
          .waiting_blocks = std::max<int64_t>(PinnedBlocks() - target_, 0)};
}

absl::Status CacheResizer::Grow() {
  const int64_t next = std::min(target_, pool_.block_count() + slice_blocks_);
  absl::Status status = arena_.Grow(next);
  if (status.ok()) {
    pool_.Grow(next);
  } else {
    target_ = pool_.block_count();
  }
  return status;
}

void CacheResizer::Evict() {
  int64_t left = kSliceEvictions;
  while (PinnedBlocks() + pool_.tally().blocks.cached > target_ &&
         pool_.tally().blocks.cached > 0 && left-- > 0) {
    if (!prefixes_.EvictOne(EvictionCause::kResize)) break;
  }
}

// Takes the blocks off the end one by one, as long as what they hold finds
// another place; then pins have to go first.
void CacheResizer::Relocate(absl::Span<LeaseState* const> leases) {
  const int64_t before = pool_.block_count();
  moved_to_.assign(before - pool_.limit(), BlockId());
  for (int64_t left = slice_blocks_;
       left > 0 && pool_.block_count() > pool_.limit(); --left) {
    if (pool_.TrimLast()) continue;
    if (!MoveLast()) break;
    ++counters_.relocated_blocks;
    KV_CHECK(pool_.TrimLast());
    left -= kCopyCost - 1;
  }
  if (pool_.block_count() < before) Follow(leases);
}

// Copies what the last block holds to where there is room, if there is.
bool CacheResizer::MoveLast() {
  const BlockId from(static_cast<BlockId::Value>(pool_.block_count() - 1));
  if (pool_.split(from)) return tails_.Vacate(from);
  if (pool_.tally().blocks.free == 0 && !tails_.MakeFreeBlock()) return false;
  const BlockId to = pool_.Relocate(from);
  std::memcpy(arena_.base() + int64_t{to.value()} * arena_.block_bytes(),
              arena_.base() + int64_t{from.value()} * arena_.block_bytes(),
              static_cast<size_t>(arena_.block_bytes()));
  prefixes_.Relocate(from, to);
  moved_to_[from.value() - pool_.limit()] = to;
  return true;
}

// Leases hold ids by value; those that moved are renumbered.
void CacheResizer::Follow(absl::Span<LeaseState* const> leases) {
  for (LeaseState* lease : leases) {
    for (int64_t i = 0; i < lease->table.size(); ++i) {
      const int64_t beyond =
          int64_t{lease->table.ids()[i].value()} - pool_.limit();
      if (beyond < 0 || !moved_to_[beyond].valid()) continue;
      lease->table.Renumber(i, moved_to_[beyond]);
    }
  }
}

// As many as there would be if no block in pieces had a free one.
int64_t CacheResizer::PinnedBlocks() const {
  const BlockTally& tally = pool_.tally();
  return tally.blocks.pinned - tally.split_blocks + tally.blocks.reserved +
         tails_.packed_blocks();
}

}  // namespace kvasir

#ifndef KVASIR_CACHE_CACHE_RESIZER_H_
#define KVASIR_CACHE_CACHE_RESIZER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/block_arena.h"
#include "cache/block_pool.h"
#include "cache/lease_state.h"
#include "cache/prefix_cache.h"
#include "cache/snapshot.h"
#include "cache/tail_pieces.h"

namespace kvasir {

// Moves the device tier to another size while it is in use, a slice at a time
// between two steps, so that no step waits for more than one slice.
//
// A smaller size closes the pool at once: blocks beyond the target are granted
// no more. Then cached blocks are evicted, as the policy ranks them, until
// those held fit the target; what is held beyond it is copied to free blocks
// below, those in pieces piece by piece; and the end of the pool, empty now,
// goes back to the system. Pinned blocks that do not fit are waited for. A
// larger size commits memory.
//
// Part of the CacheCore, whose parts it works on. Engine thread only.
class CacheResizer {
 public:
  // A slice commits or gives back up to `slice_bytes`; a copied byte counts as
  // many times more as it costs more.
  static constexpr int64_t kCopyCost = 16;
  static constexpr int64_t kSliceEvictions = 4096;

  CacheResizer(BlockPool& pool, BlockArena& arena, TailPieces& tails,
               PrefixCache& prefixes, CacheCounters& counters,
               int64_t slice_bytes);

  // From now on the pool is on its way to `blocks`, in [1, arena.max_blocks()],
  // wherever it was going.
  void SetTarget(int64_t blocks);

  // One slice; nothing if the target is reached. RESOURCE_EXHAUSTED if the
  // system does not give the memory to grow: the size there is becomes the
  // target. `leases` are all there are, none part of a reservation.
  absl::Status Continue(absl::Span<LeaseState* const> leases);

  ResizeProgress progress() const;

 private:
  absl::Status Grow();
  void Evict();
  void Relocate(absl::Span<LeaseState* const> leases);
  bool MoveLast();
  void Follow(absl::Span<LeaseState* const> leases);
  int64_t PinnedBlocks() const;

  BlockPool& pool_;
  BlockArena& arena_;
  TailPieces& tails_;
  PrefixCache& prefixes_;
  CacheCounters& counters_;
  const int64_t slice_blocks_;
  int64_t target_;
  std::vector<BlockId> moved_to_;  // by id from pool_.limit() on, in a slice
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_CACHE_RESIZER_H_

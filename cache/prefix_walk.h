#ifndef KVASIR_CACHE_PREFIX_WALK_H_
#define KVASIR_CACHE_PREFIX_WALK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"

#include "cache/base/strong_id.h"
#include "cache/block_identity.h"
#include "cache/eviction_counts.h"
#include "cache/prefix_info.h"

namespace kvasir {

// A walk over all findable blocks, in slices between which requests go on and
// the cache changes. Belongs to whoever wants the result and is handed to
// PrefixAdmin for each slice; nothing in the cache knows of it meanwhile.
//
// Goes by id from the highest down: blocks are relocated to lower ids only, so
// that whatever is there all the time is met, if a resize moves it perhaps
// twice. What comes or goes meanwhile is met or not.
struct PrefixWalk {
  // What one slice costs at most, in blocks looked at: a fraction of a
  // millisecond. Describing a prefix counts as kListCost of them, dropping a
  // block as kDropCost.
  static constexpr int64_t kMaxBlocksPerSlice = 4096;
  static constexpr int64_t kListCost = 8;
  static constexpr int64_t kDropCost = 16;

  PrefixFilter filter;
  int64_t left = -1;  // ids that are still to come; negative: not begun
  int64_t slice_blocks = kMaxBlocksPerSlice;  // less in tests
};

// Finds the longest prefixes and the pinned ones that the filter means.
struct PrefixListing : PrefixWalk {
  std::vector<PrefixInfo> found;  // by the last slice, in no order
};

// Drops what the filter means, each block once all that is found through it has
// gone; as a flush it also forgets which prefixes of it are hot. Pinned ones
// only if the filter asks for them, or `unpin` ends the pins of all that it
// means.
//
// Where something else drops a block between two slices, its parent may be left
// behind: it was met while others were found through it, and is not met again.
// So what has changed things meanwhile makes the walk begin anew, until there
// was nothing to be met any more or kMaxPasses times.
struct PrefixSweep : PrefixWalk {
  static constexpr int32_t kMaxPasses = 4;

  bool dry_run = false;  // only count; exact if nothing changes meanwhile
  bool unpin = false;
  EvictionCause cause = EvictionCause::kNamed;
  PrefixEviction sum;  // so far; what is kept is what this pass has met

  int32_t pass = 0;          // the one under way, from 1; a dry run has one
  int64_t own_drops = 0;     // in this pass
  int64_t changes_then = 0;  // PrefixCache::change_count() as it began

  // Where a slice ended on the way from the end of a prefix to its beginning.
  std::optional<BlockKey> unfinished;
  // Of a dry run: what would be gone, and how many children of others.
  absl::flat_hash_set<BlockId> gone;
  absl::flat_hash_map<BlockId, int32_t> gone_children;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_PREFIX_WALK_H_

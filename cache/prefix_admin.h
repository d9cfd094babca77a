#ifndef KVASIR_CACHE_PREFIX_ADMIN_H_
#define KVASIR_CACHE_PREFIX_ADMIN_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/block_pool.h"
#include "cache/prefix_cache.h"
#include "cache/prefix_info.h"
#include "cache/prefix_walk.h"

namespace kvasir {

// What an operator does with prefixes by name: look at them, pin them, drop
// them. Part of the CacheCore, whose parts it works on. Engine thread only.
// What cannot be found but by looking at every block is done in slices.
class PrefixAdmin {
 public:
  PrefixAdmin(const BlockPool& pool, PrefixCache& prefixes)
      : pool_(pool), prefixes_(prefixes) {}

  // The longest ones: those with no block after them, and the pinned ones; in
  // the order of their keys.
  std::vector<PrefixInfo> List(const PrefixFilter& filter) const;

  // A slice of a walk, see PrefixWalk. True if it is done.
  bool Continue(PrefixListing& listing) const;
  bool Continue(PrefixSweep& sweep);

  // Those of them whose keys begin with these digits, see KeyDirectory.
  std::vector<PrefixInfo> ListByDigits(absl::string_view digits) const;

  // NOT_FOUND for a key that no findable block has.
  absl::StatusOr<PrefixInfo> Find(const BlockKey& key) const;

  // RESOURCE_EXHAUSTED if pins would keep more than MostPinnedBlocks().
  // `most_lease_blocks`: what the largest lease can come to.
  absl::StatusOr<PrefixInfo> Pin(const BlockKey& key, absl::Duration until,
                                 int64_t most_lease_blocks);
  // FAILED_PRECONDITION if it is not pinned.
  absl::StatusOr<PrefixInfo> Unpin(const BlockKey& key);

  // Drops what the filter means, see PrefixSweep; or these prefixes, all that
  // are found through them, and of the blocks before them those through which
  // nothing else is found. A pinned one goes only if it is named, or if the
  // filter asks for pinned ones.
  PrefixEviction Evict(const PrefixFilter& filter, bool dry_run);
  absl::StatusOr<PrefixEviction> Evict(absl::Span<const BlockKey> keys,
                                       bool dry_run);

  PrefixInfo InfoOf(BlockId block) const;  // a findable one

 private:
  absl::StatusOr<BlockId> BlockOf(const BlockKey& key) const;
  bool IsListed(BlockId block) const;
  bool Matches(BlockId block, const PrefixFilter& filter) const;
  bool MayGo(BlockId block, const PrefixSweep& sweep) const;
  void BeginPass(PrefixSweep& sweep) const;
  bool EndPass(PrefixSweep& sweep) const;
  void EatFrom(BlockId block, PrefixSweep& sweep, int64_t& budget);
  absl::flat_hash_set<BlockId> WithNeeded(
      const absl::flat_hash_set<BlockId>& named,
      absl::flat_hash_set<BlockId> meant) const;
  PrefixEviction Drop(std::vector<BlockId> meant,
                      absl::FunctionRef<bool(BlockId)> pinned_too,
                      bool dry_run);

  const BlockPool& pool_;
  PrefixCache& prefixes_;
};

// Most blocks that pins may keep: kMaxKeptPercent of them, and no more than
// leaves room for the largest lease to come to its end.
int64_t MostPinnedBlocks(const PrefixCache& prefixes,
                         int64_t most_lease_blocks);

}  // namespace kvasir

#endif  // KVASIR_CACHE_PREFIX_ADMIN_H_

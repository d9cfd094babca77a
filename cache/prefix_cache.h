#ifndef KVASIR_CACHE_PREFIX_CACHE_H_
#define KVASIR_CACHE_PREFIX_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "cache/base/strong_id.h"
#include "cache/block_identity.h"
#include "cache/block_pool.h"
#include "cache/block_table.h"
#include "cache/eviction_counts.h"
#include "cache/eviction_groups.h"
#include "cache/eviction_policy.h"
#include "cache/prefix_index.h"
#include "cache/retention.h"
#include "cache/retention_book.h"

namespace kvasir {

// The sealed blocks that can be found again: keeps pool, index and eviction
// order in step with each other.
//
// A block is findable only through its parent, and whoever pins a block pins
// its parents too. So only cached blocks without children may be evicted; when
// the last child goes, its parent joins them. Every prefix is thus eaten from
// its end whatever the policy says, and every cached block that nothing
// protects can be evicted in the end. Which of them goes first is decided by
// the RetentionBook and, where that finds no difference, by the policy.
//
// Uses the pool, which must live longer. Engine thread only.
class PrefixCache {
 public:
  PrefixCache(BlockPool& pool, int32_t block_tokens, int32_t hash_bits,
              std::unique_ptr<EvictionPolicy> policy);

  // Makes room for what is known of so many blocks. A table of a large pool
  // that grows while a request waits would stop it for a time.
  void Reserve(int64_t blocks);

  // A pin on the block with that identity; not held if there is none.
  BlockRef Find(const BlockIdentity& identity);

  // The block with that identity, left as it is; invalid if there is none.
  BlockId Peek(const BlockIdentity& identity) { return index_.Peek(identity); }

  // Makes the full block of `own` findable. The identity must be new, its
  // parent findable and pinned by the caller.
  void Publish(const BlockIdentity& identity, const BlockRef& own);

  // Drops the pins of a table. Findable blocks that nobody else holds become
  // evictable, all of them used at the same moment and kept as `wish` says, see
  // RetentionBook::Keep(); the others become free.
  void Release(BlockTable table, const std::optional<Retention>& wish = {});

  // Frees the cached block that is to go first, a choice of the policy. False,
  // and nothing has changed, if all are protected.
  bool EvictOne(EvictionCause cause = EvictionCause::kCapacity);

  // Frees this cached block, through which none is found.
  void Evict(BlockId block, EvictionCause cause);

  // The block with that key and all that is found through it are dropped, or
  // forgotten if somebody holds them. Returns how many there were.
  int64_t Condemn(const BlockKey& key);

  // Frees at most `limit` cached blocks of tenants and versions that keep more
  // than their quota, which is no choice of the policy. Whether none is left.
  bool EvictOverQuota(int64_t limit);

  // Most notes of times to live that one Advance() reads. Many can mean
  // nothing any more, or a block that has to wait.
  static constexpr int64_t kMaxExpiryLooks = 4096;

  // The time is `now`: frees the prefixes whose time to live is over, up to
  // `limit` blocks, and ends the pins that were for a time.
  void Advance(absl::Duration now, int64_t limit);

  // When Advance() may next have something to do, or earlier.
  absl::Duration next_deadline() const {
    return std::min(next_pin_end_, book_.next_expiry());
  }

  // The prefix that ends with the block is not evicted before `until`, nor are
  // the blocks before it. Pinning it again replaces the time.
  void Pin(BlockId block, absl::Duration until);
  // False if it is not pinned.
  bool Unpin(BlockId block);
  // Ends pins of a version that has come back, as long as pins keep more than
  // `most` blocks.
  void UnpinExcess(VersionId version, int64_t most);
  bool Pinned(BlockId block) const { return pins_.contains(block); }
  absl::Duration PinnedUntil(BlockId block) const { return pins_.at(block); }
  int64_t pin_count() const { return static_cast<int64_t>(pins_.size()); }
  // Blocks that pinning it would add to those that pins keep.
  int64_t CountUnpinnedPath(BlockId block) const;

  // Quotas and floors; see RetentionBook. Blocks that are there are counted.
  absl::Status SetQuota(std::string_view salt, const TenantQuota& quota);
  RetentionBook& book() { return book_; }
  const RetentionBook& book() const { return book_; }

  // The pool has relocated the block; so does what is known of it here.
  void Relocate(BlockId from, BlockId to);

  // Frees all blocks of a version, which must be cached. Returns how many.
  int64_t DropVersion(VersionId version);

  // Frees all cached blocks and forgets the pinned ones, which become free
  // with their last pin. Returns the number of blocks that are free now.
  int64_t Flush();

  // Grows with each block that is dropped or relocated: who does not hold the
  // cache all the time sees by it what others did meanwhile.
  int64_t change_count() const { return change_count_; }

  bool Findable(BlockId block) const { return index_.Contains(block); }
  void RecordHit(BlockId block);  // a lease found it
  const PrefixIndex& index() const { return index_; }

  // What must hold between pool, index and order and does not, and inside
  // index and order. Walks all blocks.
  std::vector<std::string> Violations() const;

 private:
  using Standing = absl::FunctionRef<EvictionStanding(const EvictionGroupKey&)>;

  BlockFacts FactsOf(BlockId block) const;
  bool IsLeafAtRest(BlockId block) const;
  void MakeEvictable(BlockId block);
  void Regroup(BlockId block);
  bool EvictFirst(Standing standing, EvictionCause cause);
  void EndPins();
  void Drop(BlockId block, EvictionCause cause);

  BlockPool& pool_;
  PrefixIndex index_;
  const std::unique_ptr<EvictionPolicy> policy_;
  RetentionBook book_;
  EvictionGroups groups_;
  absl::flat_hash_map<BlockId, absl::Duration> pins_;  // until when
  // No pin ends before.
  absl::Duration next_pin_end_ = absl::InfiniteDuration();
  int64_t tick_ = 0;  // counts Release()
  int64_t change_count_ = 0;
  int64_t told_capacity_ = 0;  // blocks that the policy reckons with
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_PREFIX_CACHE_H_

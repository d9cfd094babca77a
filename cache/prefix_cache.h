#ifndef KVASIR_CACHE_PREFIX_CACHE_H_
#define KVASIR_CACHE_PREFIX_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/base/strong_id.h"
#include "cache/block_identity.h"
#include "cache/block_pool.h"
#include "cache/block_table.h"
#include "cache/eviction_order.h"
#include "cache/eviction_policy.h"
#include "cache/prefix_index.h"

namespace kvasir {

// The sealed blocks that can be found again: keeps pool, index and eviction
// order in step with each other.
//
// A block is findable only through its parent, and whoever pins a block pins
// its parents too. So only cached blocks without children may be evicted; when
// the last child goes, its parent joins them. Every prefix is thus eaten from
// its end whatever the policy says, and every cached block can be evicted in
// the end.
//
// Uses the pool, which must live longer. Engine thread only.
class PrefixCache {
 public:
  PrefixCache(BlockPool& pool, int32_t block_tokens, int32_t hash_bits,
              std::unique_ptr<EvictionPolicy> policy);

  // A pin on the block with that identity; not held if there is none.
  BlockRef Find(const BlockIdentity& identity);

  // The block with that identity, left as it is; invalid if there is none.
  BlockId Peek(const BlockIdentity& identity) { return index_.Find(identity); }

  // Makes the full block of `own` findable. The identity must be new, its
  // parent findable and pinned by the caller.
  void Publish(const BlockIdentity& identity, const BlockRef& own);

  // Drops the pins of a table. Findable blocks that nobody else holds become
  // evictable, all of them used at the same moment; the others become free.
  void Release(BlockTable table);

  // Frees the cached block that the policy puts first; there must be one.
  void EvictOne();

  // The pool has relocated the block; so does what is known of it here.
  void Relocate(BlockId from, BlockId to);

  // Frees all blocks of a version, which must be cached. Returns how many.
  int64_t DropVersion(VersionId version);

  // Frees all cached blocks and forgets the pinned ones, which become free
  // with their last pin. Returns the number of blocks that are free now.
  int64_t Flush();

  bool Findable(BlockId block) const { return index_.Contains(block); }
  void RecordHit(BlockId block);  // a lease found it
  const PrefixIndex& index() const { return index_; }

  // What must hold between pool, index and order and does not, and inside
  // index and order. Walks all blocks.
  std::vector<std::string> Violations() const;

 private:
  BlockFacts FactsOf(BlockId block) const;
  void MakeEvictable(BlockId block);
  void Drop(BlockId block);

  BlockPool& pool_;
  PrefixIndex index_;
  const std::unique_ptr<EvictionPolicy> policy_;
  EvictionOrder order_;
  int64_t tick_ = 0;           // counts Release()
  int64_t told_capacity_ = 0;  // blocks that the policy reckons with
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_PREFIX_CACHE_H_

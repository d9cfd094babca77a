#ifndef KVASIR_CACHE_EVICTION_POLICY_H_
#define KVASIR_CACHE_EVICTION_POLICY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "cache/base/strong_id.h"

namespace kvasir {

// A hash of a block's identity: what a policy knows a block by. Unlike an id it
// outlives the block, so that what comes back can be recognised; it means
// nothing beyond the policy's life. Two blocks with the same name are possible
// and must do no harm.
using BlockName = uint64_t;

// Where a block stands among those that may be evicted: the smallest goes
// first. Comparable between all blocks ranked by one policy object. Finite.
using EvictionRank = double;

// What a policy may know of one findable block. Plain value.
struct BlockFacts {
  BlockId block;  // changes when the block is relocated
  BlockName name = 0;
  VersionId version;      // that computed it
  int64_t depth = 0;      // blocks before it in its prefix
  int64_t last_use = 0;   // tick of the last lease that held it
  int64_t hit_count = 0;  // leases that found it since it was inserted
};

// Decides which cached block goes first when room is needed: is told what
// happens to blocks and ranks those that may be evicted. Owns no order and no
// block: the ranks of one policy object feed any number of EvictionOrders.
//
// The same events always give the same ranks: a policy reads no clock but the
// ticks it is given and has no randomness but its own fixed seed. Its memory
// is at most a multiple of the block count, and no call costs more than about
// a microsecond. Engine thread only.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  // --- What happens. By default nobody listens. ---

  // The cache has room for that many blocks from now on.
  virtual void OnResize(int64_t /*blocks*/) {}
  // A lease found the block. Ticks never go back; all blocks that one lease
  // gives up together have the same one.
  virtual void OnHit(const BlockFacts& /*block*/, int64_t /*tick*/) {}
  // The block became findable, for the first time or again.
  virtual void OnInsert(const BlockFacts& /*block*/, int64_t /*tick*/) {}
  // Its last holder let go of it at tick `last_use`; it stays findable.
  virtual void OnRelease(const BlockFacts& /*block*/) {}
  // It has another id from now on.
  virtual void OnRelocate(const BlockFacts& /*block*/) {}
  // It is not findable any more, whatever the cause.
  virtual void OnEvict(const BlockFacts& /*block*/) {}
  // No block is findable any more.
  virtual void OnFlush() {}

  // --- What it thinks. ---

  // The rank of a block that nobody holds. Among equals the deepest goes
  // first, so that a prefix is eaten from its end.
  virtual EvictionRank RankOf(const BlockFacts& block, int64_t tick) const = 0;

  // True if the rank of a block at rest may change from one tick to another;
  // orders then ask again for the first and, in turn, for the others.
  virtual bool ranks_change() const { return false; }

  // Guarded blocks go after all others that are kept alike, whatever their
  // rank, except while may_evict_guarded(). The first is asked when a block
  // comes to rest, the second before each choice.
  virtual bool Guards(const BlockFacts& /*block*/) const { return false; }
  virtual bool may_evict_guarded() const { return true; }

  // A block at rest that is not guarded any more, each one once; invalid if
  // there is no other. Asked before each choice that is then made, and for no
  // eviction that is not the policy's choice.
  virtual BlockId TakeUnguarded() { return BlockId(); }
};

// Least recently used first. The reference.
std::unique_ptr<EvictionPolicy> MakeLruPolicy();

// What an operator gets who asks for nothing else.
inline constexpr absl::string_view kDefaultEvictionPolicy = "adaptive";

// "adaptive" (AdaptivePolicy) or "lru". INVALID_ARGUMENT with wanted and found
// for any other name.
absl::StatusOr<std::unique_ptr<EvictionPolicy>> EvictionPolicyByName(
    absl::string_view name);

}  // namespace kvasir

#endif  // KVASIR_CACHE_EVICTION_POLICY_H_

#ifndef KVASIR_CACHE_ADAPTIVE_POLICY_H_
#define KVASIR_CACHE_ADAPTIVE_POLICY_H_

#include <cstdint>

#include "cache/eviction_policy.h"
#include "cache/reuse_history.h"
#include "cache/reuse_model.h"

namespace kvasir {

// Our own policy: evicts what is worth least as a ReuseModel has learned it,
// but never does much worse than the least recently used first, whatever comes.
//
// Time is counted in references: hits and insertions. A block's rank is the
// time at which a block would have been used last that is worth as much now
// and about which nothing is known, so that ranks of different times compare.
//
// Beside the cache runs the simulation of one that evicts the least recently
// used (ReuseHistory). What that one holds and the cache does not is *missing*;
// what the cache holds instead is *stale*. Evicting stale blocks, in whatever
// order, loses nothing against the simulation. Each guarded block, one that
// the simulation holds, that is evicted becomes missing and may cost one hit,
// until the simulation has dropped it, too. So guarded blocks go only while
// there are fewer missing ones than the policy has credit: hits that it had
// more than the simulation, and a small share of all references. From that,
//
//   hits >= hits of the simulation - kLossShare * references
//
// at any time and for any trace: each miss that the simulation does not have
// is one of a missing block, and with credit for all of these it never owes
// more than the share. With no credit left it still chooses among stale blocks,
// and with none of these it is the least recently used itself. The share grows
// slowly where what was learned has lost more than it gained.
//
// Following the better of two policies by simulating one is an idea of
// Subramanian, Smaragdakis and Loh ("Adaptive caches: effective shaping of
// cache behavior to workloads", 2006).
//
// Evictions that it did not choose (ttl, quota, another version's) are taken
// from the simulation as well, so the bound is about its own choices.
//
// Memory: ReuseHistory and some constant kilobytes. Engine thread only.
class AdaptivePolicy final : public EvictionPolicy {
 public:
  // Hits per reference that it may have less than the least recently used.
  static constexpr double kLossShare = 0.002;

  AdaptivePolicy() = default;

  void OnResize(int64_t blocks) override;
  void OnHit(const BlockFacts& block, int64_t tick) override;
  void OnInsert(const BlockFacts& block, int64_t tick) override;
  void OnRelease(const BlockFacts& block) override;
  void OnRelocate(const BlockFacts& block) override;
  void OnEvict(const BlockFacts& block) override;
  void OnFlush() override;

  EvictionRank RankOf(const BlockFacts& block, int64_t tick) const override;
  bool ranks_change() const override { return true; }
  bool Guards(const BlockFacts& block) const override;
  bool may_evict_guarded() const override;
  BlockId TakeUnguarded() override;

  // Guarded blocks of which the eviction could cost a hit, and what it has to
  // pay for that.
  int64_t missing_count() const { return history_.missing_count(); }
  double credit() const { return credit_; }
  const ReuseHistory& history() const { return history_; }

 private:
  void Refer(const BlockFacts& block, bool hit);
  void Sample();
  void Learn();
  void Settle(bool hit, bool simulated_hit);

  ReuseHistory history_;
  ReuseModel model_;
  int64_t blocks_ = 0;
  int64_t resident_count_ = 0;  // findable blocks
  int64_t clock_ = 0;           // references so far
  int64_t last_tick_ = -1;      // of the last release
  uint64_t next_sample_ = 0;    // where in the history, as a fraction
  int64_t sample_ = 0;          // the entry there
  double price_ = 0;            // worth of what is evicted, on average
  double counted_ = 0;          // references that the model remembers
  double credit_ = 0;           // guarded blocks that may be missing
  double gained_ = 0;           // hits that only the cache had, lately
  double lost_ = 0;             // and only the simulated one
  bool chooses_ = false;        // the next eviction is its choice
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_ADAPTIVE_POLICY_H_

#ifndef KVASIR_CACHE_ADAPTIVE_POLICY_H_
#define KVASIR_CACHE_ADAPTIVE_POLICY_H_

#include <cstdint>

#include "cache/eviction_policy.h"
#include "cache/reuse_history.h"
#include "cache/reuse_model.h"

namespace kvasir {

// Our own policy: evicts what is worth least as a ReuseModel has learned it,
// but never does much worse than the least recently used first.
//
// Time is counted in references: hits and insertions. A block's rank is the
// time at which a block would have been used last that is worth as much now
// and about which nothing is known, so that ranks of different times compare.
//
// Beside the cache runs the simulation of one that evicts the least recently
// used (ReuseHistory). The policy starts as that, tries what it has learned
// once the cache is full, and goes back as soon as it has lost more than a
// small share of all references by it; it tries again when time has made the
// share small. Following the better of two simulated policies is an idea of
// Subramanian, Smaragdakis and Loh ("Adaptive caches: effective shaping of
// cache behavior to workloads", 2006).
//
// Memory: ReuseHistory and some constant kilobytes. Engine thread only.
class AdaptivePolicy final : public EvictionPolicy {
 public:
  AdaptivePolicy() = default;

  void OnResize(int64_t blocks) override;
  void OnHit(const BlockFacts& block, int64_t tick) override;
  void OnInsert(const BlockFacts& block, int64_t tick) override;
  void OnRelease(const BlockFacts& block) override;
  void OnEvict(const BlockFacts& block) override;
  void OnFlush() override;

  EvictionRank RankOf(const BlockFacts& block, int64_t tick) const override;
  bool ranks_change() const override { return learned_; }

  // Whether it follows the model at the moment.
  bool learned() const { return learned_; }
  const ReuseHistory& history() const { return history_; }

 private:
  void Refer(const BlockFacts& block, bool hit);
  void Sample();
  void ChooseSide(bool hit, bool simulated_hit);
  double WorthOf(const ReuseHistory::Entry& entry) const;

  ReuseHistory history_;
  ReuseModel model_;
  int64_t blocks_ = 0;
  int64_t resident_count_ = 0;  // findable blocks
  int64_t clock_ = 0;           // references so far
  int64_t last_tick_ = -1;      // of the last release
  uint64_t next_sample_ = 0;    // where in the history, as a fraction
  double price_ = 0;            // worth of what is evicted, on average
  double lead_ = 0;             // hits more than the simulated cache had
  double weight_ = 0;           // references that `lead_` is about
  double counted_ = 0;          // references that the model remembers
  int64_t evictions_ = 0;
  bool learned_ = false;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_ADAPTIVE_POLICY_H_

#ifndef KVASIR_ENGINE_SEQUENCE_ROSTER_H_
#define KVASIR_ENGINE_SEQUENCE_ROSTER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"

#include "cache/base/strong_id.h"
#include "cache/snapshot.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"

namespace kvasir {

// The sequences of the engine: those that run (hold a lease) and those that
// wait for one, each list in order of precedence, which is by priority and then
// by arrival. The first that waits is the next to get a lease, and the last
// that runs the first to lose its own; so among equal priorities every running
// sequence is older than every waiting one.
//
// Owns the sequences. Engine thread only.
class SequenceRoster {
 public:
  // Puts a new sequence behind all that precede it.
  void Enqueue(std::unique_ptr<Sequence> sequence);

  bool empty() const {
    return running_.empty() && waiting_.empty() && aside_.empty();
  }
  const std::vector<std::unique_ptr<Sequence>>& running() const {
    return running_;
  }
  const std::deque<std::unique_ptr<Sequence>>& waiting() const {
    return waiting_;
  }

  // Those that wait for their reader and not for a lease.
  const std::vector<std::unique_ptr<Sequence>>& aside() const { return aside_; }

  // The first waiting sequence, which has got its lease, runs.
  void PromoteFirst();
  // The last running one gives its lease up, to wait before all that it
  // precedes.
  Sequence& PreemptLast();

  // Takes out one sequence, or all that `ended` names, running ones first.
  std::unique_ptr<Sequence> Remove(SequenceId id);
  std::vector<std::unique_ptr<Sequence>> RemoveIf(
      absl::FunctionRef<bool(const Sequence&)> ended);

  // The version whose turn it is after `last`, of those that a running
  // sequence, not a paused one, is of and of `guest`, if that is one; they take
  // turns in the order of their ids. Invalid if there is none.
  VersionId VersionAfter(VersionId last, VersionId guest = {}) const;

  // A turn begins: asks all readers whether they keep up. A sequence that waits
  // is set aside while its reader does not, and waits again when it does.
  void NotePauses();
  // Nothing else is to be done before a reader reads on: a running sequence
  // stands still, or all that there are have been set aside. Those hold nothing
  // that one that waits could wait for.
  bool WaitsForReaders() const;
  // The last running sequence whose reader is behind gives its lease up and is
  // set aside: somebody waits for its place. False if there is none.
  bool SetAsideLastPaused();

  // Somebody waits for a lease, or has more to compute than its next token and
  // may.
  bool AnyPrefill() const;
  // Requests of which a sequence runs, those of which none does, and those of
  // all these whose reader is behind.
  struct RequestCounts {
    int64_t running = 0;
    int64_t paused = 0;
    int64_t waiting = 0;
  };
  RequestCounts CountRequests() const;
  // Running sequences of the version.
  int64_t CountRunning(VersionId version) const;

  // What the scheduler may know. `share_prefixes`: sequences wait for blocks
  // that an earlier one is computing (prefix_sharing.h). `in_turn`: the version
  // that the step computes in. Prompts are scored one after the other, so that
  // logits of kMaxScoredRows are all that a step needs for it.
  SchedulerView View(const CapacityView& capacity, bool share_prefixes,
                     VersionId in_turn) const;

 private:
  Sequence& Wait(std::unique_ptr<Sequence> sequence);

  std::vector<std::unique_ptr<Sequence>> running_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> aside_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_SEQUENCE_ROSTER_H_

#ifndef KVASIR_ENGINE_SCHEDULER_H_
#define KVASIR_ENGINE_SCHEDULER_H_

#include <cstdint>

#include "engine/step_plan.h"

namespace kvasir {

// Chooses the work of the next step. A pure function with a name: it reads no
// clock, takes no lock, and the same view always yields the same plan.
//
// The token budget goes to running decodes first, then to prefill chunks in
// order of precedence, so that streams keep flowing beside long prompts. Blocks
// are claimed in that order, too: when they run short the last sequence with a
// lease is preempted, the youngest of the lowest priority, never the first, so
// that requests keep finishing as long as the cache fits one.
//
// Prefill always moves: every sequence with a lease has a row of the budget,
// because no more than `token_budget` sequences get one.
class Scheduler {
 public:
  struct Limits {
    int64_t token_budget = 256;   // prompt plus decode tokens per step
    int64_t prefill_chunk = 256;  // most tokens of one sequence per step
    int32_t max_sequences = 64;   // that hold a lease, at most token_budget
  };
  explicit Scheduler(const Limits& limits);

  // Pieces that are left when every running sequence has room for its known
  // tokens and one block to grow by; less than none if there are too few.
  int64_t SparePieces(const SchedulerView& view) const;

  // How many of the waiting sequences, from the first on, should get a lease
  // now. A sequence is admitted if all its known tokens fit beside those of
  // every running one and each of them, itself included, still has one block to
  // grow by; so it is not admitted only to be preempted at once. A sequence
  // that would be alone only has to fit. Nobody overtakes: the first that does
  // not fit ends the count.
  int64_t CountAdmissible(const SchedulerView& view) const;

  // Never asks for more blocks than `view.capacity` offers, so Reserve() on
  // the same step succeeds. Empty only if nothing runs, or all that does
  // rests. Rows are in order of precedence.
  StepPlan Plan(const SchedulerView& view) const;

 private:
  Limits limits_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_SCHEDULER_H_

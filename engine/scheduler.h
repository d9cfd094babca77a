#ifndef KVASIR_ENGINE_SCHEDULER_H_
#define KVASIR_ENGINE_SCHEDULER_H_

#include <cstdint>

#include "engine/step_plan.h"

namespace kvasir {

// Chooses the work of the next step. A pure function with a name: it reads no
// clock, takes no lock, and the same view always yields the same plan.
//
// Running decodes are served first, then prefill chunks in order of arrival up
// to the token budget. When blocks run short the youngest sequence with a lease
// is preempted, never the oldest, so that requests keep finishing as long as
// the cache fits one.
class Scheduler {
 public:
  struct Limits {
    int64_t token_budget = 256;   // prompt plus decode tokens per step
    int64_t prefill_chunk = 256;  // most tokens of one sequence per step
    int32_t max_sequences = 64;   // sequences that hold a lease
  };
  explicit Scheduler(const Limits& limits);

  // How many of the waiting sequences, from the first on, should get a lease
  // now: as many as leave every running sequence room to grow, so that a
  // sequence is not admitted only to be preempted again.
  int64_t CountAdmissible(const SchedulerView& view) const;

  // Never asks for more blocks than `view.capacity` offers, so Reserve() on
  // the same step succeeds. Empty if there is no work.
  StepPlan Plan(const SchedulerView& view) const;

 private:
  Limits limits_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_SCHEDULER_H_

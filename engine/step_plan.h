#ifndef KVASIR_ENGINE_STEP_PLAN_H_
#define KVASIR_ENGINE_STEP_PLAN_H_

#include <cstdint>
#include <vector>

#include "cache/base/strong_id.h"
#include "cache/snapshot.h"

namespace kvasir {

// Rows of a step whose successors are scored, see OutputWish::prompt_logprobs.
inline constexpr int32_t kMaxScoredRows = 32;

// What the scheduler knows of a sequence that holds a lease. Plain value.
struct RunningView {
  SequenceId id;
  int64_t known_tokens = 0;     // prompt and generated so far
  int64_t computed_tokens = 0;  // of these, in the block table
  int64_t piece_count = 0;      // that its lease holds
  // An older sequence is computing blocks that this one can then share
  // (prefix_sharing.h); it gets no rows in this step.
  bool waits_for_prefix = false;
  // It keeps what it holds, and gets no rows in this step.
  bool rests = false;
  // Most rows that it can get in a step; 0: as many as any.
  int64_t most_rows = 0;
  // A step computes in one version; those of others get no rows in it, but what
  // they hold counts.
  bool in_turn = true;
};

// And of one that waits for its first lease or for its next after a preemption.
struct WaitingView {
  SequenceId id;
  int64_t known_tokens = 0;
  // Leading blocks that a lease would share with running sequences; they take
  // nothing from the capacity.
  int64_t shared_blocks = 0;
};

// Everything a plan is made from. Both lists are in order of precedence: by
// priority, and then by arrival.
struct SchedulerView {
  CapacityView capacity;
  std::vector<RunningView> running;
  std::vector<WaitingView> waiting;
};

// The rows of one sequence in a step: its next `token_count` known tokens. The
// last row's logits are wanted if it reaches the last known token.
struct PlannedRows {
  SequenceId id;
  int64_t token_count = 0;
  bool wants_logits = false;
  friend bool operator==(const PlannedRows&, const PlannedRows&) = default;
};

// The work of one step. If `preempt` is set, the engine takes that sequence's
// lease and asks for a new plan; `rows` is then empty.
struct StepPlan {
  SequenceId preempt;
  std::vector<PlannedRows> rows;
  int64_t total_tokens = 0;
  friend bool operator==(const StepPlan&, const StepPlan&) = default;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_STEP_PLAN_H_

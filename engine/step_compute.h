#ifndef KVASIR_ENGINE_STEP_COMPUTE_H_
#define KVASIR_ENGINE_STEP_COMPUTE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/stats_recorder.h"
#include "engine/step_plan.h"
#include "engine/step_runner.h"
#include "engine/warm_rows.h"

namespace kvasir {

class KvCache;
class Sequence;
class SequenceRoster;
class ServedVersion;

// The work of one step: what requests get, and what of a warm-up goes with it;
// all of one version.
struct StepWork {
  StepPlan plan;
  std::vector<WarmRows> warm;

  bool empty() const { return plan.rows.empty() && warm.empty(); }
  int64_t warm_tokens() const;
};

// The sequences of a plan, in its order; it was made from this roster.
std::vector<Sequence*> SequencesOf(const StepPlan& plan,
                                   const SequenceRoster& roster);

// What kind of work that is for the plan's sequences.
StepPhase PhaseOf(const StepWork& work, absl::Span<Sequence* const> sequences);

// Reserves the step's blocks, computes its rows in `version` and commits. One
// result per sequence of the plan, in its order, then one per prefix of the
// warm-up. On an error nothing has happened. Engine thread.
absl::StatusOr<std::vector<StepResult>> ComputeStep(
    const StepWork& work, absl::Span<Sequence* const> sequences,
    const ServedVersion& version, KvCache& cache);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_STEP_COMPUTE_H_

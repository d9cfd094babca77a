#ifndef KVASIR_ENGINE_STATS_RECORDER_H_
#define KVASIR_ENGINE_STATS_RECORDER_H_

#include <cstdint>

#include "absl/time/time.h"

#include "engine/engine_stats.h"
#include "engine/step_plan.h"
#include "engine/token_sink.h"

namespace kvasir {

class Sequence;
struct ComputedTokens;

// What ended a sequence, as the counters distinguish it.
enum class Ending : uint8_t {
  kFinished,  // by itself, for a FinishReason
  kClient,
  kAdmin,
  kDrain,
  kDeadline,
  kFailed,
};

// What kind of work a step had.
enum class StepPhase : uint8_t { kPrefill, kDecode, kMixed };

// Translates what happens in the engine into EngineStats: the one place that
// says which event moves which number. Engine thread only.
class StatsRecorder {
 public:
  EngineStats& stats() { return stats_; }
  const EngineStats& stats() const { return stats_; }

  void CountScheduled(const Sequence& sequence);
  void CountCached(int64_t prompt_tokens);
  void CountComputed(const ComputedTokens& computed);

  // A token has been appended; `previous` is when the one before it was, or
  // InfinitePast if it is the first.
  void CountToken(const Sequence& sequence, absl::Duration previous);

  void CountStep(StepPhase phase, int64_t tokens, int64_t sequences,
                 absl::Duration duration, absl::Duration end);
  // A sequence has ended by itself.
  void CountSequence(const FinishedEvent& event);
  // And a request: with its last sequence, whose `event` this is, after so many
  // tokens of all of them; or by what failed it as a whole.
  void CountRequest(const FinishedEvent& event, Ending ending,
                    int64_t completion_tokens);

 private:
  EngineStats stats_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_STATS_RECORDER_H_

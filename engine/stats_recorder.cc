#include "engine/stats_recorder.h"

#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

#include "engine/sequence.h"

namespace kvasir {
namespace {

void AddSeconds(Histogram& histogram, absl::Duration duration) {
  histogram.Add(absl::ToDoubleSeconds(duration));
}

int64_t& CounterOf(EngineStats& stats, const FinishedEvent& event,
                   Ending ending) {
  switch (ending) {
    case Ending::kFinished:
      return stats.finished[static_cast<size_t>(event.reason)];
    case Ending::kClient:
      return stats.cancelled_by_client;
    case Ending::kAdmin:
      return stats.cancelled_by_admin;
    case Ending::kDrain:
      return stats.cancelled_by_drain;
    case Ending::kDeadline:
      return stats.cancelled_by_deadline;
    case Ending::kFailed:
      break;
  }
  return stats.failed;
}

}  // namespace

void StatsRecorder::CountScheduled(const Sequence& sequence) {
  const SequenceTimes& times = sequence.times();
  AddSeconds(stats_.queue_time, times.first_scheduled - times.submitted);
}

void StatsRecorder::CountCached(int64_t prompt_tokens) {
  stats_.prompt_tokens_cached += prompt_tokens;
}

void StatsRecorder::CountComputed(const ComputedTokens& computed) {
  stats_.prompt_tokens_computed += computed.prompt;
  stats_.repeated_tokens += computed.repeated;
  stats_.recomputed_tokens += computed.recomputed;
}

void StatsRecorder::CountToken(const Sequence& sequence,
                               absl::Duration previous) {
  ++stats_.generation_tokens;
  const SequenceTimes& times = sequence.times();
  if (previous != -absl::InfiniteDuration()) {
    AddSeconds(stats_.inter_token, times.last_token - previous);
    return;
  }
  // The client waits for the first of a request's sequences to begin.
  if (sequence.index() > 0) return;
  AddSeconds(stats_.prefill_time, times.first_token - times.first_scheduled);
  AddSeconds(
      sequence.usage().cached_tokens > 0 ? stats_.ttft_hit : stats_.ttft_miss,
      times.first_token - times.submitted);
}

void StatsRecorder::CountStep(StepPhase phase, int64_t tokens,
                              int64_t sequences, absl::Duration duration,
                              absl::Duration end) {
  ++stats_.steps;
  stats_.last_step = end;
  stats_.step_tokens.Add(static_cast<double>(tokens));
  stats_.step_sequences.Add(static_cast<double>(sequences));
  AddSeconds(phase == StepPhase::kPrefill  ? stats_.step_prefill_seconds
             : phase == StepPhase::kDecode ? stats_.step_decode_seconds
                                           : stats_.step_mixed_seconds,
             duration);
}

void StatsRecorder::CountSequence(const FinishedEvent& event) {
  AddSeconds(stats_.decode_time, event.timings.decode);
  const int64_t completion = event.usage.completion_tokens;
  if (completion > 1) {
    AddSeconds(stats_.time_per_output_token,
               event.timings.decode / (completion - 1));
  }
}

void StatsRecorder::CountRequest(const FinishedEvent& event, Ending ending,
                                 int64_t completion_tokens) {
  ++CounterOf(stats_, event, ending);
  if (ending != Ending::kFinished) return;
  AddSeconds(stats_.request_duration, event.timings.total);
  stats_.prompt_tokens.Add(static_cast<double>(event.usage.prompt_tokens));
  stats_.completion_tokens.Add(static_cast<double>(completion_tokens));
}

}  // namespace kvasir

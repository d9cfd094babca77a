#include "engine/engine_stats.h"

#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"

namespace kvasir {
namespace {

// Bounds that dashboards for LLM servers expect: OpenTelemetry's semantic
// conventions for generative AI, widened as vLLM does, with three steps below
// 10 ms for gaps between tokens.
std::vector<double> FirstTokenBounds() {
  return {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
          1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
}

std::vector<double> TokenGapBounds() {
  return {.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3,
          .4,   .5,    .75,  1,   2.5,  5,   7.5,  10, 20,  40, 80};
}

std::vector<double> StepSecondsBounds() {
  return {.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10};
}

// `first` and its doublings up to `last`.
std::vector<double> Doubling(double first, double last) {
  std::vector<double> bounds;
  for (double bound = first; bound <= last; bound *= 2) bounds.push_back(bound);
  return bounds;
}

std::vector<double> DurationBounds() { return Doubling(.01, 656); }

// 1, 2, 5, 10, ... up to the longest contexts in use.
std::vector<double> LengthBounds() {
  std::vector<double> bounds;
  for (double decade = 1; decade <= 100000; decade *= 10) {
    for (const double step : {1, 2, 5}) bounds.push_back(step * decade);
  }
  return bounds;
}

}  // namespace

EngineStats::EngineStats()
    : ttft_hit(FirstTokenBounds()),
      ttft_miss(FirstTokenBounds()),
      inter_token(TokenGapBounds()),
      time_per_output_token(TokenGapBounds()),
      request_duration(DurationBounds()),
      queue_time(DurationBounds()),
      prefill_time(DurationBounds()),
      decode_time(DurationBounds()),
      prompt_tokens(LengthBounds()),
      completion_tokens(LengthBounds()),
      step_prefill_seconds(StepSecondsBounds()),
      step_decode_seconds(StepSecondsBounds()),
      step_mixed_seconds(StepSecondsBounds()),
      step_tokens(Doubling(1, 8192)),
      step_sequences(Doubling(1, 512)) {}

void StatsBoard::Publish(const EngineStats& stats) {
  absl::MutexLock lock(&mu_);
  stats_ = stats;
}

EngineStats StatsBoard::Read() const {
  absl::MutexLock lock(&mu_);
  return stats_;
}

}  // namespace kvasir

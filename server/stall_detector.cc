#include "server/stall_detector.h"

#include <algorithm>

namespace kvasir {
namespace {

constexpr double kAverageSteps = 4;

absl::Duration AverageStep(const EngineStats& stats) {
  if (stats.steps == 0) return absl::ZeroDuration();
  return absl::Seconds((stats.step_prefill_seconds.sum +
                        stats.step_decode_seconds.sum +
                        stats.step_mixed_seconds.sum) /
                       static_cast<double>(stats.steps));
}

}  // namespace

bool StallDetector::Stalled(const EngineStats& stats, absl::Duration now) {
  // A paused request waits for its client, and others may for its place.
  const bool idle =
      stats.waits_for_readers ||
      stats.requests_running + stats.requests_waiting == stats.requests_paused;
  if (idle || stats.steps != last_steps_) last_sign_ = now;
  last_steps_ = stats.steps;
  return now - last_sign_ >
         std::max(limit_, AverageStep(stats) * kAverageSteps);
}

}  // namespace kvasir

#ifndef KVASIR_SERVER_STALL_DETECTOR_H_
#define KVASIR_SERVER_STALL_DETECTOR_H_

#include <cstdint>

#include "absl/time/time.h"

#include "engine/engine_stats.h"

namespace kvasir {

// Tells an engine that is stuck from one that is idle or slow: stuck is one
// that has work and has finished no step for longer than the limit, or for
// longer than four of its average steps, if those are longer (a big model on a
// small machine). Pure but for what it remembers; one thread at a time.
class StallDetector {
 public:
  explicit StallDetector(absl::Duration limit) : limit_(limit) {}

  // Whether the engine is stuck at `now`, steady time, given its statistics.
  // Called every so often; a stall is seen one call late at the most.
  bool Stalled(const EngineStats& stats, absl::Duration now);

 private:
  const absl::Duration limit_;
  int64_t last_steps_ = -1;
  absl::Duration last_sign_;  // of life: a step, or no work
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_STALL_DETECTOR_H_

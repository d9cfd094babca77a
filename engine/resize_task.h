#ifndef KVASIR_ENGINE_RESIZE_TASK_H_
#define KVASIR_ENGINE_RESIZE_TASK_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"

#include "cache/kv_cache.h"
#include "cache/snapshot.h"
#include "engine/cache_resize.h"

namespace kvasir {

class SequenceRoster;

// The resize that is under way, if one is: decides between two steps how large
// the pool should be now, and lets the cache do a slice of the way (contract
// C6). One at a time. Part of the engine loop; engine thread only.
class ResizeTask {
 public:
  // Both outlive the task.
  ResizeTask(KvCache* cache, SequenceRoster* roster);

  // Takes an order on, or answers it at once.
  void Begin(ResizeOrder order);

  // A slice. Returns how many sequences it preempted.
  int64_t Continue();

  // Ends what is under way; the pool stays as large as it is.
  void CallOff(const absl::Status& why);

  // Whether a resize has ended and its sink does not know yet: whoever is told
  // must find the numbers published.
  bool ended() const { return ended_.has_value(); }
  void TellEnd();

  bool active() const { return order_.has_value(); }

  // Blocks that a request may count on, now and later.
  int64_t PromisedBlocks() const;

  // What new leases may count on: not the room that is to go.
  CapacityView ForAdmission() const;

 private:
  int64_t TargetNow() const { return TargetNow(*order_, start_blocks_); }
  int64_t TargetNow(const ResizeOrder& order, int64_t start_blocks) const;
  absl::Status CheckReachable(const ResizeOrder& order, int64_t present) const;
  int64_t NeededBlocks(int64_t target) const;
  bool EachCanEndIn(int64_t blocks) const;
  int64_t PreemptUntilFits();
  int64_t PinnedBlocks() const;
  void CountPreemptible(ResizeReport& report) const;
  ResizeReport DryRun(const ResizeOrder& order) const;
  ResizeReport Report() const;
  void End(const absl::Status& status);

  struct Ended {
    std::shared_ptr<ResizeSink> sink;
    absl::Status status;
    ResizeReport report;
  };

  KvCache* const cache_;
  SequenceRoster* const roster_;

  std::optional<ResizeOrder> order_;
  std::optional<Ended> ended_;
  int64_t start_blocks_ = 0;  // when it began
  int64_t preempted_ = 0;
  CacheCounters before_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_RESIZE_TASK_H_

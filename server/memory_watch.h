#ifndef KVASIR_SERVER_MEMORY_WATCH_H_
#define KVASIR_SERVER_MEMORY_WATCH_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "cache/resize_planner.h"
#include "cache/snapshot.h"
#include "engine/cache_resize.h"
#include "server/cache_sizing.h"
#include "server/generation_backend.h"
#include "server/memory_limit.h"

namespace kvasir {

class AutomaticResize;

// Sizes the cache by what the system says of memory: once at start, and then,
// if the operator lets it, while requests run. It moves what PlanCacheSize()
// chooses, by orders that evict and never wait for requests; see
// ResizeOrder::from_blocks for how they give way to an operator's.
//
// An operator's resize is the last word until the next one: its size is the
// new ceiling, and the floor if that was higher. Below it the watch goes on.
//
// One of the server's objects that cross threads, with one lock, under which
// nothing is called or read. The backend outlives Stop().
class MemoryWatch {
 public:
  static constexpr absl::Duration kPeriod = absl::Seconds(1);

  explicit MemoryWatch(CacheSizing sizing);
  ~MemoryWatch();  // Stop()s

  // Sizes the cache that is to be made and says in one line of the log how;
  // what EngineOptions::size_cache wants. Errors as of ReadMemoryState() and
  // SizeCacheAtStart().
  absl::StatusOr<int64_t> SizeCache(const CacheSizeQuery& query)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether the weights of a further revision fit under the limits, beside the
  // cache and all that is there; what EngineOptions::hold_weights wants. Where
  // the cache may change its size by itself it is shrunk first, down to its
  // floor or what requests hold, for as long as the engine takes. Errors as of
  // ReadMemoryState() and SizeCacheBeside(), and RESOURCE_EXHAUSTED with
  // wanted, found and the limit if the cache cannot make room: then nothing is
  // evicted for it. Not before Attach().
  absl::StatusOr<WeightRoom> HoldWeights(int64_t bytes)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Looks every kPeriod from now on, on a thread of its own. Once.
  void Start(GenerationBackend* backend);
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  // One look at a steady time `now`; what the thread does. A test calls it
  // instead of Start(), after Attach().
  void Attach(GenerationBackend* backend) ABSL_LOCKS_EXCLUDED(mu_);
  void Look(absl::Duration now) ABSL_LOCKS_EXCLUDED(mu_);

  // What the limits leave for the cache now, whatever its size. For an
  // operator's order.
  absl::StatusOr<CacheRoom> Room() const ABSL_LOCKS_EXCLUDED(mu_);
  void OnOperatorResize(int64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);

  // For the metrics.
  absl::StatusOr<MemoryState> ReadState() const;
  // Finished resizes of its own, by ResizeCause.
  using Counts = std::array<int64_t, 4>;
  Counts resizes() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // What the cache was at the last look. Bytes.
  struct Seen {
    int64_t block_bytes = 1;
    int64_t cache = 0;  // 0: not looked yet
    // The most that held something, since blocks are granted from the lowest.
    int64_t resident = 0;
    int64_t held = 0;
  };

  // Weights that are being read, and what the limits' files said before.
  struct Coming {
    int64_t bytes = 0;
    std::vector<MemoryLimit> before;
  };

  // An order of its own that has come to its end.
  struct Ended {
    absl::Status status;
    ResizeReport report;
    const char* because = "";
  };

  void Run();
  void LogWhatIsWatched() const;
  // What has happened since the last look.
  std::optional<Ended> TakeEnd(absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Seen SeenIn(const CacheSnapshot& cache) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Notice(const CacheSnapshot& cache, const MemoryState& state,
              absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool NoOrder() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return order_ == nullptr || stop_;
  }
  // What to do about it.
  CacheRoom RoomIn(MemoryState state, const Seen& seen) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  SizingView View(const MemoryState& state, absl::Duration now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<ResizeOrder> Decide(const MemoryState& state,
                                    absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  ResizeOrder OrderFor(int64_t target_bytes, const Seen& seen)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // For weights that are to come.
  absl::StatusOr<int64_t> SizeBeside(const MemoryState& state, const Seen& seen,
                                     int64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status MakeRoom(ResizeOrder order, AutomaticResize& sink, int64_t bytes,
                        const CacheRoom& room) ABSL_LOCKS_EXCLUDED(mu_);

  const CacheSizing sizing_;
  GenerationBackend* backend_ = nullptr;  // fixed by Attach()

  mutable absl::Mutex mu_;
  int64_t weight_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of all resident revisions
  Coming coming_ ABSL_GUARDED_BY(mu_);
  int64_t floor_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t ceiling_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool given_ ABSL_GUARDED_BY(mu_) = false;  // the size is the operator's
  Seen seen_ ABSL_GUARDED_BY(mu_);
  absl::Duration changed_ ABSL_GUARDED_BY(mu_);     // steady
  absl::Duration calm_since_ ABSL_GUARDED_BY(mu_);  // steady
  absl::Duration calm_needed_ ABSL_GUARDED_BY(mu_) = kCalmTime;
  std::shared_ptr<AutomaticResize> order_ ABSL_GUARDED_BY(mu_);  // under way
  // Of the order under way, or of the last one.
  ResizeCause cause_ ABSL_GUARDED_BY(mu_) = ResizeCause::kNone;
  bool for_weights_ ABSL_GUARDED_BY(mu_) = false;
  Counts resizes_ ABSL_GUARDED_BY(mu_) = {};
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_MEMORY_WATCH_H_

#ifndef KVASIR_SERVER_MODEL_LOAD_H_
#define KVASIR_SERVER_MODEL_LOAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "engine/engine.h"

namespace kvasir {

// Starts an engine on a thread of its own, so that signals and health are
// answered meanwhile.
class ModelLoad {
 public:
  // `on_progress` (done and total bytes) and `on_done` are called on that
  // thread.
  ModelLoad(EngineOptions options,
            std::function<void(int64_t, int64_t)> on_progress,
            std::function<void()> on_done);

  // Waits for the thread.
  ~ModelLoad();

  // Asks it to stop, which it does when it next reports progress.
  void Abandon() { abandoned_ = true; }

  bool done() const ABSL_LOCKS_EXCLUDED(mu_);
  // False on timeout.
  bool WaitDone(absl::Duration timeout) const ABSL_LOCKS_EXCLUDED(mu_);

  // What came of it; once, after done().
  absl::StatusOr<std::unique_ptr<Engine>> Take() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  std::atomic<bool> abandoned_{false};
  mutable absl::Mutex mu_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  absl::StatusOr<std::unique_ptr<Engine>> result_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_MODEL_LOAD_H_

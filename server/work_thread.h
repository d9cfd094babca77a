#ifndef KVASIR_SERVER_WORK_THREAD_H_
#define KVASIR_SERVER_WORK_THREAD_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace kvasir {

// One thread for work that waits for the engine, which gRPC's threads may not
// do. Tasks run one after the other, in order.
class WorkThread {
 public:
  // Tasks that may wait; more are RESOURCE_EXHAUSTED.
  static constexpr size_t kMaxTasks = 64;

  WorkThread();

  // Runs what waits, and ends. A task that may take long looks at stopping().
  ~WorkThread();

  // Any thread, never waits.
  absl::Status Post(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mu_);

  bool stopping() const { return stopping_; }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || !tasks_.empty();
  }

  std::atomic<bool> stopping_{false};
  absl::Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_WORK_THREAD_H_

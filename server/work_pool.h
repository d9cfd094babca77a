#ifndef KVASIR_SERVER_WORK_POOL_H_
#define KVASIR_SERVER_WORK_POOL_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace kvasir {

// A few threads for work that gRPC's threads may not do, since every stream
// needs those: what waits for the engine, and what computes for long. Tasks
// begin in the order of their arrival.
//
// One of the server's objects that cross threads; one lock, and no task runs
// under it.
class WorkPool {
 public:
  struct Options {
    int threads = 1;
    // Tasks that may wait for a thread; more are refused.
    size_t max_tasks = 64;
    // What a task is, for that refusal: "64 administrative calls wait".
    std::string task_name;
  };

  explicit WorkPool(Options options);

  // Runs what waits, and ends. A task that may take long looks at stopping().
  ~WorkPool();

  // Any thread, never waits. RESOURCE_EXHAUSTED, with advice to try again, if
  // too many tasks wait.
  absl::Status Post(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mu_);

  bool stopping() const { return stopping_; }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || !tasks_.empty();
  }

  const Options options_;
  std::atomic<bool> stopping_{false};
  absl::Mutex mu_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_WORK_POOL_H_

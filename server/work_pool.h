#ifndef KVASIR_SERVER_WORK_POOL_H_
#define KVASIR_SERVER_WORK_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

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
    // Bytes of the tasks that wait or run together, where Post() says what
    // they hold; one that is alone may be larger. 0: no bound.
    size_t max_bytes = 0;
    // What a task is, for that refusal: "64 administrative calls wait".
    std::string task_name;
  };

  explicit WorkPool(Options options);

  // Runs what waits, asks every watch a last time, and ends.
  ~WorkPool();

  // Any thread, never waits. RESOURCE_EXHAUSTED, with advice to try again, if
  // too many tasks, or tasks of too many bytes, wait.
  absl::Status Post(std::function<void()> task, size_t bytes = 0)
      ABSL_LOCKS_EXCLUDED(mu_);

  // For what has to wait for something: asks `done` in its turn, and then now
  // and then while there is no task, until it says that it is done. With
  // `ending` it is asked for the last time. As many as tasks may be watched.
  absl::Status Watch(std::function<bool(bool ending)> done)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Task {
    std::function<void()> run;  // empty: the pool has ended
    size_t bytes = 0;
  };
  struct Watched {
    std::function<bool(bool)> done;
    absl::Duration due;  // steady
  };

  absl::Status Full(const std::string& message, const char* metric,
                    size_t limit) const;
  absl::Status CheckRoom(size_t waiting) const;
  void Run() ABSL_LOCKS_EXCLUDED(mu_);
  // The next thing to do; waits for it.
  Task Next() ABSL_LOCKS_EXCLUDED(mu_);
  void Ask(Watched watched) ABSL_LOCKS_EXCLUDED(mu_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return stopping_ || !tasks_.empty();
  }

  const Options options_;
  absl::Mutex mu_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mu_);
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of tasks, those in hand, too
  std::deque<Watched> watched_ ABSL_GUARDED_BY(mu_);  // soonest due first
  size_t watch_count_ ABSL_GUARDED_BY(mu_) = 0;       // those in hand, too
  std::vector<std::thread> threads_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_WORK_POOL_H_

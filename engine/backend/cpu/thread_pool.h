#ifndef KVASIR_ENGINE_BACKEND_CPU_THREAD_POOL_H_
#define KVASIR_ENGINE_BACKEND_CPU_THREAD_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace kvasir {

// A fixed set of threads that run one fork-join at a time. The caller takes
// part as worker 0, so a pool of one starts no thread.
//
// Owned by the CPU backend; Run() from one thread at a time. Workers spin for a
// short while after a join, since the next op follows within microseconds, and
// then sleep. A worker from which the system has taken the processor is not
// waited for unless it holds work: on a busy machine the others do its share.
class ThreadPool {
 public:
  // At least 1.
  explicit ThreadPool(int32_t thread_count);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  int32_t thread_count() const;

  // Calls body(0) here and, in parallel, body(worker) on every worker in
  // [1, thread_count) that comes before body(0) has returned; returns when all
  // that came have. So body takes its work in pieces from a shared count until
  // none is left, and never waits for another worker. Who takes which piece
  // must not change any result (contract C2): split outputs, never a sum.
  void Run(absl::FunctionRef<void(int32_t worker)> body);

  // Calls body(begin, end) over disjoint ranges that cover [0, count), in
  // pieces of at least `grain` items. Free workers take the next piece.
  void ParallelFor(int64_t count, int64_t grain,
                   absl::FunctionRef<void(int64_t begin, int64_t end)> body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Threads this process may keep busy: the smaller of its CPU affinity and its
// cgroup's CPU quota (v1 and v2, every ancestor), at least 1. `root` replaces
// "/" in tests.
int32_t UsableThreadCount(const char* root = "/");

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_THREAD_POOL_H_

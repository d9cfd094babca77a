#ifndef KVASIR_TESTS_SUPPORT_CONCURRENT_H_
#define KVASIR_TESTS_SUPPORT_CONCURRENT_H_

#include <functional>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"

namespace kvasir {

// Runs every operation on a thread of its own, all from the same moment on, and
// returns when all have returned. What they did to each other is for the caller
// to check, and for the thread sanitizer.
inline void RunConcurrently(std::vector<std::function<void()>> operations) {
  auto* barrier = new absl::Barrier(static_cast<int>(operations.size()));
  std::vector<std::thread> threads;
  threads.reserve(operations.size());
  for (std::function<void()>& operation : operations) {
    threads.emplace_back([&operation, barrier] {
      if (barrier->Block()) delete barrier;
      operation();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_CONCURRENT_H_

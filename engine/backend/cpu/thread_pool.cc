#include "engine/backend/cpu/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "hwy/cache_control.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

// Pauses before a waiting thread sleeps: some 50 microseconds on today's CPUs,
// longer than the serial work between two ops of a decode step.
constexpr int kSpinPauses = 2000;

// Pieces of a ParallelFor for each thread: enough that a thread which the
// system held up does not hold up the others by more than a quarter.
constexpr int64_t kPiecesPerThread = 4;

constexpr size_t kCacheLine = 64;

// Returns once `value` is not `old` any more.
template <typename T>
void AwaitChange(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpinPauses; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    hwy::Pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

struct ThreadPool::Impl {
  using Body = absl::FunctionRef<void(int32_t)>;

  void Work(int32_t worker);
  bool Enter();
  void Leave();
  void Join();

  // A round's gate: open or not, and how many workers are inside.
  static constexpr uint32_t kOpen = 1u << 31;

  // What the caller writes, what the workers write, and what nobody writes
  // after construction lie on lines of their own.
  alignas(kCacheLine) std::atomic<uint32_t> round{0};  // a Run() adds one
  const Body* body = nullptr;  // written while the gate is shut and none inside
  bool running = false;
  std::atomic<bool> ending{false};
  alignas(kCacheLine) std::atomic<uint32_t> gate{0};
  alignas(kCacheLine) std::vector<std::thread> threads;
};

void ThreadPool::Impl::Work(int32_t worker) {
  uint32_t seen = 0;
  while (true) {
    AwaitChange(round, seen);
    seen = round.load(std::memory_order_acquire);
    if (ending.load(std::memory_order_relaxed)) return;
    if (!Enter()) continue;  // too late
    (*body)(worker);
    Leave();
  }
}

bool ThreadPool::Impl::Enter() {
  uint32_t found = gate.load(std::memory_order_relaxed);
  while ((found & kOpen) != 0) {
    if (gate.compare_exchange_weak(found, found + 1, std::memory_order_acquire,
                                   std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void ThreadPool::Impl::Leave() {
  // The last one out of a shut gate; the caller may wait for it.
  if (gate.fetch_sub(1, std::memory_order_acq_rel) == 1) gate.notify_one();
}

void ThreadPool::Impl::Join() {
  uint32_t inside = gate.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
  while (inside != 0) {
    AwaitChange(gate, inside);
    inside = gate.load(std::memory_order_acquire);
  }
}

ThreadPool::ThreadPool(int32_t thread_count) : impl_(new Impl) {
  KV_CHECK(thread_count >= 1)
      << "wanted 1 thread or more, found " << thread_count;
  impl_->threads.reserve(thread_count - 1);
  for (int32_t worker = 1; worker < thread_count; ++worker) {
    impl_->threads.emplace_back(
        [impl = impl_.get(), worker] { impl->Work(worker); });
  }
}

ThreadPool::~ThreadPool() {
  impl_->ending.store(true, std::memory_order_relaxed);
  impl_->round.fetch_add(1, std::memory_order_release);
  impl_->round.notify_all();
  for (std::thread& thread : impl_->threads) thread.join();
}

int32_t ThreadPool::thread_count() const {
  return static_cast<int32_t>(impl_->threads.size()) + 1;
}

void ThreadPool::Run(absl::FunctionRef<void(int32_t worker)> body) {
  KV_CHECK(!impl_->running) << "a fork-join inside a fork-join";
  if (impl_->threads.empty()) {
    body(0);
    return;
  }
  impl_->running = true;
  impl_->body = &body;
  // The gate before the round: who sees the round must not find a shut gate. A
  // late worker may then come twice, and finds nothing left.
  impl_->gate.store(Impl::kOpen, std::memory_order_release);
  impl_->round.fetch_add(1, std::memory_order_release);
  impl_->round.notify_all();
  body(0);
  impl_->Join();
  impl_->running = false;
}

void ThreadPool::ParallelFor(
    int64_t count, int64_t grain,
    absl::FunctionRef<void(int64_t begin, int64_t end)> body) {
  KV_CHECK(count >= 0 && grain >= 1)
      << "wanted count >= 0 and grain >= 1, found " << count << " and "
      << grain;
  if (count == 0) return;
  const int64_t pieces =
      std::clamp<int64_t>(count / grain, 1, kPiecesPerThread * thread_count());
  if (pieces == 1 || thread_count() == 1) {
    body(0, count);
    return;
  }
  std::atomic<int64_t> next{0};
  Run([&](int32_t) {
    while (true) {
      const int64_t piece = next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= pieces) return;
      body(count * piece / pieces, count * (piece + 1) / pieces);
    }
  });
}

}  // namespace kvasir

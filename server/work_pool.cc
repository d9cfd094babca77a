#include "server/work_pool.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/clock.h"
#include "cache/base/status_macros.h"
#include "server/status_mapping.h"

namespace kvasir {
namespace {

// How often a watch is asked.
constexpr absl::Duration kWatchPeriod = absl::Milliseconds(50);

}  // namespace

WorkPool::WorkPool(Options options) : options_(std::move(options)) {
  for (int i = 0; i < options_.threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

WorkPool::~WorkPool() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

// No option sets the limit: it is called by what waits.
absl::Status WorkPool::Full(const std::string& message, const char* metric,
                            size_t limit) const {
  return WithLimit(
      WithReason(absl::ResourceExhaustedError(message), kReasonQueueFull),
      {.name = options_.task_name,
       .subject = "server",
       .metric = metric,
       .value = static_cast<int64_t>(limit)});
}

absl::Status WorkPool::CheckRoom(size_t waiting) const {
  if (waiting < options_.max_tasks) return absl::OkStatus();
  return Full(absl::StrCat(waiting, " ", options_.task_name, " wait, at most ",
                           options_.max_tasks),
              "tasks", options_.max_tasks);
}

absl::Status WorkPool::Post(std::function<void()> task, size_t bytes) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckRoom(tasks_.size()));
  if (options_.max_bytes > 0 && bytes_ > 0 &&
      bytes_ + bytes > options_.max_bytes) {
    return Full(absl::StrCat(options_.task_name, " of ", bytes_,
                             " bytes wait, ", "at most ", options_.max_bytes,
                             ", found ", bytes, " more"),
                "bytes", options_.max_bytes);
  }
  bytes_ += bytes;
  tasks_.push_back({std::move(task), bytes});
  return absl::OkStatus();
}

absl::Status WorkPool::Watch(std::function<bool(bool)> done) {
  absl::MutexLock lock(&mu_);
  RETURN_IF_ERROR(CheckRoom(std::max(tasks_.size(), watch_count_)));
  ++watch_count_;
  tasks_.push_back({[this, done = std::move(done)] { Ask({done, {}}); }});
  return absl::OkStatus();
}

void WorkPool::Run() {
  while (true) {
    Task task = Next();
    if (!task.run) return;
    task.run();
    task.run = nullptr;  // with what it holds
    absl::MutexLock lock(&mu_);
    bytes_ -= task.bytes;
  }
}

WorkPool::Task WorkPool::Next() {
  absl::MutexLock lock(&mu_);
  while (true) {
    const absl::Duration patience =
        watched_.empty() ? absl::InfiniteDuration()
                         : watched_.front().due - Clock::Steady().Now();
    mu_.AwaitWithTimeout(absl::Condition(this, &WorkPool::HasWork), patience);
    if (!tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      return task;
    }
    if (watched_.empty()) {
      if (stopping_) return {};
    } else if (stopping_ || watched_.front().due <= Clock::Steady().Now()) {
      Watched watched = std::move(watched_.front());
      watched_.pop_front();
      return {[this, watched = std::move(watched)] { Ask(watched); }};
    }
  }
}

void WorkPool::Ask(Watched watched) {
  bool ending = false;
  {
    absl::MutexLock lock(&mu_);
    ending = stopping_;
  }
  const bool done = watched.done(ending) || ending;
  absl::MutexLock lock(&mu_);
  if (done) {
    --watch_count_;
    return;
  }
  watched.due = Clock::Steady().Now() + kWatchPeriod;
  watched_.push_back(std::move(watched));
}

}  // namespace kvasir

#include "server/work_pool.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/status_mapping.h"

namespace kvasir {

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

absl::Status WorkPool::Post(std::function<void()> task) {
  absl::MutexLock lock(&mu_);
  if (tasks_.size() >= options_.max_tasks) {
    return WithReason(absl::ResourceExhaustedError(
                          absl::StrCat(tasks_.size(), " ", options_.task_name,
                                       " wait, at most ", options_.max_tasks)),
                      kReasonQueueFull);
  }
  tasks_.push_back(std::move(task));
  return absl::OkStatus();
}

void WorkPool::Run() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &WorkPool::HasWork));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace kvasir

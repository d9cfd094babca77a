#include "server/work_thread.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kvasir {

WorkThread::WorkThread() : thread_([this] { Run(); }) {}

WorkThread::~WorkThread() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status WorkThread::Post(std::function<void()> task) {
  absl::MutexLock lock(&mu_);
  if (tasks_.size() >= kMaxTasks) {
    return absl::ResourceExhaustedError(absl::StrCat(
        tasks_.size(), " administrative calls wait, at most ", kMaxTasks));
  }
  tasks_.push_back(std::move(task));
  return absl::OkStatus();
}

void WorkThread::Run() {
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &WorkThread::HasWork));
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace kvasir

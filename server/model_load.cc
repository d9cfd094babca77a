#include "server/model_load.h"

#include <utility>

#include "cache/base/check.h"

namespace kvasir {

ModelLoad::ModelLoad(EngineOptions options,
                     std::function<void(int64_t, int64_t)> on_progress,
                     std::function<void()> on_done) {
  options.load_progress = [this, on_progress = std::move(on_progress)](
                              int64_t done, int64_t total) {
    on_progress(done, total);
    return !abandoned_;
  };
  thread_ = std::thread(
      [this, options = std::move(options), on_done = std::move(on_done)] {
        absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
        {
          absl::MutexLock lock(&mu_);
          result_ = std::move(engine);
          done_ = true;
        }
        on_done();
      });
}

ModelLoad::~ModelLoad() { thread_.join(); }

bool ModelLoad::done() const {
  absl::MutexLock lock(&mu_);
  return done_;
}

bool ModelLoad::WaitDone(absl::Duration timeout) const {
  absl::MutexLock lock(&mu_);
  return mu_.AwaitWithTimeout(absl::Condition(&done_), timeout);
}

absl::StatusOr<std::unique_ptr<Engine>> ModelLoad::Take() {
  absl::MutexLock lock(&mu_);
  KV_CHECK(done_);
  return std::move(result_);
}

}  // namespace kvasir

#ifndef KVASIR_SERVER_QUOTA_CHANGE_H_
#define KVASIR_SERVER_QUOTA_CHANGE_H_

#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "engine/prefix_order.h"

namespace kvasir {

// A change of tenants' quotas on its way to the engine, which takes it between
// two steps. A step may hang, so whoever wants the change can call it off, and
// then knows that it will not happen. Any thread.
class QuotaChange final : public QuotaSink {
 public:
  // `on_end` is called without a lock, on the thread of OnEnd().
  explicit QuotaChange(std::function<void()> on_end)
      : on_end_(std::move(on_end)) {}

  bool Begin() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnEnd(const absl::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);

  // How it went, once it has ended.
  std::optional<absl::Status> end() const ABSL_LOCKS_EXCLUDED(mu_);

  // OK: nothing changes, whenever the engine comes to it. FAILED_PRECONDITION:
  // the engine is at it, or done.
  absl::Status CallOff() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const std::function<void()> on_end_;
  mutable absl::Mutex mu_;
  bool begun_ ABSL_GUARDED_BY(mu_) = false;
  bool called_off_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_QUOTA_CHANGE_H_

#include "server/quota_change.h"

namespace kvasir {

bool QuotaChange::Begin() {
  absl::MutexLock lock(&mu_);
  begun_ = !called_off_;
  return begun_;
}

void QuotaChange::OnEnd(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    end_ = status;
  }
  on_end_();
}

std::optional<absl::Status> QuotaChange::end() const {
  absl::MutexLock lock(&mu_);
  return end_;
}

absl::Status QuotaChange::CallOff() {
  absl::MutexLock lock(&mu_);
  if (begun_ || end_.has_value()) {
    return absl::FailedPreconditionError("the engine is at it already");
  }
  called_off_ = true;
  return absl::OkStatus();
}

}  // namespace kvasir

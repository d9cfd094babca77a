#ifndef KVASIR_TESTS_SUPPORT_FAKE_CLOCK_H_
#define KVASIR_TESTS_SUPPORT_FAKE_CLOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "cache/base/clock.h"

namespace kvasir {

// A clock that stands still until a test moves it. Any thread.
class FakeClock final : public Clock {
 public:
  absl::Duration Now() const override {
    absl::MutexLock lock(&mu_);
    return now_;
  }
  void Advance(absl::Duration by) {
    absl::MutexLock lock(&mu_);
    now_ += by;
  }

 private:
  mutable absl::Mutex mu_;
  absl::Duration now_ ABSL_GUARDED_BY(mu_) = absl::Seconds(1000);
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_FAKE_CLOCK_H_

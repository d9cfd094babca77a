#include "cache/base/clock.h"

#include <chrono>

namespace kvasir {
namespace {

class SteadyClock final : public Clock {
 public:
  absl::Duration Now() const override {
    return absl::FromChrono(
        std::chrono::steady_clock::now().time_since_epoch());
  }
};

}  // namespace

const Clock& Clock::Steady() {
  static const SteadyClock* const clock = new SteadyClock;
  return *clock;
}

}  // namespace kvasir

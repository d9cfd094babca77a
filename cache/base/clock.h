#ifndef KVASIR_CACHE_BASE_CLOCK_H_
#define KVASIR_CACHE_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace kvasir {

// Where a component reads the time, so that tests decide what it is. Any
// thread. Steady time only: it never goes backwards and says nothing of dates.
class Clock {
 public:
  virtual ~Clock() = default;

  // Time since an arbitrary, fixed origin.
  virtual absl::Duration Now() const = 0;

  // The machine's steady clock; lives as long as the process.
  static const Clock& Steady();
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_BASE_CLOCK_H_

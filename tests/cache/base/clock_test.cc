#include "cache/base/clock.h"

#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(ClockTest, TheSteadyClockNeverGoesBack) {
  // A system clock jumps when it is set, and deadlines with it.
  const Clock& clock = Clock::Steady();
  absl::Duration last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_EQ(&clock, &Clock::Steady());
}

}  // namespace
}  // namespace kvasir

#include "server/stall_detector.h"

#include "gtest/gtest.h"

namespace kvasir {
namespace {

EngineStats Working(int64_t steps, double mean_step_seconds = 0) {
  EngineStats stats;
  stats.requests_running = 1;
  stats.steps = steps;
  stats.step_decode_seconds.sum =
      mean_step_seconds * static_cast<double>(steps);
  return stats;
}

TEST(StallDetectorTest, WorkWithoutAStepIsAStall) {
  StallDetector detector(absl::Seconds(4));
  EXPECT_FALSE(detector.Stalled(Working(5), absl::Seconds(0)));
  EXPECT_FALSE(detector.Stalled(Working(5), absl::Seconds(4)));
  EXPECT_TRUE(detector.Stalled(Working(5), absl::Seconds(4.1)));
  EXPECT_FALSE(detector.Stalled(Working(6), absl::Seconds(9)))
      << "it recovers by itself";
}

// The last step of an idle engine may be hours old; the first request after
// that must not look like a stall.
TEST(StallDetectorTest, IdleTimeDoesNotCount) {
  StallDetector detector(absl::Seconds(4));
  EngineStats idle;
  idle.steps = 5;
  EXPECT_FALSE(detector.Stalled(idle, absl::Seconds(0)));
  EXPECT_FALSE(detector.Stalled(idle, absl::Hours(3)));
  EXPECT_FALSE(detector.Stalled(Working(5), absl::Hours(3) + absl::Seconds(1)));
  EXPECT_TRUE(detector.Stalled(Working(5), absl::Hours(3) + absl::Seconds(5)));
}

TEST(StallDetectorTest, WaitingRequestsAreWork) {
  StallDetector detector(absl::Seconds(4));
  EngineStats stats;
  stats.requests_waiting = 1;
  EXPECT_FALSE(detector.Stalled(stats, absl::Seconds(0)));
  EXPECT_TRUE(detector.Stalled(stats, absl::Seconds(5)));
}

// A paused request waits for its client, and not for the engine.
TEST(StallDetectorTest, PausedRequestsAreNoStall) {
  StallDetector detector(absl::Seconds(4));
  EngineStats stats = Working(5);
  stats.requests_paused = 1;
  EXPECT_FALSE(detector.Stalled(stats, absl::Seconds(0)));
  EXPECT_FALSE(detector.Stalled(stats, absl::Seconds(60)));
  stats.requests_running = 2;
  EXPECT_TRUE(detector.Stalled(stats, absl::Seconds(65)))
      << "the other one gets no step";
}

// Somebody waits for a place that a paused request holds until its client reads
// or is ended.
TEST(StallDetectorTest, WaitingForReadersIsNoStall) {
  StallDetector detector(absl::Seconds(4));
  EngineStats stats = Working(5);
  stats.requests_waiting = 1;
  stats.requests_paused = 1;
  stats.waits_for_readers = true;
  EXPECT_FALSE(detector.Stalled(stats, absl::Seconds(0)));
  EXPECT_FALSE(detector.Stalled(stats, absl::Seconds(60)));
  stats.waits_for_readers = false;
  EXPECT_TRUE(detector.Stalled(stats, absl::Seconds(65)))
      << "the engine could go on";
}

// A big model on a small machine has steps of seconds; that is no stall.
TEST(StallDetectorTest, SlowStepsRaiseTheLimit) {
  StallDetector detector(absl::Seconds(4));
  EXPECT_FALSE(detector.Stalled(Working(10, 3.0), absl::Seconds(0)));
  EXPECT_FALSE(detector.Stalled(Working(10, 3.0), absl::Seconds(11)));
  EXPECT_TRUE(detector.Stalled(Working(10, 3.0), absl::Seconds(13)));
}

}  // namespace
}  // namespace kvasir

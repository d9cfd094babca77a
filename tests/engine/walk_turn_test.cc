#include "engine/walk_turn.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "tests/support/fake_clock.h"

namespace kvasir {
namespace {

// A walk of so many slices, each of which takes the same time.
struct Slices {
  int left = 0;
  int fails_at = -1;  // so many left
};

struct SlowDesk {
  FakeClock* clock;
  absl::Duration slice;
  int done = 0;

  absl::StatusOr<bool> Continue(Slices& order) {
    if (order.left == order.fails_at) return absl::NotFoundError("no model");
    clock->Advance(slice);
    ++done;
    return --order.left == 0;
  }
};

// One slice a turn made one page of a big cache take seconds under load, since
// a turn takes as long as a step.
TEST(WalkTurn, TakesAsManySlicesAsItsTimeLets) {
  FakeClock clock;
  SlowDesk desk{&clock, kWalkTurn / 10};
  Slices order{.left = 25};
  EXPECT_FALSE(*WalkForATurn(clock, desk, order));
  EXPECT_EQ(desk.done, 10);
  EXPECT_FALSE(*WalkForATurn(clock, desk, order));
  EXPECT_EQ(desk.done, 20);
  EXPECT_TRUE(*WalkForATurn(clock, desk, order)) << "the end ends the turn";
  EXPECT_EQ(desk.done, 25);
}

// A slow machine must not make a walk stand still, nor keep the engine longer.
TEST(WalkTurn, AlwaysTakesOneSlice) {
  FakeClock clock;
  SlowDesk desk{&clock, kWalkTurn * 3};
  Slices order{.left = 2};
  EXPECT_FALSE(*WalkForATurn(clock, desk, order));
  EXPECT_EQ(desk.done, 1);
  EXPECT_TRUE(*WalkForATurn(clock, desk, order));
}

TEST(WalkTurn, EndsWithTheError) {
  FakeClock clock;
  SlowDesk desk{&clock, absl::ZeroDuration()};
  Slices order{.left = 5, .fails_at = 2};
  EXPECT_TRUE(absl::IsNotFound(WalkForATurn(clock, desk, order).status()));
  EXPECT_EQ(desk.done, 3);
}

}  // namespace
}  // namespace kvasir

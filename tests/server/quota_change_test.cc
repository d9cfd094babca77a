#include "server/quota_change.h"

#include <memory>
#include <thread>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

// What was reported as not applied must not come into force later.
TEST(QuotaChangeTest, WhatIsCalledOffDoesNotBegin) {
  int ends = 0;
  QuotaChange change([&ends] { ++ends; });
  EXPECT_FALSE(change.end().has_value());
  EXPECT_TRUE(change.CallOff().ok());
  EXPECT_FALSE(change.Begin());
  change.OnEnd(absl::CancelledError("x"));
  EXPECT_EQ(ends, 1);
  EXPECT_TRUE(absl::IsCancelled(*change.end()));
}

TEST(QuotaChangeTest, WhatHasBegunIsWaitedFor) {
  QuotaChange change([] {});
  EXPECT_TRUE(change.Begin());
  EXPECT_TRUE(absl::IsFailedPrecondition(change.CallOff()));
  change.OnEnd(absl::OkStatus());
  EXPECT_TRUE(change.end()->ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(change.CallOff()));
}

TEST(QuotaChangeTest, EitherItBeginsOrItIsCalledOff) {
  for (int i = 0; i < 200; ++i) {
    QuotaChange change([] {});
    bool begun = false;
    std::thread engine([&] { begun = change.Begin(); });
    const bool called_off = change.CallOff().ok();
    engine.join();
    EXPECT_NE(begun, called_off);
  }
}

}  // namespace
}  // namespace kvasir

#include "engine/model/counter_random.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace kvasir {
namespace {

// The answers that Random123 publishes for philox4x32-10: a wrong constant
// would still look random.
TEST(CounterRandom, MatchesPublishedAnswers) {
  EXPECT_EQ(CounterRandom(0, 0, 0), 0xe169c58d6627e8d5u);
  const uint64_t ones = ~uint64_t{0};
  EXPECT_EQ(CounterRandom(ones, ones, ones), 0x41c83b0e408f276du);
  EXPECT_EQ(
      CounterRandom(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
      0x94fdccebd16cfe09u);
}

}  // namespace
}  // namespace kvasir

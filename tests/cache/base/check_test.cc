#include "cache/base/check.h"

#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(CheckDeathTest, AFailureSaysWhereWhatAndWhy) {
  // The one line an operator has after a crash.
  const int free_blocks = -1;
  EXPECT_DEATH(KV_CHECK(free_blocks >= 0) << "free " << free_blocks,
               "check_test.cc:[0-9]+: check failed: free_blocks >= 0 free -1");
}

TEST(CheckTest, APassingCheckDoesNotEvaluateItsMessage) {
  // Messages may be dear; checks stand on the hot path.
  int evaluations = 0;
  KV_CHECK(true) << ++evaluations;
  EXPECT_EQ(evaluations, 0);
}

TEST(CheckTest, FitsIntoAnIfWithoutBraces) {
  // A macro that swallows the else changes the program around it.
  bool otherwise = false;
  if (otherwise)
    KV_CHECK(true);
  else
    otherwise = true;
  EXPECT_TRUE(otherwise);
}

TEST(CheckDeathTest, DebugChecksVanishWithNdebugOnly) {
  // They cost nothing where speed is measured, and work everywhere else.
#ifdef NDEBUG
  int evaluations = 0;
  KV_DCHECK(++evaluations > 100);
  EXPECT_EQ(evaluations, 0);
#else
  EXPECT_DEATH(KV_DCHECK(1 > 2) << "why", "1 > 2 why");
#endif
}

}  // namespace
}  // namespace kvasir

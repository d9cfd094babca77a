#include "server/command_line.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A script's --salt="$SALT" with SALT empty must not eat the option behind it.
TEST(ArgumentsForCli11, KeepAnEmptyValueApart) {
  EXPECT_THAT(ArgumentsForCli11({"go", "--salt=", "--quick", "--a=b=", "-p="}),
              ElementsAre("-p=", "--a=b=", "--quick", "", "--salt", "go"));
  EXPECT_THAT(ArgumentsForCli11({"--x=", "--", "--x="}),
              ElementsAre("--x=", "--", "", "--x"));
  EXPECT_THAT(ArgumentsForCli11({}), IsEmpty());
}

}  // namespace
}  // namespace kvasir

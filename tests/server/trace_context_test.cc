#include "server/trace_context.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

constexpr char kTrace[] = "4bf92f3577b34da6a3ce929d0e0e4736";
constexpr char kParent[] = "00f067aa0ba902b7";

TEST(TraceContextTest, TheTraceIdIsTaken) {
  const std::string header = absl::StrCat("00-", kTrace, "-", kParent, "-01");
  EXPECT_EQ(TraceIdIn(header), kTrace);
}

// Whatever is wrong, there is no id: one that is made up or half right would
// lead whoever looks for it astray.
TEST(TraceContextTest, AnythingElseIsNoTrace) {
  const std::string good = absl::StrCat("00-", kTrace, "-", kParent, "-01");
  const std::string zeros = "00000000000000000000000000000000";
  for (const std::string& bad :
       {std::string(), std::string("00"), good + "-", good + "0",
        good.substr(1), absl::StrCat("01", good.substr(2)),
        absl::StrCat("ff", good.substr(2)),
        absl::StrCat("00-", zeros, "-", kParent, "-01"),
        absl::StrCat("00-", kTrace, "-", zeros.substr(16), "-01"),
        absl::StrCat("00_", good.substr(3)),
        absl::StrCat(" ", good.substr(1))}) {
    EXPECT_EQ(TraceIdIn(bad), "") << bad;
  }
  // No digit may be in upper case, none another character.
  for (size_t i = 0; i < good.size(); ++i) {
    for (const char wrong : {'G', 'A', ' ', '\0', '\n'}) {
      std::string bad = good;
      bad[i] = wrong;
      EXPECT_EQ(TraceIdIn(bad), "") << i << " " << static_cast<int>(wrong);
    }
  }
}

}  // namespace
}  // namespace kvasir

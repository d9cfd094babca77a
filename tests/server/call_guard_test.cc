#include "server/call_guard.h"

#include <string>

#include "gtest/gtest.h"

#include "server/status_reason.h"

namespace kvasir {
namespace {

TEST(BearerToken, TakesTheTokenAndNothingElse) {
  for (const char* header : {"Bearer abc", "bearer abc", "BEARER   abc"}) {
    const auto token = BearerToken(std::string_view(header));
    ASSERT_TRUE(token.ok()) << header;
    EXPECT_EQ(*token, "abc");
  }
  const auto missing = BearerToken(std::nullopt);
  EXPECT_TRUE(absl::IsUnauthenticated(missing.status()));
  EXPECT_EQ(ReasonOf(missing.status()), kReasonTokenMissing);
  for (const char* header :
       {"", "Bearer", "Bearer ", "Basic abc", "abc", "Bearerabc", "Bear"}) {
    const auto malformed = BearerToken(std::string_view(header));
    EXPECT_TRUE(absl::IsUnauthenticated(malformed.status())) << header;
    EXPECT_EQ(ReasonOf(malformed.status()), kReasonTokenMalformed);
    EXPECT_EQ(malformed.status().message().find("abc"), std::string::npos);
  }
}

}  // namespace
}  // namespace kvasir

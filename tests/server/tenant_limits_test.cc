#include "server/tenant_limits.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(TenantLimitsTest, EachPartAloneAndBoth) {
  const auto limits = ParseTenantLimits(
      "blue=requests:8;=tokens:60000/min;*=requests:2,tokens:100/min;"
      "a=b=tokens:7/min,requests:1");
  ASSERT_TRUE(limits.ok()) << limits.status();
  ASSERT_EQ(limits->size(), 4u);
  EXPECT_EQ((*limits)[0].tenant, "blue");
  EXPECT_EQ((*limits)[0].requests, 8);
  EXPECT_EQ((*limits)[0].tokens_per_minute, 0);
  EXPECT_EQ((*limits)[1].tenant, "");
  EXPECT_EQ((*limits)[1].tokens_per_minute, 60000);
  EXPECT_EQ((*limits)[2].tenant, kEveryTenant);
  EXPECT_EQ((*limits)[2].requests, 2);
  EXPECT_EQ((*limits)[2].tokens_per_minute, 100);
  EXPECT_EQ((*limits)[3].tenant, "a=b") << "it ends at the last one";
  EXPECT_EQ((*limits)[3].requests, 1);
  EXPECT_TRUE(ParseTenantLimits("")->empty());
}

TEST(TenantLimitsTest, WhatIsWrongIsNamed) {
  for (const char* text :
       {"blue", "blue=", "blue=8", "blue=requests:", "blue=requests:0",
        "blue=requests:-1", "blue=requests:1,", "blue=tokens:5",
        "blue=tokens:5/s", "blue=tokens:/min", "blue=tokens:x/min",
        "blue=requests:1,requests:2", "blue=tokens:1/min,tokens:2/min",
        "blue=requests:99999999999", "blue=tokens:9999999999999999999/min", ";",
        "blue=requests:1;", "blue=requests:1;blue=tokens:1/min"}) {
    const auto limits = ParseTenantLimits(text);
    EXPECT_TRUE(absl::IsInvalidArgument(limits.status())) << text;
    EXPECT_THAT(std::string(limits.status().message()),
                testing::HasSubstr("wanted"))
        << text;
    EXPECT_THAT(std::string(limits.status().message()),
                testing::HasSubstr("found"))
        << text;
    EXPECT_THAT(std::string(limits.status().message()),
                testing::Not(testing::HasSubstr("blue")))
        << "a name may be a salt";
  }
  std::string many;
  for (size_t i = 0; i <= kMaxTenantLimits; ++i) {
    absl::StrAppend(&many, i == 0 ? "" : ";", i, "=requests:1");
  }
  EXPECT_FALSE(ParseTenantLimits(many).ok());
}

}  // namespace
}  // namespace kvasir

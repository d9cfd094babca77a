#include "server/tenant_quota.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ParseTenantQuotas, ReadsBlocksSizesAndShares) {
  const auto tenants =
      ParseTenantQuotas("acme=4096,a=b=1MiB:2MiB,=10%:12.5%,x=0:7");
  ASSERT_TRUE(tenants.ok()) << tenants.status();
  ASSERT_EQ(tenants->size(), 4u);
  EXPECT_EQ(tenants->at(0).salt, "acme");
  EXPECT_EQ(tenants->at(0).floor.blocks, 4096);
  EXPECT_EQ(tenants->at(0).most.blocks, 0);
  EXPECT_EQ(tenants->at(1).salt, "a=b") << "it ends at the last =";
  EXPECT_EQ(tenants->at(1).floor.bytes, 1 << 20);
  EXPECT_EQ(tenants->at(1).most.bytes, 2 << 20);
  EXPECT_EQ(tenants->at(2).salt, "");
  EXPECT_DOUBLE_EQ(tenants->at(2).floor.ratio, 0.1);
  EXPECT_DOUBLE_EQ(tenants->at(2).most.ratio, 0.125);
  EXPECT_EQ(tenants->at(3).floor.blocks, 0);
  EXPECT_EQ(tenants->at(3).most.blocks, 7);
  EXPECT_TRUE(ParseTenantQuotas("")->empty());
}

// A quota that is misread would take memory from others without a word.
TEST(ParseTenantQuotas, RefusesWhatItCannotMean) {
  std::string many;
  for (int i = 0; i < 65; ++i)
    absl::StrAppend(&many, i > 0 ? "," : "", i, "=1");
  const std::pair<std::string, std::string> kCases[] = {
      {"acme", "entry 1: wanted SALT=FLOOR[:MAX], found no = in it"},
      {"acme=", "wanted blocks, a size or a share"},
      {"acme=-1", "found \"-1\""},
      {"acme=4x", "found \"4x\""},
      {"acme=101%", "at most 100%"},
      {"acme=1:", "wanted blocks, a size or a share"},
      {"acme=10:5", "not below FLOOR"},
      {"acme=10MiB:5MiB", "not below FLOOR"},
      {"acme=10%:5%", "not below FLOOR"},
      {"acme=0:0", "above 0"},
      {"x=1,acme=1,acme=2",
       "entry 3: wanted each salt once, found that of "
       "entry 2"},
      {"acme=1,", "SALT=FLOOR[:MAX]"},
      {std::string(1025, 's') + "=1", "1024"},
      {many, "wanted at most 64 tenants, found 65"}};
  for (const auto& [text, part] : kCases) {
    const absl::Status status = ParseTenantQuotas(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part)) << text;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("acme"))) << text;
  }
}

}  // namespace
}  // namespace kvasir

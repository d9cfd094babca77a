#include "server/size_options.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/fake_system.h"

namespace kvasir {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(SizeOptionsTest, ASizeIsBytesAShareOrAuto) {
  EXPECT_EQ(ParseCacheSize("auto")->bytes, 0);
  EXPECT_EQ(ParseCacheSize("auto")->share, 0);
  EXPECT_EQ(ParseCacheSize("512MiB")->bytes, 512 * kMebi);
  EXPECT_EQ(ParseCacheSize("60%")->bytes, 0);
  EXPECT_DOUBLE_EQ(ParseCacheSize("60%")->share, 0.6);
  EXPECT_DOUBLE_EQ(ParseCacheSize("12.5%")->share, 0.125);
  EXPECT_DOUBLE_EQ(ParseCacheSize("100%")->share, 1);
  for (const char* wrong :
       {"0%", "0B", "101%", "512", "Auto", "", "-1%", "%", "1e3%", "nan%"}) {
    EXPECT_EQ(ParseCacheSize(wrong).status().code(),
              absl::StatusCode::kInvalidArgument)
        << wrong;
  }
}

TEST(SizeOptionsTest, ABoundIsBytesOrAuto) {
  EXPECT_EQ(*ParseSizeBound("auto"), 0);
  EXPECT_EQ(*ParseSizeBound("2GiB"), 2 * kGibi);
  EXPECT_THAT(std::string(ParseSizeBound("60%").status().message()),
              AllOf(HasSubstr("auto or bytes"), HasSubstr("60%")))
      << "of what is left is a moving thing";
  EXPECT_FALSE(ParseSizeBound("0B").ok());
}

TEST(SizeOptionsTest, ConflictsNameTheOptionThatIsWrong) {
  const auto conflict = [](int64_t size, int64_t floor, int64_t ceiling) {
    return FindSizeConflict(
        size, {.floor_bytes = floor, .ceiling_bytes = ceiling}, 1000);
  };
  EXPECT_FALSE(conflict(0, 0, 0).has_value());
  EXPECT_FALSE(conflict(500, 100, 1000).has_value());
  EXPECT_FALSE(conflict(500, 500, 500).has_value());
  EXPECT_FALSE(conflict(0, 0, 5000).has_value()) << "no harm in that";
  EXPECT_EQ(conflict(1001, 0, 0)->key, "cache.size");
  EXPECT_EQ(conflict(0, 1001, 0)->key, "cache.floor");
  EXPECT_EQ(conflict(500, 0, 499)->key, "cache.ceiling");
  EXPECT_EQ(conflict(500, 501, 0)->key, "cache.floor");
  EXPECT_EQ(conflict(0, 300, 200)->key, "cache.floor");
  EXPECT_THAT(conflict(0, 300, 200)->wanted, HasSubstr("ceiling of 200 B"));
  EXPECT_FALSE(FindSizeConflict(5000, {}, std::nullopt).has_value());
}

}  // namespace
}  // namespace kvasir

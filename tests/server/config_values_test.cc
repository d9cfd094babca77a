#include "server/config_values.h"

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/text.h"

namespace kvasir {
namespace {

absl::StatusOr<int64_t> TenGigabytes() { return int64_t{10'000'000'000}; }

absl::StatusOr<int64_t> Size(const char* text) {
  return ParseSize(text, TenGigabytes);
}

TEST(ParseSizeTest, BinaryAndDecimalUnits) {
  EXPECT_EQ(*Size("100B"), 100);
  EXPECT_EQ(*Size("1KiB"), 1024);
  EXPECT_EQ(*Size("512MiB"), int64_t{512} << 20);
  EXPECT_EQ(*Size("8GiB"), int64_t{8} << 30);
  EXPECT_EQ(*Size("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(*Size("2TiB"), int64_t{2} << 40);
  EXPECT_EQ(*Size("2GB"), 2'000'000'000);
  EXPECT_EQ(*Size("60%"), 6'000'000'000);
  EXPECT_EQ(*Size("100%"), 10'000'000'000);
}

// "512" was meant as MiB by one program and as bytes by the next.
TEST(ParseSizeTest, AmbiguousOrSenselessIsRefused) {
  for (const char* text : {"512", "", "MiB", "5 GiB", "5gib", "5M", "-1GiB",
                           "1e3MiB", "101%", "1.2.3GiB", "9000000TiB"}) {
    const absl::Status status = Size(text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("wanted"));
    EXPECT_THAT(std::string(status.message()),
                testing::HasSubstr(std::string("found \"") + text + "\""));
  }
}

// The limit is read from files, which need not be there for a size in bytes.
TEST(ParseSizeTest, OnlyAPercentageAsksForTheLimit) {
  const auto broken = []() -> absl::StatusOr<int64_t> {
    return absl::NotFoundError("no limit");
  };
  EXPECT_EQ(*ParseSize("1MiB", broken), 1 << 20);
  EXPECT_TRUE(absl::IsNotFound(ParseSize("50%", broken).status()));
}

TEST(ParseCountTest, BoundsBelongToTheRange) {
  EXPECT_EQ(*ParseCount("1", 1, 9), 1);
  EXPECT_EQ(*ParseCount("9", 1, 9), 9);
  for (const char* text : {"0", "10", "x", "", "1.5", "99999999999999999999"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseCount(text, 1, 9).status()))
        << text;
  }
}

TEST(ParseBoolTest, WordsOfAllHabits) {
  for (const char* text : {"true", "yes", "on", "1", "TRUE", "On"}) {
    EXPECT_TRUE(*ParseBool(text)) << text;
  }
  for (const char* text : {"false", "no", "off", "0"}) {
    EXPECT_FALSE(*ParseBool(text)) << text;
  }
  EXPECT_FALSE(ParseBool("").ok());
  EXPECT_FALSE(ParseBool("maybe").ok());
}

TEST(ParseDurationTest, NeedsAUnitAndADirection) {
  EXPECT_EQ(*ParseDuration("30s"), absl::Seconds(30));
  EXPECT_EQ(*ParseDuration("1m30s"), absl::Seconds(90));
  EXPECT_EQ(*ParseDuration("0"), absl::ZeroDuration());
  for (const char* text : {"30", "", "-1s", "inf", "soon"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(ParseHostPortTest, BothFamiliesAndNames) {
  const auto same = [](const char* text) {
    const absl::StatusOr<HostPort> address = ParseHostPort(text);
    return address.ok() ? address->ToString() : "error";
  };
  EXPECT_EQ(same("127.0.0.1:8001"), "127.0.0.1:8001");
  EXPECT_EQ(same("[::1]:8001"), "[::1]:8001");
  EXPECT_EQ(same("localhost:0"), "localhost:0");
  EXPECT_EQ(ParseHostPort("[::1]:5")->host, "::1");
  for (const char* text :
       {"8001", ":8001", "host", "host:", "host:x", "host:65536", "host:-1",
        "::1:8001", "[::1]", "[host]:1", ""}) {
    EXPECT_FALSE(ParseHostPort(text).ok()) << text;
  }
}

TEST(FormatBytesTest, ThreeDigitsOrFewer) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(17), "17 B");
  EXPECT_EQ(FormatBytes(1024), "1 KiB");
  EXPECT_EQ(FormatBytes(46080), "45 KiB");
  EXPECT_EQ(FormatBytes(int64_t{512} << 20), "512 MiB");
  EXPECT_EQ(FormatBytes(int64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(FormatBytes(144'811'072), "138 MiB");
  EXPECT_EQ(FormatBytes(12'345'678), "11.8 MiB");
}

TEST(CodeNameTest, NumbersOfGrpc) {
  EXPECT_STREQ(CodeName(0), "OK");
  EXPECT_STREQ(CodeName(8), "RESOURCE_EXHAUSTED");
  EXPECT_STREQ(CodeName(16), "UNAUTHENTICATED");
  EXPECT_STREQ(CodeName(17), "UNKNOWN");
  EXPECT_STREQ(CodeName(-1), "UNKNOWN");
}

}  // namespace
}  // namespace kvasir

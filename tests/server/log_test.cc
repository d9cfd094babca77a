#include "server/log.h"

#include <string>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace kvasir {
namespace {

const absl::Time kTime = absl::FromUnixMillis(1'700'000'000'123);

TEST(LogTest, TextLine) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, kTime, LogLevel::kInfo,
                          "kvasird is ready",
                          {{"port", "8001"}, {"backend", "cpu avx2"}}),
            "2023-11-14T22:13:20.123Z info kvasird is ready port=8001 "
            "backend=\"cpu avx2\"");
}

// What a client sends must not be able to forge a line of the log.
TEST(LogTest, ForeignTextStaysOnItsLine) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const std::string line =
        FormatLogLine(format, kTime, LogLevel::kError, "a\nb",
                      {{"id", "x\n2023 info forged"}, {"raw", "\xff\x01\""}});
    EXPECT_EQ(line.find('\n'), std::string::npos) << line;
    EXPECT_EQ(line.find('\x01'), std::string::npos) << line;
  }
}

// Keys come from clients, too: label.KEY.
TEST(LogTest, ForeignKeysCannotForgeAValue) {
  const std::string text =
      FormatLogLine(LogFormat::kText, kTime, LogLevel::kInfo, "m",
                    {{"label.a b=\"c\n", "v"}, {"", "w"}});
  EXPECT_EQ(text, "2023-11-14T22:13:20.123Z info m label.a_b__c_=v =w");
  const std::string line =
      FormatLogLine(LogFormat::kJson, kTime, LogLevel::kInfo, "m",
                    {{"label.a b=\"c\n", "v"}, {"\xff", "w"}});
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  EXPECT_EQ(nlohmann::json::parse(line)["label.a b=\"c\n"], "v");
}

TEST(LogTest, JsonLineIsJson) {
  const auto line = nlohmann::json::parse(
      FormatLogLine(LogFormat::kJson, kTime, LogLevel::kWarning, "say \"hi\"",
                    {{"n", "3"}, {"bad", "\xff"}}));
  EXPECT_EQ(line["time"], "2023-11-14T22:13:20.123Z");
  EXPECT_EQ(line["level"], "warning");
  EXPECT_EQ(line["message"], "say \"hi\"");
  EXPECT_EQ(line["n"], "3");
}

TEST(LogTest, EmptyValuesAreVisible) {
  EXPECT_EQ(FormatLogLine(LogFormat::kText, kTime, LogLevel::kDebug, "m",
                          {{"k", ""}}),
            "2023-11-14T22:13:20.123Z debug m k=\"\"");
}

}  // namespace
}  // namespace kvasir

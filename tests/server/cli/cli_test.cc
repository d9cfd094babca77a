// What the command line refuses before anybody is called.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/cli/commands.h"

namespace kvasir::cli {
namespace {

using ::testing::HasSubstr;

std::string Refused(const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = RunCli(arguments);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(code, kExitUsage) << arguments.back();
  return testing::internal::GetCapturedStderr();
}

// CLI11 reads the value of a flag and may then do nothing at all.
TEST(CliTest, AFlagHasNoValue) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{
           {"generate", "-p", "x", "--stream=false"},
           {"generate", "-p", "x", "--store-completion=no"},
           {"generate", "-p", "x", "--add-generation-prompt=false"},
           {"tokenize", "x", "--ids=false"},
           {"cache", "stats", "--watch=false"},
           {"models", "--tls=false"}}) {
    const std::string& flag = arguments.back();
    EXPECT_THAT(Refused(arguments), HasSubstr(flag.substr(0, flag.find('=')) +
                                              ": wanted no value, found one"));
  }
}

// --salt="$SALT" of a script whose SALT is empty.
TEST(CliTest, AnEmptyValueEatsNoOption) {
  EXPECT_THAT(Refused({"generate", "--temp=", "--ignore-eos", "-p", "x"}),
              HasSubstr("--temp: wanted a number, found \"\""));
}

}  // namespace
}  // namespace kvasir::cli

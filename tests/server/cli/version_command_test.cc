// kvasir cache versions against a live server whose engine is a stand-in.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/cli/commands.h"
#include "tests/server/live_server.h"
#include "tests/server/server_testing.h"

namespace kvasir::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VersionCommandTest : public ::testing::Test {
 protected:
  VersionCommandTest() {
    auto backend = std::make_unique<FakeBackend>();
    backend_ = backend.get();
    live_.server().Serve(std::move(backend));
  }

  int Run(std::vector<std::string> versions) {
    std::vector<std::string> arguments = {
        "--addr", live_.server().grpc_address().ToString(), "cache",
        "versions"};
    for (std::string& argument : versions) {
      arguments.push_back(std::move(argument));
    }
    return RunCli(arguments);
  }

  LiveServer live_;
  FakeBackend* backend_ = nullptr;
};

// Before the subcommand it was read and forgotten, and the first model rolled
// back instead of the one that was named.
TEST_F(VersionCommandTest, TheModelCountsBeforeAndBehindTheSubcommand) {
  EXPECT_EQ(Run({"--model", "b", "rollback"}), kExitOk);
  EXPECT_EQ(Run({"rollback", "--model", "b"}), kExitOk);
  EXPECT_EQ(Run({"--model", "b", "activate", "x"}), kExitOk);
  EXPECT_EQ(Run({"delete", "--model", "b", "x"}), kExitOk);
  EXPECT_EQ(Run({"rollback"}), kExitOk);
  EXPECT_THAT(backend_->moves(),
              ElementsAre("roll back b", "roll back b", "activate b/x",
                          "delete b/x", "roll back "));
}

TEST_F(VersionCommandTest, TwoModelsAreRefused) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run({"--model", "a", "rollback", "--model", "b"}), kExitUsage);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("--model: wanted once"));
  EXPECT_THAT(backend_->moves(), IsEmpty());
}

// "10%" of nothing was no quota at all.
TEST_F(VersionCommandTest, AQuotaIsNoShare) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Run({"create", "--quota", "10%"}), kExitUsage);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("--quota: wanted bytes, such as 512MiB, found the "
                        "share \"10%\""));
  EXPECT_EQ(backend_->order().sink, nullptr) << "nothing is made";
}

}  // namespace
}  // namespace kvasir::cli

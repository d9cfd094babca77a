// proto/kvasir_service_config.json, which clients are told to use.

#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "grpcpp/support/validate_service_config.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "server/admin_log.h"
#include "server/call_stats.h"
#include "tests/server/live_server.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

std::string ServiceConfig() {
  std::ifstream file(KVASIR_SOURCE_DIR "/proto/kvasir_service_config.json");
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

TEST(ServiceConfigTest, GrpcTakesIt) {
  EXPECT_EQ(grpc::experimental::ValidateServiceConfigJSON(ServiceConfig()), "");
  EXPECT_NE(grpc::experimental::ValidateServiceConfigJSON("{\"x\": "), "");
}

// What changes something is not asked for twice behind the caller's back.
TEST(ServiceConfigTest, OnlyReadsAndGenerateAreRetried) {
  const std::set<std::string> methods(MethodNames().begin(),
                                      MethodNames().end());
  std::set<std::string> retried;
  const auto config = nlohmann::json::parse(ServiceConfig());
  for (const auto& group : config["methodConfig"]) {
    const auto& policy = group["retryPolicy"];
    EXPECT_EQ(policy["retryableStatusCodes"],
              nlohmann::json::array({"UNAVAILABLE"}));
    EXPECT_FALSE(group.contains("hedgingPolicy"));
    for (const auto& name : group["name"]) {
      const std::string service = name["service"];
      const std::string word = name["method"];
      const std::string method = service + "/" + word;
      EXPECT_TRUE(methods.contains(method)) << method;
      EXPECT_EQ(AdminOperationOf(method), nullptr) << method;
      EXPECT_EQ(policy["maxAttempts"], word == "Generate" ? 2 : 4) << method;
      retried.insert(method);
    }
  }
  for (const std::string& method : methods) {
    const std::string word = method.substr(method.find('/') + 1);
    const bool reads = word.starts_with("Get") || word.starts_with("List") ||
                       word.ends_with("okenize") || word == "Generate";
    // Streams are retried by hand, where they were broken off.
    if (word == "GetTokenizer") continue;
    EXPECT_EQ(retried.contains(method), reads) << method;
  }
}

TEST(ServiceConfigTest, AClientThatUsesItTriesAgain) {
  LiveServer live;
  auto backend = std::make_unique<FakeBackend>();
  FakeBackend* fake = backend.get();
  fake->submit_status = absl::UnavailableError("the engine is shutting down");
  std::atomic<int> attempts = 0;
  fake->on_submit = [&attempts] { ++attempts; };
  live.server().Serve(std::move(backend));
  grpc::ChannelArguments arguments;
  arguments.SetServiceConfigJSON(ServiceConfig());
  const auto stub = v1::Inference::NewStub(
      grpc::CreateCustomChannel(live.server().grpc_address().ToString(),
                                grpc::InsecureChannelCredentials(), arguments));
  v1::GenerateRequest request;
  request.set_text("x");
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  v1::GenerateResponse message;
  const auto reader = stub->Generate(&context, request);
  EXPECT_FALSE(reader->Read(&message));
  EXPECT_EQ(reader->Finish().error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(attempts, 2);
}

}  // namespace
}  // namespace kvasir

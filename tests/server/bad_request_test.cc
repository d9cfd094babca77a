// Requests that are no requests: gRPC itself answers these with UNIMPLEMENTED
// and no word, as if the method were not built.

#include <map>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"

#include "httplib.h"
#include "tests/server/live_server.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

// The methods that are built, and what their requests are.
const std::map<std::string, std::string>& BuiltMethods() {
  static const auto* const methods = new std::map<std::string, std::string>{
      {"kvasir.v1.Inference/Generate", "kvasir.v1.GenerateRequest"},
      {"kvasir.v1.Inference/CancelGeneration",
       "kvasir.v1.CancelGenerationRequest"},
      {"kvasir.v1.Inference/Tokenize", "kvasir.v1.TokenizeRequest"},
      {"kvasir.v1.Inference/Detokenize", "kvasir.v1.DetokenizeRequest"},
      {"kvasir.v1.Inference/ListModels", "kvasir.v1.ListModelsRequest"},
      {"kvasir.v1.Inference/GetModel", "kvasir.v1.GetModelRequest"},
      {"kvasir.v1.Inference/GetServerStatus",
       "kvasir.v1.GetServerStatusRequest"},
      {"kvasir.v1.CacheAdmin/GetCacheStats", "kvasir.v1.GetCacheStatsRequest"},
      {"kvasir.v1.CacheAdmin/ListPrefixes", "kvasir.v1.ListPrefixesRequest"},
      {"kvasir.v1.CacheAdmin/GetPrefix", "kvasir.v1.GetPrefixRequest"},
      {"kvasir.v1.CacheAdmin/PinPrefix", "kvasir.v1.PinPrefixRequest"},
      {"kvasir.v1.CacheAdmin/UnpinPrefix", "kvasir.v1.UnpinPrefixRequest"},
      {"kvasir.v1.CacheAdmin/EvictPrefixes", "kvasir.v1.EvictPrefixesRequest"},
      {"kvasir.v1.CacheAdmin/FlushCache", "kvasir.v1.FlushCacheRequest"},
      {"kvasir.v1.CacheAdmin/ListCacheVersions",
       "kvasir.v1.ListCacheVersionsRequest"},
      {"kvasir.v1.CacheAdmin/CreateCacheVersion",
       "kvasir.v1.CreateCacheVersionRequest"},
      {"kvasir.v1.CacheAdmin/ActivateCacheVersion",
       "kvasir.v1.ActivateCacheVersionRequest"},
      {"kvasir.v1.CacheAdmin/RollbackCacheVersion",
       "kvasir.v1.RollbackCacheVersionRequest"},
      {"kvasir.v1.CacheAdmin/DeleteCacheVersion",
       "kvasir.v1.DeleteCacheVersionRequest"}};
  return *methods;
}

class BadRequestTest : public testing::Test {
 protected:
  BadRequestTest() {
    auto backend = std::make_unique<FakeBackend>();
    live_.server().Serve(std::move(backend));
  }

  LiveServer live_;
};

TEST_F(BadRequestTest, BytesThatAreNoMessageAreInvalid) {
  for (const auto& [method, request] : BuiltMethods()) {
    const grpc::Status status = live_.CallWithBytes(method, "\xff");
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("wanted a " + request));
    EXPECT_EQ(ReasonIn(status), "INVALID_ARGUMENT");
  }
}

TEST_F(BadRequestTest, FieldsOfTheFutureAreRefusedInEveryRequest) {
  google::protobuf::UnknownFieldSet set;
  set.AddVarint(1999, 1);
  std::string bytes;
  set.SerializeToString(&bytes);
  for (const auto& [method, request] : BuiltMethods()) {
    const grpc::Status status = live_.CallWithBytes(method, bytes);
    EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("number 1999"));
    EXPECT_THAT(status.error_message(), HasSubstr(request));
  }
}

TEST_F(BadRequestTest, TextThatIsNotUtf8IsNamed) {
  const grpc::Status status =
      live_.CallWithBytes("kvasir.v1.Inference/Generate",
                          "\x1a\x04"
                          "caf\xe9");
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              testing::StartsWith("text: wanted UTF-8"));
  EXPECT_THAT(status.error_message(), HasSubstr("233 at offset 3"));
}

// An operator who looks for the client that sends rubbish finds it counted.
TEST_F(BadRequestTest, BadRequestsAreCounted) {
  for (const auto& [method, request] : BuiltMethods()) {
    live_.CallWithBytes(method, "\xff");
  }
  const HostPort& address = live_.server().metrics_address();
  const auto result =
      httplib::Client(address.host, address.port).Get("/metrics");
  ASSERT_TRUE(result);
  for (const auto& [method, request] : BuiltMethods()) {
    EXPECT_THAT(result->body,
                HasSubstr("grpc_server_calls_started_total{grpc_method=\"" +
                          method + "\"} 1"));
    EXPECT_THAT(result->body,
                HasSubstr("grpc_server_call_duration_seconds_count{"
                          "grpc_method=\"" +
                          method + "\",grpc_status=\"INVALID_ARGUMENT\"} 1"));
  }
}

}  // namespace
}  // namespace kvasir

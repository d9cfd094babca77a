#include "server/security_options.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/config_values.h"
#include "server/server_config.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

absl::StatusOr<ParsedConfig> Parse(std::vector<std::string> arguments) {
  arguments.push_back("--model=m.gguf");
  ConfigSources sources;
  sources.arguments = std::move(arguments);
  sources.default_file = "";
  sources.environment = [](const std::string&) -> std::optional<std::string> {
    return {};
  };
  sources.memory_limit = [](const std::string&) { return int64_t{1} << 34; };
  return ParseConfig(sources);
}

std::string FaultOf(std::vector<std::string> arguments) {
  return std::string(Parse(std::move(arguments)).status().message());
}

TEST(SecurityOptions, AreTakenOver) {
  const auto parsed = Parse({"--tls-cert=c", "--tls-key=k", "--tls-client-ca=a",
                             "--token-file=t", "--listen=0.0.0.0:1",
                             "--admin-listen=[::1]:0", "--drain-delay=5s"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const ServerConfig& config = parsed->config;
  EXPECT_EQ(config.secrets.tls.cert, "c");
  EXPECT_EQ(config.secrets.tls.key, "k");
  EXPECT_EQ(config.secrets.tls.client_ca, "a");
  EXPECT_EQ(config.secrets.token_file, "t");
  EXPECT_EQ(config.admin_listen->ToString(), "[::1]:0");
  EXPECT_EQ(config.drain_delay, absl::Seconds(5));
  const auto none = Parse({});
  EXPECT_FALSE(none->config.secrets.tls.enabled());
  EXPECT_FALSE(none->config.admin_listen.has_value());
  EXPECT_EQ(none->config.drain_delay, absl::ZeroDuration());
}

TEST(SecurityOptions, HalvesOfTlsAreRefused) {
  EXPECT_THAT(FaultOf({"--tls-cert=c"}),
              HasSubstr("--tls-cert: wanted --tls-key beside it"));
  EXPECT_THAT(FaultOf({"--tls-key=k"}),
              HasSubstr("--tls-key: wanted --tls-cert beside it"));
  EXPECT_THAT(FaultOf({"--tls-client-ca=a"}),
              HasSubstr("--tls-client-ca: wanted --tls-cert beside it"));
}

// A token in the clear is everybody's on the way.
TEST(SecurityOptions, TokensInTheClearStayOnThisMachine) {
  EXPECT_TRUE(Parse({"--token-file=t"}).ok()) << "loopback is the default";
  for (const char* listener :
       {"--listen=0.0.0.0:1", "--listen=[::]:1", "--listen=example.org:1",
        "--admin-listen=10.0.0.1:1"}) {
    EXPECT_TRUE(Parse({listener}).ok()) << "without tokens, with a warning";
    EXPECT_THAT(FaultOf({"--token-file=t", listener}),
                HasSubstr("--token-file: wanted --tls-cert beside it"));
    EXPECT_TRUE(
        Parse({"--token-file=t", "--tls-cert=c", "--tls-key=k", listener})
            .ok());
    EXPECT_TRUE(
        Parse({"--token-file=t", "--tokens-without-tls=true", listener}).ok());
  }
}

TEST(HostPort, KnowsLoopback) {
  for (const char* host : {"localhost", "127.0.0.1", "127.8.9.1", "::1"}) {
    EXPECT_TRUE((HostPort{host, 1}).IsLoopback()) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "128.0.0.1", "fe80::1",
                           "127.0.0.1.example", "example.org", ""}) {
    EXPECT_FALSE((HostPort{host, 1}).IsLoopback()) << host;
  }
}

}  // namespace
}  // namespace kvasir

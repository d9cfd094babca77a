// SRV-3: each listener has its port alone, or the server does not start.

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "httplib.h"
#include "server/kvasir_server.h"
#include "tests/server/live_server.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

ServerConfig WithAdmin(const HostPort& address) {
  ServerConfig config = LiveServer::Config();
  config.admin_listen = address;
  return config;
}

// SO_REUSEPORT, a default of both libraries, would let two daemons share a port
// and answer each other's calls.
TEST(ListenLiveTest, EachListenerNamesTheTakenPort) {
  LiveServer first(WithAdmin({"127.0.0.1", 0}));
  const std::vector<HostPort> taken = {first.server().grpc_address(),
                                       *first.server().admin_address(),
                                       first.server().metrics_address()};
  for (HostPort address : taken) {
    // The wildcard covers the port, too.
    for (const char* host : {"127.0.0.1", "0.0.0.0"}) {
      address.host = host;
      ServerConfig configs[] = {LiveServer::Config(), WithAdmin(address),
                                LiveServer::Config()};
      configs[0].listen = address;
      configs[2].metrics_listen = address;
      const char* const names[] = {"server.listen", "server.admin_listen",
                                   "metrics.listen"};
      for (int i = 0; i < 3; ++i) {
        const absl::Status status =
            KvasirServer::Start(configs[i], nullptr).status();
        EXPECT_TRUE(absl::IsAlreadyExists(status)) << status;
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr(absl::StrCat(names[i], " ", address.ToString())));
      }
    }
  }
  // The first one answers as before.
  grpc::ClientContext context;
  v1::GetServerStatusResponse answer;
  EXPECT_TRUE(first.inference().GetServerStatus(&context, {}, &answer).ok());
}

TEST(ListenLiveTest, TwoListenersOfOneServerCannotShareAPort) {
  LiveServer first;
  ServerConfig config = LiveServer::Config();
  const int port = first.server().metrics_address().port;
  first.Stop();
  config.listen.port = port;
  config.admin_listen = config.listen;
  EXPECT_TRUE(
      absl::IsAlreadyExists(KvasirServer::Start(config, nullptr).status()));
}

TEST(ListenLiveTest, HostsThatStandForNothingAreRefused) {
  ServerConfig config = LiveServer::Config();
  config.listen = {"no.such.host.invalid", 1};
  EXPECT_TRUE(
      absl::IsInvalidArgument(KvasirServer::Start(config, nullptr).status()));
}

// An address in brackets works as configured, on every listener.
TEST(ListenLiveTest, IpV6LoopbackServesOnEveryListener) {
  ServerConfig config = WithAdmin({"::1", 0});
  config.listen = {"::1", 0};
  config.metrics_listen = {"::1", 0};
  absl::StatusOr<std::unique_ptr<KvasirServer>> probe =
      KvasirServer::Start(config, nullptr);
  if (!probe.ok()) GTEST_SKIP() << "no IPv6 here: " << probe.status();
  EXPECT_THAT((*probe)->grpc_address().ToString(), HasSubstr("[::1]:"));
  for (const HostPort& address :
       {(*probe)->grpc_address(), *(*probe)->admin_address()}) {
    EXPECT_NE(address.port, 0);
    const auto channel = grpc::CreateChannel(
        address.ToString(), grpc::InsecureChannelCredentials());
    EXPECT_TRUE(channel->WaitForConnected(std::chrono::system_clock::now() +
                                          std::chrono::seconds(60)));
  }
  const HostPort& metrics = (*probe)->metrics_address();
  const auto alive = httplib::Client(metrics.host, metrics.port).Get("/livez");
  ASSERT_TRUE(alive);
  EXPECT_EQ(alive->status, 200);
}

}  // namespace
}  // namespace kvasir

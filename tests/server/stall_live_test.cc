// SRV-5 (b): an engine that does not move while a request waits.

#include "gtest/gtest.h"

#if KVASIR_TEST_HOOKS

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"

#include "engine/engine.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "httplib.h"
#include "tests/server/live_server.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

namespace health = ::grpc::health::v1;

class StallLiveTest : public testing::Test {
 protected:
  void Start(absl::Duration step_delay) {
    ServerConfig config = LiveServer::Config();
    config.stall_timeout = absl::Milliseconds(300);
    live_ = std::make_unique<LiveServer>(config);
    EngineOptions options;
    options.model_name = "tiny";
    options.cache_blocks = 100;
    options.thread_count = 1;
    options.model_path = TempPath("stall_tiny.gguf");
    options.test_hooks.step_delay = step_delay;
    const absl::Status written = WriteTinyModel({}, options.model_path);
    ASSERT_TRUE(written.ok()) << written;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    live_->server().Serve(MakeEngineBackend(*std::move(engine)));
  }

  int Http(const std::string& path) {
    const HostPort& address = live_->server().metrics_address();
    const auto page =
        httplib::Client(address.host, address.port).Get(path.c_str());
    return page ? page->status : 0;
  }

  // The value of a gauge; -1 if it is not there.
  double Gauge(const std::string& name) {
    const HostPort& address = live_->server().metrics_address();
    const auto page =
        httplib::Client(address.host, address.port).Get("/metrics");
    const size_t at =
        page ? page->body.find("\n" + name + "{") : std::string::npos;
    if (at == std::string::npos) return -1;
    const std::string line =
        page->body.substr(at + 1, page->body.find('\n', at + 1) - at - 1);
    double value = -1;
    EXPECT_TRUE(absl::SimpleAtod(line.substr(line.rfind(' ')), &value)) << line;
    return value;
  }

  bool Serving() {
    grpc::ClientContext context;
    health::HealthCheckResponse answer;
    return health::Health::NewStub(live_->channel())
               ->Check(&context, {}, &answer)
               .ok() &&
           answer.status() == health::HealthCheckResponse::SERVING;
  }

  std::unique_ptr<LiveServer> live_;
};

TEST_F(StallLiveTest, ReadinessTurnsBadAndRecoversByItself) {
  Start(absl::Seconds(3));
  EXPECT_TRUE(Serving());
  EXPECT_EQ(Http("/readyz"), 200);
  EXPECT_EQ(Gauge("kvasir_engine_seconds_since_last_step"), 0) << "none yet";
  v1::GenerateRequest request;
  request.set_text("The old");
  request.mutable_stopping()->set_max_tokens(2);
  request.mutable_stopping()->set_ignore_eos(true);
  LiveServer::Result result;
  std::thread client([&] { result = live_->Generate(request); });
  EXPECT_TRUE(Eventually([this] { return !Serving(); }));
  EXPECT_EQ(Http("/readyz"), 503);
  EXPECT_EQ(Http("/livez"), 200) << "the process lives";
  // The first step ends, and the next ones may take as long as it did.
  EXPECT_TRUE(Eventually([this] { return Serving(); }));
  client.join();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(Http("/readyz"), 200);
  const double before = Gauge("kvasir_engine_seconds_since_last_step");
  EXPECT_GT(before, 0);
  EXPECT_TRUE(Eventually([&] {
    return Gauge("kvasir_engine_seconds_since_last_step") > before;
  })) << "it counts on while nothing moves";
  EXPECT_TRUE(Serving()) << "which is no stall without work";
}

}  // namespace
}  // namespace kvasir

#endif  // KVASIR_TEST_HOOKS

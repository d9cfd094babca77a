// The whole way at run time: a file of the system changes, and the engine under
// the server has another cache, while a stream goes on (RES-1, contract C6).

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "server/generation_backend.h"
#include "tests/server/fake_system.h"
#include "tests/server/live_server.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class AutoResizeLiveTest : public testing::Test {
 protected:
  void Start(CacheSizing sizing) {
    system_.SetGroup("209715200", 20 * kMebi);
    system_.SetPressure("0.00", "0.00");
    sizing.system_root = system_.root();
    ServerConfig config = LiveServer::Config();
    config.sizing = sizing;
    live_ = std::make_unique<LiveServer>(config);
    EngineOptions options;
    options.model_name = "tiny";
    options.model_path = TempPath("auto_resize_tiny.gguf");
    options.context_limit = 4096;
    options.thread_count = 1;
    options.size_cache = [this](const CacheSizeQuery& query) {
      return live_->server().SizeCache(query);
    };
    const absl::Status written = WriteTinyModel({}, options.model_path);
    ASSERT_TRUE(written.ok()) << written;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    live_->server().Serve(MakeEngineBackend(*std::move(engine)));
  }

  int64_t CacheBytes() { return live_->Stats().tiers(0).capacity_bytes(); }

  using Resized = LiveServer::Told<v1::ResizeCacheResponse>;
  Resized Resize(const v1::ResizeCacheRequest& wire) {
    return LiveServer::ReadToEnd<v1::ResizeCacheResponse>(
        [&](grpc::ClientContext* context) {
          return live_->admin().ResizeCache(context, wire);
        });
  }

  FakeSystem system_;
  std::unique_ptr<LiveServer> live_;
};

TEST_F(AutoResizeLiveTest, ALimitThatIsCutShrinksTheCacheUnderAStream) {
  Start({.floor_bytes = 4 * kMebi, .auto_resize = true});
  const int64_t start = CacheBytes();
  EXPECT_GT(start, 115 * kMebi);
  EXPECT_LE(start, 148 * kMebi * 9 / 10);
  v1::GenerateRequest request;
  request.set_text(std::string(200, 's'));
  request.set_stream(true);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(300);
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_output()->set_return_token_ids(true);
  const std::vector<uint32_t> cold = live_->Generate(request).ids();
  ASSERT_EQ(cold.size(), 300u);
  system_.SetGroup("62914560", 20 * kMebi);
  // Streams all the while, each of which must be the same to the bit.
  EXPECT_TRUE(Eventually([&] {
    EXPECT_EQ(live_->Generate(request).ids(), cold);
    return CacheBytes() < start;
  }));
  EXPECT_GE(CacheBytes(), 4 * kMebi);
  EXPECT_LE(CacheBytes(), 12 * kMebi) << "60 less weights, others and 32";
  EXPECT_EQ(live_->Generate(request).ids(), cold);
}

TEST_F(AutoResizeLiveTest, StallsShrinkItToo) {
  Start({.auto_resize = true});
  const int64_t start = CacheBytes();
  system_.SetPressure("60.00", "20.00");
  EXPECT_TRUE(Eventually([&] { return CacheBytes() < start; }));
  EXPECT_GE(CacheBytes(), start / 2);
}

// To commit memory costs nothing under overcommit, and a control group kills
// instead of refusing: the order has to be refused before.
TEST_F(AutoResizeLiveTest, AnOperatorIsRefusedWhatTheLimitDoesNotLeave) {
  Start({.share = 0.5});
  v1::ResizeCacheRequest wire;
  wire.set_bytes(180 * kMebi);
  for (const bool dry_run : {true, false}) {
    wire.set_dry_run(dry_run);
    const Resized refused = Resize(wire);
    EXPECT_EQ(refused.status.error_code(), grpc::RESOURCE_EXHAUSTED);
    EXPECT_THAT(refused.status.error_message(),
                AllOf(HasSubstr("target: wanted at most"), HasSubstr("200 MiB"),
                      HasSubstr("32 MiB of reserve"), HasSubstr("found")));
  }
  wire.set_bytes(140 * kMebi);
  EXPECT_TRUE(Resize(wire).status.ok());
  const int64_t large = CacheBytes();
  EXPECT_GT(large, 139 * kMebi);
  // A share is of what is left, the same as at start.
  wire.set_ratio(0.5);
  EXPECT_TRUE(Resize(wire).status.ok());
  EXPECT_NEAR(static_cast<double>(CacheBytes()), 74.0 * kMebi, 2.0 * kMebi);
  // With less left than there is, smaller is always right, larger never.
  system_.SetGroup("83886080", 20 * kMebi);
  wire.set_bytes(CacheBytes() + kMebi);
  EXPECT_EQ(Resize(wire).status.error_code(), grpc::RESOURCE_EXHAUSTED);
  wire.set_bytes(CacheBytes() - kMebi);
  EXPECT_TRUE(Resize(wire).status.ok());
  EXPECT_GT(CacheBytes(), 70 * kMebi);
}

}  // namespace
}  // namespace kvasir

// SRV-2: clients that read slowly or not at all. They cost a bounded amount of
// memory, hold up nobody, and lose their call when they have kept it waiting
// for too long.

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "httplib.h"
#include "tests/server/live_server.h"
#include "tests/server/server_testing.h"
#include "tests/server/status_details.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

// Far more than one message, so that few fill what lies between two ends.
constexpr size_t kLargeText = 1 << 20;

std::string Metrics(LiveServer& live) {
  const HostPort& address = live.server().metrics_address();
  const auto page = httplib::Client(address.host, address.port).Get("/metrics");
  return page ? page->body : "";
}

// Whether the sample of the family `name` is `value`; whatever its labels are.
bool Shows(LiveServer& live, const std::string& name, int value) {
  const std::string page = Metrics(live);
  size_t at = page.find("\n" + name);
  while (at != std::string::npos) {
    const std::string line = page.substr(at + 1, page.find('\n', at + 1) - at);
    if (line.substr(line.rfind(' ')) == absl::StrCat(" ", value, "\n")) {
      return true;
    }
    at = page.find("\n" + name, at + 1);
  }
  return false;
}

// Of a client whose library reads no further ahead than it has to.
std::unique_ptr<v1::Inference::Stub> MakeSlowStub(LiveServer& live) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1 << 16);
  return v1::Inference::NewStub(
      grpc::CreateCustomChannel(live.server().grpc_address().ToString(),
                                grpc::InsecureChannelCredentials(), arguments));
}

class SlowReaderTest : public testing::Test {
 protected:
  void Serve(absl::Duration timeout) {
    ServerConfig config = LiveServer::Config();
    config.stream_queue_limit = 4;
    config.slow_reader_timeout = timeout;
    live_ = std::make_unique<LiveServer>(config);
    auto backend = std::make_unique<FakeBackend>();
    backend_ = backend.get();
    live_->server().Serve(std::move(backend));
    v1::GenerateRequest request;
    request.set_request_id("slow");
    request.set_text("x");
    request.set_stream(true);
    slow_ = MakeSlowStub(*live_);
    reader_ = slow_->Generate(&context_, request);
    sink_ = backend_->sink(0);
    sink_->Push(AcceptedEvent{1, 0, "v"});
  }

  // As an engine does: until the sink is full, and then no more.
  // How many that were.
  int PushUntilFull() {
    int pushed = 0;
    while (!sink_->Full() &&
           sink_->Push(DeltaEvent{.token_ids = {1},
                                  .text = std::string(kLargeText, 'x')})) {
      if (++pushed == 1000) {
        ADD_FAILURE() << "the queue has no bound";
        break;
      }
    }
    return pushed;
  }

  void EndRequest(absl::Status status) {
    FinishedEvent last;
    last.status = std::move(status);
    sink_->Push(last);
    sink_.reset();
    backend_->DropSinks();
  }

  std::unique_ptr<LiveServer> live_;
  FakeBackend* backend_ = nullptr;
  std::unique_ptr<v1::Inference::Stub> slow_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader_;
  std::shared_ptr<TokenSink> sink_;
};

TEST_F(SlowReaderTest, WhoStopsReadingLosesTheCall) {
  Serve(absl::Milliseconds(50));
  int pushed = 0;
  EXPECT_TRUE(Eventually([&] {
    pushed += PushUntilFull();
    return !backend_->cancelled().empty();
  })) << "the engine lets go of the request's memory";
  EXPECT_LT(pushed, 100) << "what lies on the way is bounded, too";
  EXPECT_THAT(backend_->cancelled(), testing::ElementsAre("slow"));
  EXPECT_FALSE(sink_->Full()) << "what ends is not paused";
  EXPECT_FALSE(sink_->Push(DeltaEvent{.token_ids = {1}, .text = "late"}));
  EndRequest(absl::CancelledError("nobody reads the stream"));
  EXPECT_TRUE(Shows(*live_, "kvasir_slow_readers_ended_total", 1));
  v1::GenerateResponse message;
  while (reader_->Read(&message)) {
  }
  const grpc::Status status = reader_->Finish();
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("server.stream_queue"));
  EXPECT_THAT(status.error_message(), HasSubstr("server.slow_reader_timeout"));
  const StatusDetails details = DetailsOf(status);
  EXPECT_EQ(details.info.reason(), "SLOW_CLIENT");
  EXPECT_EQ(details.info.metadata().at("limit"), "server.stream_queue");
  EXPECT_FALSE(details.has("RetryInfo")) << "it would read no faster";
}

TEST_F(SlowReaderTest, TheEngineIsWokenWhenThereIsRoomAgain) {
  Serve(absl::Hours(1));
  int pushed = PushUntilFull();
  EXPECT_EQ(backend_->wakes, 0);
  v1::GenerateResponse message;
  int read = 0;
  while (sink_->Full()) {
    ASSERT_TRUE(reader_->Read(&message));
    ++read;
  }
  EXPECT_TRUE(Eventually([this] { return backend_->wakes == 1; }));
  pushed += PushUntilFull();
  std::thread ends([this] { EndRequest(absl::OkStatus()); });
  bool finished = false;
  while (reader_->Read(&message)) {
    ++read;
    finished |= message.has_finished();
  }
  ends.join();
  EXPECT_TRUE(finished);
  EXPECT_EQ(read, 1 + pushed + 1) << "nothing was lost";
  EXPECT_TRUE(reader_->Finish().ok());
}

// It holds no blocks any more, but a place among the open calls.
TEST_F(SlowReaderTest, TheRestOfAnEndedRequestIsNotKeptForEver) {
  Serve(absl::Milliseconds(100));
  PushUntilFull();
  EndRequest(absl::OkStatus());
  EXPECT_TRUE(Eventually(
      [this] { return Shows(*live_, "kvasir_slow_readers_ended_total", 1); }));
  v1::GenerateResponse message;
  while (reader_->Read(&message)) {
  }
  EXPECT_EQ(ReasonIn(reader_->Finish()), "SLOW_CLIENT");
}

// Beside a real engine.
class SlowReaderLiveTest : public testing::Test {
 protected:
  static constexpr int kContext = 32768;
  // A stream that fills what lies on the way to its client.
  static constexpr int kManyTokens = 8000;

  void Start(absl::Duration timeout) {
    ServerConfig config = LiveServer::Config();
    config.stream_queue_limit = 64;
    config.slow_reader_timeout = timeout;
    live_ = std::make_unique<LiveServer>(config);
    EngineOptions options;
    options.model_name = "tiny";
    options.context_limit = kContext;
    options.cache_blocks = 4200;
    options.thread_count = 1;
    options.model_path = TempPath("slow_reader_tiny.gguf");
    const absl::Status written = WriteTinyModel({}, options.model_path);
    ASSERT_TRUE(written.ok()) << written;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    live_->server().Serve(MakeEngineBackend(*std::move(engine)));
    slow_ = MakeSlowStub(*live_);
  }

  static v1::GenerateRequest Ask(const std::string& text, int max_tokens) {
    v1::GenerateRequest request;
    request.set_text(text);
    request.set_stream(true);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stopping()->set_max_tokens(max_tokens);
    request.mutable_stopping()->set_ignore_eos(true);
    request.mutable_output()->set_return_token_ids(true);
    return request;
  }

  bool Idle() {
    const v1::CacheStats stats = live_->Stats();
    return stats.running_count() == 0 && stats.waiting_count() == 0 &&
           stats.tiers(0).pinned_blocks() == 0 &&
           stats.tiers(0).reserved_blocks() == 0;
  }

  std::unique_ptr<LiveServer> live_;
  std::unique_ptr<v1::Inference::Stub> slow_;
};

TEST_F(SlowReaderLiveTest, OthersGetTheirAnswersAndTheBlocksComeBack) {
  Start(absl::Milliseconds(300));
  constexpr int kClients = 4;
  std::vector<std::vector<uint32_t>> alone;
  for (int i = 0; i < kClients; ++i) {
    alone.push_back(live_->Generate(Ask(absl::StrCat("alpha ", i), 200)).ids());
  }
  grpc::ClientContext context;
  const auto reader = slow_->Generate(&context, Ask("The old", kManyTokens));
  std::vector<LiveServer::Result> together(kClients);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      together[i] = live_->Generate(Ask(absl::StrCat("alpha ", i), 200));
    });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < kClients; ++i) {
    EXPECT_TRUE(together[i].status.ok()) << together[i].status.error_message();
    EXPECT_THAT(together[i].ids(), ElementsAreArray(alone[i])) << i;
  }
  EXPECT_TRUE(Eventually(
      [this] { return Shows(*live_, "kvasir_slow_readers_ended_total", 1); }));
  EXPECT_TRUE(Eventually([this] { return Idle(); }));
  v1::GenerateResponse message;
  int tokens = 0;
  while (reader->Read(&message)) tokens += message.delta().token_ids_size();
  EXPECT_LT(tokens, kManyTokens);
  EXPECT_EQ(ReasonIn(reader->Finish()), "SLOW_CLIENT");
}

// Slow is not wrong: who reads in time gets all of it, however often the
// engine has to wait.
TEST_F(SlowReaderLiveTest, AStreamThatWasPausedIsTheSameStream) {
  Start(absl::Hours(1));
  const LiveServer::Result alone = live_->Generate(Ask("The old", kManyTokens));
  ASSERT_TRUE(alone.status.ok()) << alone.status.error_message();
  grpc::ClientContext context;
  const auto reader = slow_->Generate(&context, Ask("The old", kManyTokens));
  EXPECT_TRUE(Eventually(
      [this] { return Shows(*live_, "kvasir_requests_paused", 1); }));
  std::vector<uint32_t> ids;
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
    const auto& more = message.delta().token_ids();
    ids.insert(ids.end(), more.begin(), more.end());
    if (ids.size() % 4000 == 1) absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_THAT(ids, ElementsAreArray(alone.ids()));
}

}  // namespace
}  // namespace kvasir

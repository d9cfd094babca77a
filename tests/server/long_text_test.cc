// Calls whose text takes long to tokenise: gRPC's threads, of which a small
// machine has two, must stay free for the streams.

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "httplib.h"
#include "tests/server/live_server.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

class LongTextTest : public testing::Test {
 protected:
  // A stream whose prompt is too long to be tokenised where it arrives.
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>> reader;
  };

  LongTextTest() {
    auto backend = std::make_unique<FakeBackend>();
    backend_ = backend.get();
    backend_->SetMaxContext(1 << 20);
    live_.server().Serve(std::move(backend));
  }

  Stream* Start() {
    v1::GenerateRequest request;
    request.set_text(std::string(20000, 'a'));
    auto stream = std::make_unique<Stream>();
    stream->reader = live_.inference().Generate(&stream->context, request);
    streams_.push_back(std::move(stream));
    return streams_.back().get();
  }

  bool Answers() {
    grpc::ClientContext context;
    v1::ListModelsResponse models;
    return live_.inference().ListModels(&context, {}, &models).ok();
  }

  // Calls of `method` that ended with `code`.
  std::string Ended(const std::string& method, const std::string& code) {
    const HostPort& address = live_.server().metrics_address();
    const auto result =
        httplib::Client(address.host, address.port).Get("/metrics");
    const std::string series =
        "grpc_server_call_duration_seconds_count{grpc_method=\"kvasir.v1."
        "Inference/" +
        method + "\",grpc_status=\"" + code + "\"} ";
    const size_t at = result ? result->body.find(series) : std::string::npos;
    if (at == std::string::npos) return "0";
    const size_t start = at + series.size();
    return result->body.substr(start, result->body.find('\n', start) - start);
  }

  // What the server's threads use until it is gone.
  absl::Notification go_on_;
  std::atomic<int> in_hand_ = 0;
  LiveServer live_;
  FakeBackend* backend_ = nullptr;
  std::vector<std::unique_ptr<Stream>> streams_;
};

TEST_F(LongTextTest, AreAnsweredLikeShortOnes) {
  Start();
  const std::shared_ptr<TokenSink> sink = backend_->sink(0);
  sink->Push(FinishedEvent{});
  v1::GenerateResponse message;
  while (streams_[0]->reader->Read(&message)) {
  }
  EXPECT_TRUE(streams_[0]->reader->Finish().ok());
  grpc::ClientContext context;
  v1::TokenizeRequest text;
  text.set_text(std::string(20000, 'a'));
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(live_.inference().Tokenize(&context, text, &tokens).ok());
  grpc::ClientContext back_context;
  v1::DetokenizeRequest ids;
  *ids.mutable_token_ids() = tokens.token_ids();
  v1::DetokenizeResponse again;
  ASSERT_TRUE(live_.inference().Detokenize(&back_context, ids, &again).ok());
  EXPECT_EQ(again.text(), text.text());
}

TEST_F(LongTextTest, WaitForThePoolAndNobodyElseDoes) {
  backend_->on_submit = [this] {
    ++in_hand_;
    go_on_.WaitForNotification();
  };
  // A text for each of two threads and one for each of 64 places to wait; more
  // are refused. While a thread is on its way to its first, one has to try.
  constexpr size_t kTaken = 66;
  for (int i = 0; i < 100; ++i) Start();
  EXPECT_TRUE(Eventually([this] {
    const size_t refused =
        static_cast<size_t>(std::stoi(Ended("Generate", "RESOURCE_EXHAUSTED")));
    if (streams_.size() - refused < kTaken) Start();
    return in_hand_ > 0 && streams_.size() - refused == kTaken;
  }));
  EXPECT_TRUE(Answers());
  // One that finds a free place after all waits there, and the next is refused.
  grpc::Status full;
  EXPECT_TRUE(Eventually([this, &full] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(1));
    v1::TokenizeRequest text;
    text.set_text(std::string(20000, 'a'));
    v1::TokenizeResponse tokens;
    full = live_.inference().Tokenize(&context, text, &tokens);
    return full.error_code() == grpc::RESOURCE_EXHAUSTED &&
           context.GetServerTrailingMetadata().count(
               "grpc-retry-pushback-ms") == 1;
  }));
  EXPECT_THAT(full.error_message(), HasSubstr("64 texts to be tokenised wait"));
  EXPECT_EQ(ReasonIn(full), "QUEUE_FULL");
  // Calls that are cancelled in the queue end there.
  for (const auto& stream : streams_) stream->context.TryCancel();
  EXPECT_TRUE(
      Eventually([this] { return Ended("Generate", "CANCELLED") != "0"; }));
  go_on_.Notify();
  for (const auto& stream : streams_) stream->reader->Finish();
  EXPECT_TRUE(Eventually([this] {
    return std::stoi(Ended("Generate", "CANCELLED")) +
               std::stoi(Ended("Generate", "RESOURCE_EXHAUSTED")) ==
           static_cast<int>(streams_.size());
  })) << Ended("Generate", "CANCELLED");
}

}  // namespace
}  // namespace kvasir

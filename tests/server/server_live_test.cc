// The server with a real engine on the model TINY: what a client gets, and what
// is left in the cache afterwards.

#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "server/generation_backend.h"
#include "tests/server/live_server.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

// All that TINY has, so that a stream can go on for longer than any test needs.
constexpr int kContext = 32768;
constexpr int kBlocks = 2100;

class ServerLiveTest : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model_name = "tiny";
    options.context_limit = kContext;
    options.cache_blocks = kBlocks;
    options.thread_count = 1;
    Start(options);
  }

  void Start(EngineOptions options) {
    options.model_path = TempPath("server_live_tiny.gguf");
    const absl::Status written = WriteTinyModel({}, options.model_path);
    ASSERT_TRUE(written.ok()) << written;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    live_ = std::make_unique<LiveServer>();
    live_->server().Serve(MakeEngineBackend(*std::move(engine)));
  }

  static v1::GenerateRequest Ask(const std::string& text, int max_tokens) {
    v1::GenerateRequest request;
    request.set_text(text);
    request.mutable_stopping()->set_max_tokens(max_tokens);
    request.mutable_stopping()->set_ignore_eos(true);
    request.mutable_output()->set_return_token_ids(true);
    request.mutable_output()->set_skip_special_tokens(false);
    return request;
  }

  // A stream that will not end by itself before the test is done with it.
  static v1::GenerateRequest AskForMuch(const std::string& id) {
    v1::GenerateRequest request = Ask("The old", kContext - 1000);
    request.set_request_id(id);
    request.set_stream(true);
    return request;
  }

  // The stream has begun, and the statistics know it.
  void ExpectRunning(grpc::ClientReader<v1::GenerateResponse>& reader) {
    v1::GenerateResponse message;
    ASSERT_TRUE(reader.Read(&message));
    ASSERT_TRUE(
        Eventually([this] { return live_->Stats().running_count() == 1; }));
  }

  std::string Detokenize(const std::vector<uint32_t>& ids) {
    grpc::ClientContext context;
    v1::DetokenizeRequest request;
    request.mutable_token_ids()->Add(ids.begin(), ids.end());
    v1::DetokenizeResponse answer;
    const grpc::Status status =
        live_->inference().Detokenize(&context, request, &answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return answer.text();
  }

  // Nothing holds blocks any more (C4, but for what is cached).
  bool Idle() {
    const v1::CacheStats stats = live_->Stats();
    return stats.running_count() == 0 && stats.waiting_count() == 0 &&
           stats.tiers(0).pinned_blocks() == 0 &&
           stats.tiers(0).reserved_blocks() == 0;
  }

  std::unique_ptr<LiveServer> live_;
};

// C9: buffered text = joined stream = decode of the ids.
TEST_F(ServerLiveTest, BufferedStreamAndIdsAgree) {
  for (const int max_tokens : {1, 2, 7, 40}) {
    for (const float temperature : {0.0f, 1.5f}) {
      v1::GenerateRequest request = Ask("The old harbour", max_tokens);
      request.mutable_sampling()->set_temperature(temperature);
      request.mutable_sampling()->set_seed(11);
      const LiveServer::Result buffered = live_->Generate(request);
      request.set_stream(true);
      const LiveServer::Result streamed = live_->Generate(request);
      request.mutable_output()->set_stream_interval(5);
      const LiveServer::Result gathered = live_->Generate(request);
      ASSERT_TRUE(buffered.status.ok()) << buffered.status.error_message();
      ASSERT_EQ(buffered.messages.size(), 1u);
      EXPECT_EQ(buffered.text(), streamed.text());
      EXPECT_EQ(buffered.text(), gathered.text());
      EXPECT_EQ(buffered.text(), Detokenize(buffered.ids()));
      EXPECT_THAT(streamed.ids(), ElementsAreArray(buffered.ids()));
      EXPECT_THAT(gathered.ids(), ElementsAreArray(buffered.ids()));
      EXPECT_EQ(buffered.ids().size(), static_cast<size_t>(max_tokens));
      EXPECT_EQ(buffered.finished().reason(), v1::FINISH_REASON_LENGTH);
      EXPECT_EQ(buffered.finished().usage().completion_tokens(), max_tokens);
      EXPECT_TRUE(streamed.messages.front().has_accepted());
    }
  }
}

TEST_F(ServerLiveTest, DrawnSeedIsToldAndRepeatsTheAnswer) {
  v1::GenerateRequest request = Ask("alpha beta", 30);
  const LiveServer::Result first = live_->Generate(request);
  request.mutable_sampling()->set_seed(first.finished().seed());
  EXPECT_THAT(live_->Generate(request).ids(), ElementsAreArray(first.ids()));
  request.mutable_sampling()->set_seed(first.finished().seed() + 1);
  EXPECT_NE(live_->Generate(request).ids(), first.ids());
}

TEST_F(ServerLiveTest, SecondCallFindsThePrefix) {
  const std::string prompt(70, 'a');
  v1::GenerateRequest request = Ask(prompt, 4);
  EXPECT_EQ(live_->Generate(request).finished().usage().cached_tokens(), 0);
  grpc::ClientContext context;
  const LiveServer::Result second = live_->Generate(context, request);
  EXPECT_EQ(second.finished().usage().cached_tokens(), 64);
  const auto& trailers = context.GetServerTrailingMetadata();
  EXPECT_EQ(trailers.find("x-kvasir-cached-tokens")->second, "64");
  request.mutable_cache()->set_salt("other");
  EXPECT_EQ(live_->Generate(request).finished().usage().cached_tokens(), 0);
  request.mutable_cache()->set_mode(v1::CACHE_MODE_BYPASS);
  EXPECT_EQ(live_->Generate(request).finished().usage().cached_tokens(), 0);
}

TEST_F(ServerLiveTest, StopTokenIsNamed) {
  v1::GenerateRequest request = Ask("The old", 50);
  request.mutable_sampling()->set_temperature(0);
  const std::vector<uint32_t> ids = live_->Generate(request).ids();
  request.mutable_stopping()->add_token_ids(ids[3]);
  const LiveServer::Result stopped = live_->Generate(request);
  EXPECT_EQ(stopped.finished().reason(), v1::FINISH_REASON_STOP_TOKEN);
  EXPECT_EQ(stopped.finished().matched_token_id(), ids[3]);
  EXPECT_EQ(stopped.ids().back(), ids[3]);
}

// LEAK-1: what a vanished client held is free a step later, and counted.
TEST_F(ServerLiveTest, CancelledCallFreesItsBlocks) {
  grpc::ClientContext context;
  const auto reader = live_->inference().Generate(&context, AskForMuch("r1"));
  ExpectRunning(*reader);
  v1::GenerateResponse message;
  context.TryCancel();
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(Eventually([this] { return Idle(); }));
}

TEST_F(ServerLiveTest, CancelGenerationEndsTheOtherCall) {
  grpc::ClientContext context;
  const auto reader =
      live_->inference().Generate(&context, AskForMuch("victim"));
  ExpectRunning(*reader);
  v1::GenerateResponse message;
  v1::CancelGenerationRequest request;
  request.add_request_ids("victim");
  request.add_request_ids("nobody");
  request.set_reason("quota");
  grpc::ClientContext cancel_context;
  v1::CancelGenerationResponse answer;
  ASSERT_TRUE(live_->inference()
                  .CancelGeneration(&cancel_context, request, &answer)
                  .ok());
  EXPECT_THAT(answer.cancelled_ids(), testing::ElementsAre("victim"));
  while (reader->Read(&message)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::CANCELLED);
  EXPECT_THAT(status.error_message(), HasSubstr("quota"));
  EXPECT_TRUE(Eventually([this] { return Idle(); }));
}

TEST_F(ServerLiveTest, DuplicateIdIsRefusedWhileInFlight) {
  grpc::ClientContext context;
  const auto reader = live_->inference().Generate(&context, AskForMuch("twin"));
  ExpectRunning(*reader);
  v1::GenerateResponse message;
  const LiveServer::Result second = live_->Generate(AskForMuch("twin"));
  EXPECT_EQ(second.status.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_THAT(second.status.error_message(), HasSubstr("twin"));
  // The refused call must not have taken the first one's entry with it.
  ASSERT_TRUE(reader->Read(&message));
  context.TryCancel();
  EXPECT_TRUE(Eventually([this] { return Idle(); }));
  v1::GenerateRequest again = Ask("The", 1);
  again.set_request_id("twin");
  EXPECT_TRUE(live_->Generate(again).status.ok()) << "free again";
}

TEST_F(ServerLiveTest, DeadlineEndsTheCallAndFreesItsBlocks) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(50));
  v1::GenerateRequest request = AskForMuch("late");
  const LiveServer::Result result = live_->Generate(context, request);
  EXPECT_EQ(result.status.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Eventually([this] { return Idle(); }));
}

TEST_F(ServerLiveTest, MaxTimeEndsWithWhatThereIs) {
  v1::GenerateRequest request = AskForMuch("limited");
  request.set_stream(false);
  request.mutable_max_time()->set_nanos(20'000'000);
  const LiveServer::Result result = live_->Generate(request);
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(result.finished().reason(), v1::FINISH_REASON_TIME_LIMIT);
  EXPECT_EQ(result.text(), Detokenize(result.ids()));
}

TEST_F(ServerLiveTest, FlushThatMayNotWaitMindsRunningRequests) {
  live_->Generate(Ask(std::string(100, 'b'), 1));
  ASSERT_GT(live_->Stats().tiers(0).cached_blocks(), 0);
  grpc::ClientContext context;
  const auto reader = live_->inference().Generate(&context, AskForMuch("r"));
  ExpectRunning(*reader);
  v1::GenerateResponse message;
  v1::FlushCacheRequest request;
  request.mutable_wait();
  const auto flush = [this](const v1::FlushCacheRequest& wire) {
    grpc::ClientContext flush_context;
    v1::FlushCacheResponse answer;
    return live_->admin().FlushCache(&flush_context, wire, &answer);
  };
  EXPECT_EQ(flush(request).error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_TRUE(flush({}).ok()) << "drops what nobody holds";
  context.TryCancel();
  ASSERT_TRUE(Eventually([this] { return Idle(); }));
  request.mutable_wait()->set_seconds(5);
  EXPECT_TRUE(flush(request).ok());
  const v1::TierStats device = live_->Stats().tiers(0);
  EXPECT_EQ(device.free_blocks(), kBlocks) << "C4: exactly zero are used";
  EXPECT_EQ(device.bytes().free(), device.capacity_bytes());
}

// C6 and CTX-2 over the wire: a stream outlives the shrink unchanged, and what
// is advertised follows.
TEST_F(ServerLiveTest, TheCacheIsResizedUnderAStream) {
  v1::GenerateRequest request = Ask(std::string(200, 'r'), 60);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_ignore_eos(true);
  const std::vector<uint32_t> cold = live_->Generate(request).ids();
  ASSERT_EQ(cold.size(), 60u);

  const auto resize = [this](int64_t blocks, v1::ResizeStrategy strategy) {
    grpc::ClientContext context;
    v1::ResizeCacheRequest wire;
    wire.set_blocks(blocks);
    wire.set_strategy(strategy);
    const auto reader = live_->admin().ResizeCache(&context, wire);
    v1::ResizeCacheResponse last;
    while (reader->Read(&last)) {
    }
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(last.progress().phase(), "done");
    EXPECT_EQ(last.current_bytes(), last.target_bytes());
  };
  const auto context_of = [this] {
    grpc::ClientContext context;
    v1::GetModelResponse answer;
    EXPECT_TRUE(live_->inference().GetModel(&context, {}, &answer).ok());
    return answer.model().max_context();
  };
  for (const v1::ResizeStrategy strategy :
       {v1::RESIZE_STRATEGY_WAIT, v1::RESIZE_STRATEGY_EVICT,
        v1::RESIZE_STRATEGY_PREEMPT}) {
    grpc::ClientContext context;
    const auto reader = live_->inference().Generate(&context, request);
    v1::GenerateResponse message;
    std::vector<uint32_t> ids;
    const auto take = [&] {
      const auto& delta = message.delta().token_ids();
      ids.insert(ids.end(), delta.begin(), delta.end());
      const auto& rest = message.finished().token_ids();
      ids.insert(ids.end(), rest.begin(), rest.end());
    };
    ASSERT_TRUE(reader->Read(&message));
    take();
    std::thread resizing([&] { resize(20, strategy); });
    while (reader->Read(&message)) take();
    EXPECT_TRUE(reader->Finish().ok());
    resizing.join();
    EXPECT_EQ(ids, cold) << strategy;
    EXPECT_EQ(live_->Stats().tiers(0).capacity_bytes(),
              20 * live_->Stats().tiers(0).block_bytes());
    EXPECT_EQ(context_of(), 320);
    resize(kBlocks, strategy);
    EXPECT_EQ(context_of(), kContext);
  }
}

TEST_F(ServerLiveTest, ResizesThatMakeNoSenseAreRefusedByField) {
  const auto refused = [this](const v1::ResizeCacheRequest& wire) {
    grpc::ClientContext context;
    const auto reader = live_->admin().ResizeCache(&context, wire);
    v1::ResizeCacheResponse last;
    EXPECT_FALSE(reader->Read(&last));
    return reader->Finish();
  };
  v1::ResizeCacheRequest wire;
  EXPECT_THAT(refused(wire).error_message(), HasSubstr("target: wanted"));
  for (const double ratio : {0.0, -1.0, 1.5, std::nan("")}) {
    wire.set_ratio(ratio);
    EXPECT_EQ(refused(wire).error_code(), grpc::INVALID_ARGUMENT) << ratio;
  }
  wire.set_blocks(0);
  EXPECT_THAT(refused(wire).error_message(), HasSubstr("blocks: wanted"));
  wire.set_bytes(1);
  EXPECT_THAT(refused(wire).error_message(), HasSubstr("at least one block"));
  wire.set_bytes(int64_t{1} << 60);
  EXPECT_EQ(refused(wire).error_code(), grpc::RESOURCE_EXHAUSTED);
  wire.set_blocks(10);
  wire.set_tier(v1::CACHE_TIER_DISK);
  EXPECT_EQ(refused(wire).error_code(), grpc::UNIMPLEMENTED);
  wire.clear_tier();
  wire.set_strategy(static_cast<v1::ResizeStrategy>(9));
  EXPECT_THAT(refused(wire).error_message(), HasSubstr("strategy: wanted"));
  wire.clear_strategy();
  wire.set_model("other");
  EXPECT_EQ(refused(wire).error_code(), grpc::NOT_FOUND);
}

// Ending the call ends the resize, wherever it is.
TEST_F(ServerLiveTest, ACancelledResizeIsCalledOff) {
  grpc::ClientContext stream_context;
  const auto stream =
      live_->inference().Generate(&stream_context, AskForMuch("holds"));
  ExpectRunning(*stream);
  grpc::ClientContext context;
  v1::ResizeCacheRequest wire;
  wire.set_blocks(1);
  wire.set_strategy(v1::RESIZE_STRATEGY_WAIT);
  const auto reader = live_->admin().ResizeCache(&context, wire);
  v1::ResizeCacheResponse report;
  ASSERT_TRUE(reader->Read(&report));
  EXPECT_EQ(report.progress().phase(), "waiting");
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(Eventually([this] {
    grpc::ClientContext again;
    v1::ResizeCacheRequest dry;
    dry.set_blocks(5);
    dry.set_dry_run(true);
    const auto dry_reader = live_->admin().ResizeCache(&again, dry);
    v1::ResizeCacheResponse answer;
    while (dry_reader->Read(&answer)) {
    }
    return dry_reader->Finish().ok() && answer.progress().phase() == "dry run";
  })) << "another one may begin";
  EXPECT_EQ(live_->Stats().tiers(0).capacity_bytes(),
            kBlocks * live_->Stats().tiers(0).block_bytes());
  stream_context.TryCancel();
}

// C10, the mild way: what runs ends, what is new is sent elsewhere.
TEST_F(ServerLiveTest, DrainLetsRunningStreamsFinish) {
  grpc::ClientContext context;
  v1::GenerateRequest request = AskForMuch("last");
  request.mutable_stopping()->set_max_tokens(3000);
  const auto reader = live_->inference().Generate(&context, request);
  ExpectRunning(*reader);
  v1::GenerateResponse message;
  live_->server().BeginDrain();
  const LiveServer::Result refused = live_->Generate(Ask("x", 1));
  EXPECT_EQ(refused.status.error_code(), grpc::UNAVAILABLE);
  EXPECT_EQ(ReasonIn(refused.status), "SERVER_DRAINING");
  bool finished = false;
  while (reader->Read(&message)) finished = message.has_finished();
  EXPECT_TRUE(finished);
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(live_->server().FinishDrain(absl::Seconds(30)), 0);
  live_->Stop();
}

// C10, after the grace period: the stream ends with a status that says so.
TEST_F(ServerLiveTest, DrainEndsWhatOutlivesTheGracePeriod) {
  grpc::ClientContext context;
  const auto reader = live_->inference().Generate(&context, AskForMuch("long"));
  ExpectRunning(*reader);
  v1::GenerateResponse message;
  live_->server().BeginDrain();
  EXPECT_EQ(live_->server().FinishDrain(absl::ZeroDuration()), 1);
  while (reader->Read(&message)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(status.error_message(), HasSubstr("grace period"));
}

// A server that goes without a drain cuts its calls and does not hang.
TEST_F(ServerLiveTest, StoppingAtOnceEndsCalls) {
  grpc::ClientContext context;
  const auto reader = live_->inference().Generate(&context, AskForMuch("cut"));
  ExpectRunning(*reader);
  v1::GenerateResponse message;
  std::thread stop([this] { live_->Stop(); });
  while (reader->Read(&message)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
  stop.join();
}

// The bad inputs of the field, as a client meets them: code, field, wanted and
// found; and the server goes on.
TEST_F(ServerLiveTest, BadInput) {
  struct Case {
    v1::GenerateRequest request;
    grpc::StatusCode code;
    const char* part;
  };
  std::deque<Case> cases;  // its elements stay where they are
  const auto add = [&cases](grpc::StatusCode code, const char* part) {
    cases.push_back({Ask("The", 1), code, part});
    return &cases.back().request;
  };
  add(grpc::INVALID_ARGUMENT, "found 40000")
      ->set_text(std::string(40000, '\x01'));
  add(grpc::INVALID_ARGUMENT, "at least 1 token, found 0")->set_text("");
  add(grpc::INVALID_ARGUMENT, "at least 1 token, found 0")->mutable_token_ids();
  add(grpc::INVALID_ARGUMENT, "token_ids.ids[0]")
      ->mutable_token_ids()
      ->add_ids(1u << 31);
  add(grpc::INVALID_ARGUMENT, "sampling.temperature")
      ->mutable_sampling()
      ->set_temperature(-1);
  add(grpc::NOT_FOUND, "no model \"m\" is")->set_model("m");
  add(grpc::INVALID_ARGUMENT, "sampling.n")->mutable_sampling()->set_n(0);
  add(grpc::INVALID_ARGUMENT, "stopping.strings[0]")
      ->mutable_stopping()
      ->add_strings("");
  add(grpc::UNIMPLEMENTED, "stopping.regexes")
      ->mutable_stopping()
      ->add_regexes("x");
  add(grpc::INVALID_ARGUMENT, "request_id")->set_request_id("a b");
  v1::GenerateRequest full = Ask("", 1);
  full.mutable_token_ids()->mutable_ids()->Resize(kContext, 70);
  cases.push_back({full, grpc::INVALID_ARGUMENT, "at most 32767 tokens"});
  for (const Case& c : cases) {
    const LiveServer::Result result = live_->Generate(c.request);
    EXPECT_EQ(result.status.error_code(), c.code)
        << c.part << ": " << result.status.error_message();
    EXPECT_THAT(result.status.error_message(), HasSubstr(c.part));
    EXPECT_FALSE(ReasonIn(result.status).empty());
  }
  EXPECT_TRUE(live_->Generate(Ask("The", 1)).status.ok());
  EXPECT_TRUE(Idle());
}

// CTX-2: the limit that is shown is the limit that holds.
TEST_F(ServerLiveTest, AdvertisedContextIsTheAdmissionLimit) {
  EngineOptions options;
  options.cache_blocks = 8;
  Start(options);
  grpc::ClientContext context;
  v1::GetModelResponse answer;
  ASSERT_TRUE(live_->inference().GetModel(&context, {}, &answer).ok());
  const int limit = answer.model().max_context();
  EXPECT_EQ(limit, 8 * 16);
  v1::GenerateRequest request = Ask("", 50);
  request.mutable_token_ids()->mutable_ids()->Resize(limit - 1, 70);
  const LiveServer::Result fits = live_->Generate(request);
  ASSERT_TRUE(fits.status.ok()) << fits.status.error_message();
  EXPECT_EQ(fits.finished().reason(), v1::FINISH_REASON_CONTEXT_FULL);
  request.mutable_token_ids()->mutable_ids()->Resize(limit, 70);
  const LiveServer::Result over = live_->Generate(request);
  EXPECT_EQ(over.status.error_code(), grpc::RESOURCE_EXHAUSTED)
      << "the model has room, the cache has not";
  EXPECT_THAT(over.status.error_message(), HasSubstr("found 128"));
  EXPECT_EQ(ReasonIn(over.status), "CACHE_TOO_SMALL");
  // However the server finds out.
  request.set_text(std::string(10000, '\x01'));
  EXPECT_EQ(live_->Generate(request).status.error_code(),
            grpc::RESOURCE_EXHAUSTED);
}

TEST_F(ServerLiveTest, TokenizeGivesWhatGenerateSees) {
  const std::string text = "The old caf\xc3\xa9 \xf0\x9f\x98\x8a";
  v1::TokenizeRequest request;
  request.set_text(text);
  request.set_with_offsets(true);
  request.set_with_text(true);
  grpc::ClientContext context;
  v1::TokenizeResponse answer;
  ASSERT_TRUE(live_->inference().Tokenize(&context, request, &answer).ok());
  ASSERT_EQ(answer.tokens_size(), answer.token_count());
  EXPECT_EQ(answer.max_context(), kContext);
  int offset = 0;
  for (const v1::Token& token : answer.tokens()) {
    EXPECT_EQ(token.start(), offset) << "no gap, no overlap";
    offset = token.end();
  }
  EXPECT_EQ(offset, static_cast<int>(text.size()));
  EXPECT_EQ(answer.tokens(0).text(), "The");
  EXPECT_EQ(Detokenize({answer.token_ids().begin(), answer.token_ids().end()}),
            text);
  EXPECT_EQ(live_->Generate(Ask(text, 1)).finished().usage().prompt_tokens(),
            answer.token_count());
  grpc::ClientContext bad_context;
  v1::DetokenizeRequest bad;
  bad.add_token_ids(100000);
  v1::DetokenizeResponse nothing;
  const grpc::Status status =
      live_->inference().Detokenize(&bad_context, bad, &nothing);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("token_ids[0]"));
}

// 64 clients at once: everyone gets the answer it would get alone.
TEST_F(ServerLiveTest, ManyClientsGetTheirOwnAnswers) {
  constexpr int kClients = 64;
  std::vector<v1::GenerateRequest> requests;
  std::vector<std::vector<uint32_t>> alone;
  for (int i = 0; i < kClients; ++i) {
    requests.push_back(Ask("alpha beta " + std::to_string(i), 16));
    requests.back().mutable_sampling()->set_seed(i);
    alone.push_back(live_->Generate(requests.back()).ids());
    requests.back().set_stream(i % 2 == 0);
  }
  std::vector<LiveServer::Result> together(kClients);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(
        [&, i] { together[i] = live_->Generate(requests[i]); });
  }
  for (std::thread& client : clients) client.join();
  for (int i = 0; i < kClients; ++i) {
    EXPECT_TRUE(together[i].status.ok()) << together[i].status.error_message();
    EXPECT_THAT(together[i].ids(), ElementsAreArray(alone[i])) << i;
  }
  EXPECT_TRUE(Eventually([this] { return Idle(); }));
}

}  // namespace
}  // namespace kvasir

// The limits of the server, as a client meets them: each is named, and nobody
// else notices.

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/prefix_order.h"
#include "httplib.h"
#include "server/request_codec.h"
#include "tests/server/live_server.h"
#include "tests/server/server_testing.h"
#include "tests/server/status_details.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

class LimitsLiveTest : public testing::Test {
 protected:
  void Serve(const ServerConfig& config) {
    live_ = std::make_unique<LiveServer>(config);
    auto backend = std::make_unique<FakeBackend>();
    backend_ = backend.get();
    live_->server().Serve(std::move(backend));
  }

  static v1::GenerateRequest Ask(const std::string& text,
                                 const std::string& salt = "") {
    v1::GenerateRequest request;
    request.set_text(text);
    request.set_stream(true);
    request.mutable_cache()->set_salt(salt);
    return request;
  }

  // A call that goes on until it is ended by EndAll().
  void Begin(const v1::GenerateRequest& request) {
    contexts_.push_back(std::make_unique<grpc::ClientContext>());
    readers_.push_back(
        live_->inference().Generate(contexts_.back().get(), request));
    backend_->sink(begun_++);
  }
  // Ends call `index`, and waits until its client has heard of it.
  void End(size_t index) {
    backend_->sink(index)->Push(FinishedEvent{});
    v1::GenerateResponse message;
    while (readers_[index]->Read(&message)) {
    }
    EXPECT_TRUE(readers_[index]->Finish().ok());
  }

  // The details of a call that is refused for the limit `option`.
  StatusDetails Refused(const v1::GenerateRequest& request,
                        const std::string& option) {
    grpc::ClientContext context;
    const LiveServer::Result result = live_->Generate(context, request);
    EXPECT_EQ(result.status.error_code(), grpc::RESOURCE_EXHAUSTED)
        << result.status.error_message();
    EXPECT_THAT(result.status.error_message(), HasSubstr(option));
    const StatusDetails details = DetailsOf(result.status);
    EXPECT_EQ(details.info.metadata().at("limit"), option);
    EXPECT_EQ(
        context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"),
        details.has("RetryInfo") ? 1u : 0u);
    return details;
  }

  std::string Metrics() {
    const HostPort& address = live_->server().metrics_address();
    const auto page =
        httplib::Client(address.host, address.port).Get("/metrics");
    return page ? page->body : "";
  }

  std::unique_ptr<LiveServer> live_;
  FakeBackend* backend_ = nullptr;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts_;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>>
      readers_;
  size_t begun_ = 0;
};

TEST_F(LimitsLiveTest, StreamsAreCountedOverAllClients) {
  ServerConfig config = LiveServer::Config();
  config.max_streams = 2;
  Serve(config);
  Begin(Ask("a"));
  Begin(Ask("b"));
  const StatusDetails details = Refused(Ask("c"), "server.max_streams");
  EXPECT_EQ(details.info.reason(), "TOO_MANY_STREAMS");
  EXPECT_EQ(details.quota.violations(0).quota_value(), 2);
  EXPECT_TRUE(details.has("RetryInfo"));
  End(0);
  EXPECT_TRUE(Eventually([this] {
    grpc::ClientContext context;
    const auto reader = live_->inference().Generate(&context, Ask("d"));
    context.TryCancel();
    return reader->Finish().error_code() == grpc::CANCELLED;
  })) << "its place is free again";
  End(1);
  EXPECT_THAT(Metrics(), HasSubstr("kvasir_limit_refusals_total{limit="
                                   "\"server.max_streams\"}"));
}

TEST_F(LimitsLiveTest, TenantsMeetTheirOwnLimits) {
  ServerConfig config = LiveServer::Config();
  config.tenant_limits = {{"blue", 1, 0}, {"*", 0, 600}};
  Serve(config);
  Begin(Ask("a", "blue"));
  const StatusDetails busy = Refused(Ask("b", "blue"), "server.tenant_limits");
  EXPECT_EQ(busy.info.reason(), "TENANT_LIMIT");
  EXPECT_EQ(busy.quota.violations(0).subject(), "tenant:blue");
  EXPECT_EQ(busy.quota.violations(0).quota_metric(), "requests_in_flight");
  Begin(Ask("c", "green"));
  backend_->sink(1)->Push(
      DeltaEvent{.token_ids = std::vector<TokenId>(1000, 5), .text = "x"});
  const StatusDetails spent =
      Refused(Ask("d", "green"), "server.tenant_limits");
  EXPECT_EQ(spent.quota.violations(0).quota_metric(), "tokens_per_minute");
  EXPECT_GT(spent.retry.retry_delay().seconds(), 10)
      << "400 tokens of debt at ten a second";
  Begin(Ask("e", "red"));
  for (size_t i = 0; i < begun_; ++i) End(i);
}

// A tenant pays for prompts that are computed. Whatever comes between, its
// tokens come back before the client can ask again.
TEST_F(LimitsLiveTest, PromptsThatComeToNothingCostNothing) {
  ServerConfig config = LiveServer::Config();
  // Each prompt needs more than half of it.
  config.tenant_limits = {{"blue", 0, 300}};
  Serve(config);
  v1::GenerateRequest request = Ask("", "blue");
  request.mutable_token_ids()->mutable_ids()->Resize(200, 7);
  request.set_request_id("prompt");

  backend_->submit_status = absl::UnavailableError("no");
  EXPECT_EQ(live_->Generate(request).status.error_code(), grpc::UNAVAILABLE);
  backend_->submit_status = absl::OkStatus();
  // Ended while it waits for its turn.
  Begin(request);
  FinishedEvent cancelled;
  cancelled.status = absl::CancelledError("by an operator");
  backend_->sink(0)->Push(cancelled);
  EXPECT_EQ(readers_[0]->Finish().error_code(), grpc::CANCELLED);
  // Its time is over then.
  Begin(request);
  FinishedEvent late;
  late.reason = FinishReason::kTimeLimit;
  backend_->sink(1)->Push(late);
  v1::GenerateResponse message;
  while (readers_[1]->Read(&message)) {
  }
  EXPECT_TRUE(readers_[1]->Finish().ok());
  // The client leaves; the engine has not heard of it.
  Begin(request);
  contexts_[2]->TryCancel();
  EXPECT_EQ(readers_[2]->Finish().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(Eventually([this] { return !backend_->cancelled().empty(); }));
  backend_->sink(2)->Push(cancelled);
  // Another one has the id.
  request.mutable_cache()->set_salt("");
  Begin(request);
  request.mutable_cache()->set_salt("blue");
  EXPECT_EQ(live_->Generate(request).status.error_code(), grpc::ALREADY_EXISTS);
  End(3);
  // Computed.
  Begin(request);
  backend_->sink(4)->Push(AcceptedEvent{200, 0, "v"});
  End(4);
  Refused(request, "server.tenant_limits");
}

// SRV-4: below the limit of a message a prompt may be too long, above it the
// message is; the option is named, and other calls go on.
TEST_F(LimitsLiveTest, MessagesAreTooLargeByName) {
  ServerConfig config = LiveServer::Config();
  config.max_message_bytes = 8 << 20;
  Serve(config);
  Begin(Ask("other"));
  LiveServer::Result result = live_->Generate(Ask(std::string(5 << 20, 'x')));
  EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(result.status.error_message(), HasSubstr("4194304 bytes"));
  v1::GenerateRequest ids = Ask("");
  ids.mutable_token_ids()->mutable_ids()->Resize(3'000'000, 7);
  result = live_->Generate(ids);
  EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonIn(result.status), "CONTEXT_LENGTH_EXCEEDED");
  for (const size_t megabytes : {9, 64, 200}) {
    const StatusDetails details =
        Refused(Ask(std::string(megabytes << 20, 'x')), "server.max_message");
    EXPECT_EQ(details.info.reason(), "MESSAGE_TOO_LARGE");
    EXPECT_EQ(details.quota.violations(0).quota_value(), 8 << 20);
    EXPECT_FALSE(details.has("RetryInfo")) << "it will not shrink";
  }
  v1::TokenizeRequest tokenize;
  tokenize.set_text(std::string(9 << 20, 'x'));
  grpc::ClientContext context;
  v1::TokenizeResponse answer;
  const grpc::Status status =
      live_->inference().Tokenize(&context, tokenize, &answer);
  EXPECT_EQ(ReasonIn(status), "MESSAGE_TOO_LARGE") << status.error_message();
  End(0);
}

TEST_F(LimitsLiveTest, LabelsAreBounded) {
  Serve(LiveServer::Config());
  const auto refused = [this](const v1::GenerateRequest& request) {
    const LiveServer::Result result = live_->Generate(request);
    EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT);
    return DetailsOf(result.status).bad.field_violations(0).field();
  };
  v1::GenerateRequest request = Ask("x");
  (*request.mutable_labels())["k"] = std::string(kMaxLabelBytes + 1, 'v');
  EXPECT_EQ(refused(request), "labels");
  request = Ask("x");
  (*request.mutable_labels())[std::string(kMaxLabelBytes + 1, 'k')] = "some";
  EXPECT_EQ(refused(request), "labels");
  request = Ask("x");
  (*request.mutable_labels())[""] = "none";
  EXPECT_EQ(refused(request), "labels");
  request = Ask("x");
  for (int i = 0; i <= kMaxLabels; ++i) {
    (*request.mutable_labels())[std::to_string(i)] = "some";
  }
  EXPECT_EQ(refused(request), "labels");
  request.mutable_labels()->erase("0");
  Begin(request);
  End(0);
}

// Calls that have one answer tell whose they are and when to try again, too.
TEST_F(LimitsLiveTest, UnaryErrorsCarryTheRequestId) {
  Serve(LiveServer::Config());
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "from-proxy");
  v1::GetModelRequest request;
  request.set_model("other");
  v1::GetModelResponse answer;
  const StatusDetails details =
      DetailsOf(live_->inference().GetModel(&context, request, &answer));
  EXPECT_EQ(details.request.request_id(), "from-proxy");
  EXPECT_EQ(details.resource.resource_type(), "model");
  EXPECT_EQ(details.resource.resource_name(), "other");
}

// One line for each request, also for those that were refused.
TEST_F(LimitsLiveTest, EachRequestHasItsLogLine) {
  ServerConfig config = LiveServer::Config();
  config.logged_prompt_ratio = 1;
  Serve(config);
  testing::internal::CaptureStderr();
  v1::GenerateRequest request = Ask("what\nis it", "blue");
  request.set_request_id("mine");
  (*request.mutable_labels())["app"] = "demo";
  contexts_.push_back(std::make_unique<grpc::ClientContext>());
  contexts_[0]->AddMetadata(
      "traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  readers_.push_back(live_->inference().Generate(contexts_[0].get(), request));
  backend_->sink(begun_++)->Push(AcceptedEvent{10, 4, "v"});
  backend_->sink(0)->Push(DeltaEvent{.token_ids = {1, 2}, .text = "x"});
  End(0);
  request.set_request_id("bad id");
  live_->Generate(request);
  live_->Stop();  // which waits for the last words of all calls
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, HasSubstr(absl::StrCat("request ended id=mine tenant=",
                                            HashSalt("blue"), " model=tiny")));
  EXPECT_THAT(lines, HasSubstr("trace=4bf92f3577b34da6a3ce929d0e0e4736 "
                               "label.app=demo prompt_tokens="));
  EXPECT_THAT(lines, HasSubstr("cached_tokens=4 completion_tokens=2 "
                               "finish=eos queue_seconds="));
  EXPECT_THAT(lines, HasSubstr("prompt=\"what\\nis it\""));
  EXPECT_THAT(lines, HasSubstr("request ended code=INVALID_ARGUMENT"));
}

TEST_F(LimitsLiveTest, PromptsAreNotLoggedUnlessAskedFor) {
  Serve(LiveServer::Config());
  testing::internal::CaptureStderr();
  Begin(Ask("secret words"));
  End(0);
  live_->Stop();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("request ended"),
                             testing::Not(HasSubstr("secret"))));
}

TEST_F(LimitsLiveTest, OperatorsChangesAreLoggedAndCounted) {
  Serve(LiveServer::Config());
  testing::internal::CaptureStderr();
  v1::PinPrefixRequest pin;
  pin.set_prefix_id("00ff");
  v1::PinPrefixResponse pinned;
  grpc::ClientContext pin_context;
  EXPECT_TRUE(live_->admin().PinPrefix(&pin_context, pin, &pinned).ok());
  v1::EvictPrefixesRequest evict;
  v1::EvictPrefixesResponse evicted;
  grpc::ClientContext evict_context;
  EXPECT_FALSE(
      live_->admin().EvictPrefixes(&evict_context, evict, &evicted).ok());
  v1::ListPrefixesResponse listed;
  grpc::ClientContext list_context;
  EXPECT_TRUE(live_->admin().ListPrefixes(&list_context, {}, &listed).ok());
  const std::string metrics = Metrics();
  live_->Stop();
  const std::string lines = testing::internal::GetCapturedStderr();
  EXPECT_THAT(lines, HasSubstr("op=pin who=anonymous what=prefix_id=00ff "
                               "code=OK"));
  EXPECT_THAT(lines, HasSubstr("op=evict who=anonymous what=\"\" "
                               "code=INVALID_ARGUMENT"));
  EXPECT_THAT(lines, testing::Not(HasSubstr("List")));
  for (const char* sample :
       {"op=\"pin\",result=\"ok\"} 1\n", "op=\"evict\",result=\"error\"} 1\n",
        "op=\"unpin\",result=\"ok\"} 0\n"}) {
    EXPECT_THAT(metrics, HasSubstr(sample));
  }
}

}  // namespace
}  // namespace kvasir

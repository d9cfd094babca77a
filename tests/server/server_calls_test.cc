// Calls to a live server whose engine is a stand-in: what is rare with a real
// one happens here on demand.

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "grpc/health/v1/health.grpc.pb.h"
#include "httplib.h"
#include "server/call_stats.h"
#include "tests/server/live_server.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
namespace health = ::grpc::health::v1;

class ServerCallsTest : public testing::Test {
 protected:
  void Serve() {
    auto backend = std::make_unique<FakeBackend>();
    backend_ = backend.get();
    live_.server().Serve(std::move(backend));
  }

  health::HealthCheckResponse::ServingStatus Health(
      const std::string& service) {
    grpc::ClientContext context;
    health::HealthCheckRequest request;
    request.set_service(service);
    health::HealthCheckResponse answer;
    const grpc::Status status = health::Health::NewStub(live_.channel())
                                    ->Check(&context, request, &answer);
    return status.ok() ? answer.status()
                       : health::HealthCheckResponse::SERVICE_UNKNOWN;
  }

  std::string Http(const std::string& path, int want_status) {
    httplib::Client client(live_.server().metrics_address().host,
                           live_.server().metrics_address().port);
    const auto result = client.Get(path.c_str());
    if (!result) return "no answer";
    EXPECT_EQ(result->status, want_status) << path;
    return result->body;
  }

  static v1::GenerateRequest Ask(const std::string& text) {
    v1::GenerateRequest request;
    request.set_text(text);
    request.set_stream(true);
    return request;
  }

  LiveServer live_;
  FakeBackend* backend_ = nullptr;
};

// SRV-5: nothing is promised before a token can be made, and nothing hangs.
TEST_F(ServerCallsTest, NotServingWhileLoading) {
  for (const char* service :
       {"", "kvasir.v1.Inference", "kvasir.v1.CacheAdmin"}) {
    EXPECT_EQ(Health(service), health::HealthCheckResponse::NOT_SERVING);
  }
  EXPECT_EQ(Health("liveness"), health::HealthCheckResponse::SERVING);
  EXPECT_EQ(Health("nobody"), health::HealthCheckResponse::SERVICE_UNKNOWN);
  live_.server().SetLoadProgress(30, 120);
  grpc::ClientContext context;
  const LiveServer::Result result = live_.Generate(context, Ask("x"));
  EXPECT_EQ(result.status.error_code(), grpc::UNAVAILABLE);
  EXPECT_THAT(result.status.error_message(), HasSubstr("25%"));
  EXPECT_EQ(ReasonIn(result.status), "MODEL_LOADING");
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"),
            1u);
  EXPECT_THAT(Http("/readyz", 503), HasSubstr("loading"));
  EXPECT_EQ(Http("/livez", 200), "ok\n");
  grpc::ClientContext status_context;
  v1::GetServerStatusResponse answer;
  ASSERT_TRUE(
      live_.inference().GetServerStatus(&status_context, {}, &answer).ok());
  EXPECT_EQ(answer.state(), v1::SERVER_STATE_LOADING);
  EXPECT_EQ(answer.load_done_bytes(), 30);

  Serve();
  for (const char* service :
       {"", "kvasir.v1.Inference", "kvasir.v1.CacheAdmin"}) {
    EXPECT_EQ(Health(service), health::HealthCheckResponse::SERVING);
  }
  EXPECT_EQ(Http("/readyz", 200), "ok\n");
  EXPECT_EQ(Http("/healthz", 200), "ok\n");
  EXPECT_THAT(Http("/metrics", 200), HasSubstr("kvasir_requests_running"));
  Http("/nothing", 404);
}

TEST_F(ServerCallsTest, HealthFollowsTheEngine) {
  Serve();
  EngineStats sick;
  sick.healthy = false;
  backend_->SetStats(sick);
  EXPECT_TRUE(Eventually([this] {
    return Health("") == health::HealthCheckResponse::NOT_SERVING;
  }));
  EXPECT_EQ(Health("liveness"), health::HealthCheckResponse::SERVING);
  backend_->SetStats({});
  EXPECT_TRUE(Eventually(
      [this] { return Health("") == health::HealthCheckResponse::SERVING; }));
}

// Health's stream is what a gRPC client's own health checks listen to.
TEST_F(ServerCallsTest, HealthWatchersHearOfTheChange) {
  grpc::ClientContext context;
  const auto stub = health::Health::NewStub(live_.channel());
  const auto reader = stub->Watch(&context, {});
  health::HealthCheckResponse answer;
  ASSERT_TRUE(reader->Read(&answer));
  EXPECT_EQ(answer.status(), health::HealthCheckResponse::NOT_SERVING);
  Serve();
  ASSERT_TRUE(reader->Read(&answer));
  EXPECT_EQ(answer.status(), health::HealthCheckResponse::SERVING);
  live_.server().BeginDrain();
  ASSERT_TRUE(reader->Read(&answer));
  EXPECT_EQ(answer.status(), health::HealthCheckResponse::NOT_SERVING);
  context.TryCancel();
}

// Every method that is not built says so by its name, in both services.
TEST_F(ServerCallsTest, UnbuiltMethodsAreRefusedByName) {
  Serve();
  const std::set<std::string> built = {"Generate",
                                       "CancelGeneration",
                                       "Tokenize",
                                       "Detokenize",
                                       "ListModels",
                                       "GetModel",
                                       "GetServerStatus",
                                       "GetCacheStats",
                                       "FlushCache",
                                       "ResizeCache",
                                       "ListPrefixes",
                                       "GetPrefix",
                                       "PinPrefix",
                                       "UnpinPrefix",
                                       "EvictPrefixes",
                                       "WarmCache",
                                       "ListCacheVersions",
                                       "CreateCacheVersion",
                                       "ActivateCacheVersion",
                                       "RollbackCacheVersion",
                                       "DeleteCacheVersion"};
  int refused = 0;
  for (const std::string& method : MethodNames()) {
    if (built.contains(method.substr(method.find('/') + 1))) continue;
    const grpc::Status status = live_.CallWithBytes(method, "");
    EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED) << method;
    EXPECT_THAT(status.error_message(), HasSubstr(method));
    EXPECT_EQ(ReasonIn(status), "NOT_IMPLEMENTED");
    ++refused;
  }
  EXPECT_EQ(refused, 7);
}

// Unpacked before its size is looked at, a small message could take any amount
// of memory.
TEST_F(ServerCallsTest, CompressedRequestsAreRefused) {
  Serve();
  for (const grpc_compression_algorithm packed :
       {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    context.set_compression_algorithm(packed);
    const LiveServer::Result result =
        live_.Generate(context, Ask(std::string(5000, 'a')));
    EXPECT_EQ(result.status.error_code(), grpc::UNIMPLEMENTED);
    EXPECT_THAT(result.status.error_message(), HasSubstr("is disabled"));
  }
}

TEST_F(ServerCallsTest, RefusalsOfTheEngineReachTheClient) {
  Serve();
  backend_->submit_status =
      absl::ResourceExhaustedError("inbox_limit: 3 requests wait, at most 3");
  grpc::ClientContext context;
  const LiveServer::Result full = live_.Generate(context, Ask("x"));
  EXPECT_EQ(full.status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonIn(full.status), "QUEUE_FULL");
  const auto& trailers = context.GetServerTrailingMetadata();
  EXPECT_EQ(trailers.count("grpc-retry-pushback-ms"), 1u);
  EXPECT_EQ(trailers.count("x-request-id"), 1u);
}

// What never reaches the engine is refused all the same: the engine's counter
// of a drain, for one, never saw a call.
TEST_F(ServerCallsTest, RefusalsAreCountedByReason) {
  live_.Generate(Ask("while loading"));
  Serve();
  v1::GenerateRequest request = Ask("x");
  request.set_model("other");
  live_.Generate(request);
  request = Ask("x");
  request.mutable_sampling()->set_n(0);
  live_.Generate(request);
  live_.CallWithBytes("kvasir.v1.Inference/Generate", "\xff");
  request.mutable_token_ids()->add_ids(1u << 31);
  request.clear_sampling();
  live_.Generate(request);
  live_.server().BeginDrain();
  live_.Generate(Ask("x"));
  const std::string metrics = Http("/metrics", 200);
  const auto count = [&metrics](const std::string& reason) {
    return "kvasir_requests_rejected_total{model_name=\"tiny\",reason=\"" +
           reason + "\"} ";
  };
  EXPECT_THAT(metrics, HasSubstr(count("invalid") + "4\n"));
  EXPECT_THAT(metrics, HasSubstr(count("draining") + "1\n"));
  EXPECT_THAT(metrics, HasSubstr(count("queue_full") + "0\n"));
}

TEST_F(ServerCallsTest, RequestIdFromMetadataIsEchoed) {
  Serve();
  backend_->submit_status = absl::NotFoundError("x");
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "from-proxy");
  live_.Generate(context, Ask("x"));
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto it = trailers.find("x-request-id");
  ASSERT_NE(it, trailers.end());
  EXPECT_EQ(it->second, "from-proxy");
}

// The engine must learn that nobody listens any more: it holds memory.
TEST_F(ServerCallsTest, CancelledCallIsCancelledInTheEngine) {
  Serve();
  v1::GenerateRequest request = Ask("x");
  request.set_request_id("mine");
  grpc::ClientContext context;
  const auto reader = live_.inference().Generate(&context, request);
  const std::shared_ptr<TokenSink> sink = backend_->sink(0);
  EXPECT_TRUE(sink->Push(AcceptedEvent{1, 0, "v"}));
  v1::GenerateResponse message;
  ASSERT_TRUE(reader->Read(&message));
  EXPECT_EQ(message.request_id(), "mine");
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(Eventually([this] { return !backend_->cancelled().empty(); }));
  EXPECT_THAT(backend_->cancelled(), testing::ElementsAre("mine"));
  EXPECT_FALSE(sink->Push(DeltaEvent{.token_ids = {1}, .text = "late"}))
      << "nobody reads";
  FinishedEvent last;
  last.status = absl::CancelledError("x");
  sink->Push(last);
}

// The engine frees an id before the old call hears of its end; a retry with the
// same id was killed by the old call's cancelling.
TEST_F(ServerCallsTest, AnIdIsFreeWhenItsCallHasHeardOfTheEnd) {
  Serve();
  v1::GenerateRequest request = Ask("x");
  request.set_request_id("again");
  grpc::ClientContext old_context;
  const auto old_call = live_.inference().Generate(&old_context, request);
  std::shared_ptr<TokenSink> old_sink = backend_->sink(0);
  const LiveServer::Result second = live_.Generate(request);
  EXPECT_EQ(second.status.error_code(), grpc::ALREADY_EXISTS);
  EXPECT_EQ(ReasonIn(second.status), "REQUEST_ID_IN_FLIGHT");
  EXPECT_THAT(Http("/metrics", 200),
              HasSubstr("kvasir_requests_rejected_total{model_name=\"tiny\","
                        "reason=\"invalid\"} 1\n"));
  EXPECT_THAT(backend_->cancelled(), testing::IsEmpty())
      << "what is refused ends nobody";
  FinishedEvent last;
  last.status = absl::CancelledError("x");
  old_sink->Push(last);
  grpc::ClientContext context;
  const auto call = live_.inference().Generate(&context, request);
  const std::shared_ptr<TokenSink> sink = backend_->sink(1);
  old_context.TryCancel();
  EXPECT_EQ(old_call->Finish().error_code(), grpc::CANCELLED);
  EXPECT_THAT(backend_->cancelled(), testing::IsEmpty());
  // It is still its own id's owner.
  context.TryCancel();
  EXPECT_TRUE(Eventually([this] { return !backend_->cancelled().empty(); }));
  sink->Push(FinishedEvent{});
}

TEST_F(ServerCallsTest, AnIdThatTheEngineRefusedIsFree) {
  Serve();
  v1::GenerateRequest request = Ask("x");
  request.set_request_id("again");
  backend_->submit_status = absl::NotFoundError("x");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(live_.Generate(request).status.error_code(), grpc::NOT_FOUND);
  }
}

// The engine checks what it is given, which takes its time; calls must not
// queue for that behind one lock.
TEST_F(ServerCallsTest, TheEngineIsGivenRequestsOfManyThreads) {
  Serve();
  std::atomic<int> inside = 0;
  std::atomic<int> met = 0;
  backend_->on_submit = [&] {
    ++inside;
    if (Eventually([&] { return inside == 2; })) ++met;
  };
  grpc::ClientContext contexts[2];
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> calls;
  for (grpc::ClientContext& context : contexts) {
    calls.push_back(live_.inference().Generate(&context, Ask("x")));
  }
  for (size_t i = 0; i < 2; ++i) {
    backend_->sink(i)->Push(FinishedEvent{});
  }
  for (const auto& call : calls) {
    v1::GenerateResponse message;
    while (call->Read(&message)) {
    }
    EXPECT_TRUE(call->Finish().ok());
  }
  EXPECT_EQ(met, 2);
}

TEST_F(ServerCallsTest, ModelsAndTheirPages) {
  Serve();
  const auto list = [this](const v1::ListModelsRequest& request,
                           v1::ListModelsResponse& answer) {
    grpc::ClientContext context;
    return live_.inference().ListModels(&context, request, &answer);
  };
  v1::ListModelsRequest request;
  v1::ListModelsResponse models;
  ASSERT_TRUE(list(request, models).ok());
  ASSERT_EQ(models.models_size(), 1);
  EXPECT_EQ(models.models(0).name(), "tiny");
  EXPECT_EQ(models.models(0).max_context(), 256);
  EXPECT_EQ(models.models(0).state(), v1::MODEL_STATE_READY);
  EXPECT_EQ(models.models(0).kv_dtype(), v1::KV_DTYPE_F16);
  EXPECT_EQ(models.next_page_token(), "");
  request.set_page_size(-1);
  EXPECT_EQ(list(request, models).error_code(), grpc::INVALID_ARGUMENT);
  request.set_page_size(1000);
  EXPECT_TRUE(list(request, models).ok()) << "lowered, as documented";
  request.set_page_token("x");
  EXPECT_EQ(list(request, models).error_code(), grpc::INVALID_ARGUMENT);
  grpc::ClientContext context;
  v1::GetModelRequest get;
  get.set_model("other");
  v1::GetModelResponse model;
  EXPECT_EQ(live_.inference().GetModel(&context, get, &model).error_code(),
            grpc::NOT_FOUND);
}

TEST_F(ServerCallsTest, FlushScopes) {
  Serve();
  const auto flush = [this](const v1::FlushCacheRequest& request) {
    grpc::ClientContext context;
    v1::FlushCacheResponse answer;
    const grpc::Status status =
        live_.admin().FlushCache(&context, request, &answer);
    if (status.ok()) {
      EXPECT_EQ(answer.freed_blocks(), 3);
      EXPECT_EQ(answer.freed_bytes(), 4096);
    }
    return status.error_code();
  };
  v1::FlushCacheRequest request;
  EXPECT_EQ(flush(request), grpc::OK);
  request.set_scope(v1::FLUSH_SCOPE_MODEL);
  request.set_value("tiny");
  EXPECT_EQ(flush(request), grpc::OK);
  EXPECT_EQ(backend_->selection().model, "tiny");
  request.set_value("other");
  EXPECT_EQ(flush(request), grpc::NOT_FOUND);
  request.set_scope(v1::FLUSH_SCOPE_ALL);
  EXPECT_EQ(flush(request), grpc::INVALID_ARGUMENT) << "a value without a use";
  request.clear_value();
  request.set_scope(v1::FLUSH_SCOPE_SALT);
  EXPECT_EQ(flush(request), grpc::OK);
  EXPECT_EQ(backend_->selection().salt, "") << "the empty salt is one";
  request.set_scope(v1::FLUSH_SCOPE_VERSION);
  EXPECT_EQ(flush(request), grpc::INVALID_ARGUMENT) << "which one?";
  request.set_value(backend_->info().cache_fingerprint);
  EXPECT_EQ(flush(request), grpc::OK);
  EXPECT_EQ(backend_->selection().version, backend_->info().cache_version);
  request.clear_value();
  request.set_scope(v1::FLUSH_SCOPE_SESSION);
  EXPECT_EQ(flush(request), grpc::UNIMPLEMENTED);
  request.set_scope(v1::FLUSH_SCOPE_ALL);
  request.add_tiers(v1::CACHE_TIER_DISK);
  EXPECT_EQ(flush(request), grpc::UNIMPLEMENTED);
  request.clear_tiers();
  request.mutable_wait()->set_seconds(601);
  EXPECT_EQ(flush(request), grpc::INVALID_ARGUMENT);
  request.mutable_wait()->set_seconds(0);
  EXPECT_EQ(flush(request), grpc::OK);
}

// One operator waits for a quiet moment, ten minutes if need be; another has
// none of that.
TEST_F(ServerCallsTest, FlushThatWaitsHoldsUpNobody) {
  Serve();
  backend_->busy = true;
  v1::FlushCacheRequest patient;
  patient.mutable_wait()->set_seconds(600);
  const auto begin = [this, &patient](grpc::ClientContext& context,
                                      grpc::CompletionQueue& queue) {
    return live_.admin().AsyncFlushCache(&context, patient, &queue);
  };
  grpc::CompletionQueue queue;
  grpc::ClientContext contexts[2];
  v1::FlushCacheResponse answers[2];
  grpc::Status ends[2];
  std::vector<decltype(begin(contexts[0], queue))> waiting;
  for (int i = 0; i < 2; ++i) {
    waiting.push_back(begin(contexts[i], queue));
    waiting[i]->Finish(&answers[i], &ends[i], &ends[i]);
  }
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    v1::FlushCacheResponse answer;
    EXPECT_TRUE(live_.admin().FlushCache(&context, {}, &answer).ok());
  }
  contexts[0].TryCancel();
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_EQ(tag, &ends[0]);
  EXPECT_EQ(ends[0].error_code(), grpc::CANCELLED);
  backend_->busy = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  EXPECT_TRUE(ends[1].ok()) << ends[1].error_message();
  EXPECT_EQ(answers[1].freed_blocks(), 3);
}

// C5 begins where the request is tokenised: the engine must get the very
// version that did it.
TEST_F(ServerCallsTest, TheEngineGetsTheVersionThatTokenised) {
  Serve();
  backend_->SetMaxContext(1 << 20);
  backend_->AddVersion("green", VersionState::kServing);
  std::vector<std::thread> calls;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  for (const std::string& text : {std::string("x"), std::string(20000, 'x')}) {
    v1::GenerateRequest request = Ask(text);
    request.mutable_cache()->set_version("green");
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    calls.emplace_back([this, request, context = contexts.back().get()] {
      live_.Generate(*context, request);
    });
    backend_->sink(contexts.size() - 1);
  }
  EXPECT_THAT(backend_->request_versions(),
              testing::ElementsAre("green", "green"));
  for (const auto& context : contexts) context->TryCancel();
  for (std::thread& call : calls) call.join();
  backend_->DropSinks();
}

TEST_F(ServerCallsTest, AVersionIsMadeWithReportsAndAnEnd) {
  Serve();
  v1::CreateCacheVersionRequest request;
  request.set_label("green");
  request.set_model_path("/models/green.gguf");
  grpc::ClientContext context;
  const auto reader = live_.admin().CreateCacheVersion(&context, request);
  ASSERT_TRUE(Eventually([this] { return backend_->order().sink != nullptr; }));
  const VersionOrder order = backend_->order();
  EXPECT_EQ(order.label, "green");
  EXPECT_EQ(order.path, "/models/green.gguf");
  EXPECT_TRUE(order.sink->OnProgress({.done = 10, .total = 40}));
  v1::CreateCacheVersionResponse report;
  ASSERT_TRUE(reader->Read(&report));
  EXPECT_EQ(report.progress().phase(), "loading");
  EXPECT_EQ(report.progress().done_count(), 10);
  EXPECT_EQ(report.progress().total_count(), 40);
  EXPECT_FALSE(report.has_version());
  EXPECT_TRUE(order.sink->OnProgress({.done = 11, .total = 40}))
      << "too soon to be told";
  order.sink->OnEnd(absl::OkStatus(),
                    backend_->AddVersion("green", VersionState::kServing));
  ASSERT_TRUE(reader->Read(&report));
  EXPECT_EQ(report.progress().phase(), "done");
  EXPECT_EQ(report.version().label(), "green");
  EXPECT_EQ(report.version().state(), v1::CACHE_VERSION_STATE_SERVING);
  EXPECT_FALSE(reader->Read(&report));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(ServerCallsTest, AVersionThatFailsTellsWhyWithoutItsPath) {
  Serve();
  grpc::ClientContext context;
  const auto reader = live_.admin().CreateCacheVersion(&context, {});
  ASSERT_TRUE(Eventually([this] { return backend_->order().sink != nullptr; }));
  backend_->order().sink->OnEnd(
      absl::InvalidArgumentError("/secret/place/m.gguf: tensors: wanted 3"),
      VersionInfo());
  v1::CreateCacheVersionResponse report;
  EXPECT_FALSE(reader->Read(&report));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "m.gguf: tensors: wanted 3");
}

// The engine hears of a client that has left with its next report.
TEST_F(ServerCallsTest, AVersionIsGivenUpWithItsCall) {
  Serve();
  grpc::ClientContext context;
  const auto reader = live_.admin().CreateCacheVersion(&context, {});
  ASSERT_TRUE(Eventually([this] { return backend_->order().sink != nullptr; }));
  const std::shared_ptr<VersionSink> sink = backend_->order().sink;
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(Eventually([&sink] { return !sink->OnProgress({}); }));
  sink->OnEnd(absl::CancelledError("given up"), VersionInfo());
}

TEST_F(ServerCallsTest, VersionsAreRefusedAsTheEngineSays) {
  v1::CreateCacheVersionResponse report;
  grpc::ClientContext loading;
  EXPECT_EQ(
      live_.admin().CreateCacheVersion(&loading, {})->Finish().error_code(),
      grpc::UNAVAILABLE);
  Serve();
  backend_->move_status = absl::FailedPreconditionError("another is made");
  grpc::ClientContext create;
  EXPECT_EQ(
      live_.admin().CreateCacheVersion(&create, {})->Finish().error_code(),
      grpc::FAILED_PRECONDITION);
  grpc::ClientContext roll_back;
  v1::RollbackCacheVersionResponse answer;
  const grpc::Status status =
      live_.admin().RollbackCacheVersion(&roll_back, {}, &answer);
  EXPECT_EQ(status.error_code(), grpc::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(), "another is made");
  EXPECT_EQ(backend_->moves().size(), 1u);
}

}  // namespace
}  // namespace kvasir

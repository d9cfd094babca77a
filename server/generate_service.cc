#include "server/generate_service.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/clock.h"
#include "cache/base/status_macros.h"
#include "server/call_metadata.h"
#include "server/cancel_call.h"
#include "server/chat_codec.h"
#include "server/model_codec.h"
#include "server/request_codec.h"
#include "server/request_log.h"
#include "server/tokenize_codec.h"
#include "server/trace_context.h"
#include "server/unary_call.h"
#include "server/version_choice.h"

namespace kvasir {
namespace {

// What takes well below a millisecond is done where the call arrives; more
// would keep a thread from every stream that needs it.
constexpr size_t kInlineWorkBytes = 16 << 10;
constexpr int kInlineTokenIds = 4 << 10;

uint64_t RandomBits() {
  thread_local absl::BitGen generator;
  return absl::Uniform<uint64_t>(generator);
}

std::string MakeRequestId() {
  return absl::StrCat("req-", absl::Hex(RandomBits(), absl::kZeroPad16));
}

// The call's deadline as steady time.
absl::Duration SteadyDeadline(const grpc::CallbackServerContext& context,
                              absl::Duration now) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) {
    return absl::InfiniteDuration();
  }
  return now + absl::FromChrono(deadline - std::chrono::system_clock::now());
}

bool TakesLong(const v1::TokenizeRequest& request) {
  const size_t bytes =
      request.has_chat() ? WorkBytes(request.chat()) : request.text().size();
  return bytes > kInlineWorkBytes;
}

bool TakesLong(const v1::DetokenizeRequest& request) {
  return request.token_ids_size() > kInlineTokenIds;
}

// Answers a call to the tokenizer with `answer(request, model)`; from `work` if
// it takes long.
template <typename Request, typename Answer>
grpc::ServerUnaryReactor* AnswerWithTokenizer(UnaryCall call,
                                              const grpc::ByteBuffer& wire,
                                              const ServerState& state,
                                              WorkPool& work, Answer answer) {
  const auto start = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state.Loaded());
    ASSIGN_OR_RETURN(Request parsed, state.Parse<Request>(wire));
    ASSIGN_OR_RETURN(std::shared_ptr<const ServedVersion> version,
                     ChooseVersion(*backend, parsed.model(), ""));
    const ServedModel model = ModelOf(*version);
    RETURN_IF_ERROR(CheckInput(parsed, model));
    const bool takes_long = TakesLong(parsed);
    const auto request = std::make_shared<const Request>(std::move(parsed));
    auto task = [call, version = std::move(version), model, request,
                 answer]() mutable {
      if (call.cancelled()) {
        call.Finish(absl::CancelledError("the call was cancelled"));
      } else {
        call.Finish(answer(*request, model));
      }
    };
    if (takes_long) return work.Post(std::move(task));
    task();
    return absl::OkStatus();
  };
  if (const absl::Status status = start(); !status.ok()) call.Finish(status);
  return call.reactor();
}

// A checked request to generate, on its way to the engine.
struct PendingCall {
  std::shared_ptr<GenerateReactor> reactor;
  CallStats* stats = nullptr;
  GenerationBackend* backend = nullptr;
  v1::GenerateRequest request;
  GenerateCall call;
  std::string engine_id;  // see Caller::EngineId()
};

// Tokenises the prompt, and hands the call to the engine.
void TokeniseAndSubmit(PendingCall& pending) {
  if (pending.reactor->ended()) return;  // while it waited
  const absl::Status done = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(TruncatedPrompt prompt,
                     DecodePrompt(pending.request, pending.call,
                                  ModelOf(*pending.call.request.version),
                                  [&] { return pending.reactor->ended(); }));
    pending.call.request.prompt = std::move(prompt.ids);
    pending.call.truncated_tokens = prompt.dropped_tokens;
    return pending.reactor->TakePrompt(
        static_cast<int64_t>(pending.call.request.prompt.size()));
  }();
  if (absl::IsCancelled(done)) return;  // it has ended meanwhile
  if (!done.ok()) {
    pending.stats->CountRefusal(done);
    pending.reactor->Refuse(done, pending.call.request.id);
    return;
  }
  pending.reactor->Submit(pending.backend, std::move(pending.call),
                          std::move(pending.engine_id));
}

// What the log will say of the call, as far as its request tells.
void Describe(const Caller& caller, const v1::GenerateRequest& request,
              RequestRecord& record) {
  record.tenant = LoggedTenant(caller, request);
  record.model = request.model();
  for (const auto& [key, value] : request.labels()) {
    record.labels.emplace_back(key, value);
  }
  std::sort(record.labels.begin(), record.labels.end());
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire) {
  const std::shared_ptr<GenerateReactor> reactor =
      GenerateReactor::Make(context, stats_, &ids_, settings_.queue);
  CallContext call;
  call.now = Clock::Steady().Now();
  call.request_id = EchoedRequestId(*context);
  GenerateTicket ticket(call.now);
  const auto read = [&]() -> absl::StatusOr<std::shared_ptr<PendingCall>> {
    auto pending = std::make_shared<PendingCall>();
    pending->reactor = reactor;
    pending->stats = stats_;
    ticket.record.trace_id = TraceIdIn(MetadataValue(*context, "traceparent"));
    ticket.record.peer = context->peer();
    ASSIGN_OR_RETURN(const Caller caller, callers_->Identify(*context));
    ASSIGN_OR_RETURN(pending->backend, state_->Accepting());
    ASSIGN_OR_RETURN(ticket.slot, streams_.Enter());
    const absl::Status parsed = state_->ParseInto(*wire, pending->request);
    // gRPC keeps a stream's request to its end. It is ours, made for this call
    // and not const, and nobody reads it again.
    const_cast<grpc::ByteBuffer*>(wire)->Clear();
    // What was far too much should not stay with the allocator.
    if (absl::IsResourceExhausted(parsed)) malloc_trim(0);
    RETURN_IF_ERROR(parsed);
    const v1::GenerateRequest& request = pending->request;
    ASSIGN_OR_RETURN(call.request_id,
                     ChooseRequestId(request.request_id(),
                                     RequestIdIn(*context), MakeRequestId()));
    call.random_seed = RandomBits();
    call.deadline = SteadyDeadline(*context, call.now);
    ASSIGN_OR_RETURN(std::shared_ptr<const ServedVersion> version,
                     ChooseVersion(*pending->backend, request.model(),
                                   request.cache().version()));
    ASSIGN_OR_RETURN(pending->call,
                     DecodeSettings(request, call, ModelOf(*version)));
    Describe(caller, request, ticket.record);
    ticket.record.model = version->model();
    ticket.record.version = version->label();
    pending->call.request.cache.salt =
        caller.SaltFor(pending->call.request.cache.salt);
    pending->engine_id = caller.EngineId(call.request_id);
    if (SamplesPrompt(call.request_id, settings_.logged_prompt_ratio)) {
      ticket.record.prompt = LoggedPrompt(request);
    }
    ASSIGN_OR_RETURN(ticket.pass, tenants_->Enter(TenantOf(caller, request)));
    pending->call.request.version = std::move(version);
    return pending;
  };
  absl::StatusOr<std::shared_ptr<PendingCall>> pending = read();
  reactor->Hold(std::move(ticket));
  absl::Status started = pending.status();
  if (started.ok() && WorkBytes((*pending)->request) > kInlineWorkBytes) {
    started =
        work_->Post([pending = *pending] { TokeniseAndSubmit(*pending); });
  } else if (started.ok()) {
    TokeniseAndSubmit(**pending);
  }
  if (!started.ok()) {
    stats_->CountRefusal(started);
    reactor->Refuse(started, call.request_id);
  }
  return reactor.get();
}

grpc::ServerUnaryReactor* GenerateService::CancelGeneration(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerWithModel<v1::CancelGenerationRequest>(
      UnaryCall(context, answer, stats_,
                "kvasir.v1.Inference/CancelGeneration"),
      *wire, *state_,
      [this, context](const v1::CancelGenerationRequest& request,
                      GenerationBackend& backend)
          -> absl::StatusOr<v1::CancelGenerationResponse> {
        ASSIGN_OR_RETURN(const Caller caller, callers_->Identify(*context));
        return AnswerCancel(request, backend, caller);
      });
}

grpc::ServerUnaryReactor* GenerateService::Tokenize(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerWithTokenizer<v1::TokenizeRequest>(
      UnaryCall(context, answer, stats_, "kvasir.v1.Inference/Tokenize"), *wire,
      *state_, *work_, AnswerTokenize);
}

grpc::ServerUnaryReactor* GenerateService::Detokenize(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerWithTokenizer<v1::DetokenizeRequest>(
      UnaryCall(context, answer, stats_, "kvasir.v1.Inference/Detokenize"),
      *wire, *state_, *work_, AnswerDetokenize);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateService::GetTokenizer(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire) {
  return new RefusedStream(stats_, "kvasir.v1.Inference/GetTokenizer");
}

grpc::ServerUnaryReactor* GenerateService::ListModels(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerWithModel<v1::ListModelsRequest>(
      UnaryCall(context, answer, stats_, "kvasir.v1.Inference/ListModels"),
      *wire, *state_,
      [this](const v1::ListModelsRequest& request,
             const GenerationBackend& backend) {
        std::vector<v1::Model> models;
        for (const auto& version : ActiveVersions(backend)) {
          models.push_back(EncodeModel(*version, state_->phase()));
        }
        return AnswerListModels(request, std::move(models));
      });
}

grpc::ServerUnaryReactor* GenerateService::GetModel(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerWithModel<v1::GetModelRequest>(
      UnaryCall(context, answer, stats_, "kvasir.v1.Inference/GetModel"), *wire,
      *state_,
      [this](const v1::GetModelRequest& request,
             const GenerationBackend& backend)
          -> absl::StatusOr<v1::GetModelResponse> {
        ASSIGN_OR_RETURN(const auto version,
                         ChooseVersion(backend, request.model(), ""));
        v1::GetModelResponse model;
        *model.mutable_model() = EncodeModel(*version, state_->phase());
        return model;
      });
}

grpc::ServerUnaryReactor* GenerateService::GetServerStatus(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  UnaryCall call(context, answer, stats_,
                 "kvasir.v1.Inference/GetServerStatus");
  const auto request = state_->Parse<v1::GetServerStatusRequest>(*wire);
  if (!request.ok()) return call.Finish(request.status());
  return call.Finish(AnswerServerStatus(*request, *state_));
}

}  // namespace kvasir

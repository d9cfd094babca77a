#include "server/generate_service.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/random/random.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/clock.h"
#include "cache/base/status_macros.h"
#include "server/model_codec.h"
#include "server/request_codec.h"
#include "server/request_parse.h"
#include "server/tokenize_codec.h"
#include "server/unary_call.h"

namespace kvasir {
namespace {

// Names under which clients and proxies send a request's id.
constexpr const char* kIdKeys[] = {"x-request-id", "x-correlation-id"};

std::string_view IdInMetadata(const grpc::CallbackServerContext& context) {
  for (const char* key : kIdKeys) {
    const auto it = context.client_metadata().find(key);
    if (it != context.client_metadata().end()) {
      return {it->second.data(), it->second.size()};
    }
  }
  return {};
}

uint64_t RandomBits() {
  thread_local absl::BitGen generator;
  return absl::Uniform<uint64_t>(generator);
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

ServedModel ModelOf(const GenerationBackend& backend) {
  return {&backend.tokenizer(), &backend.model(),
          backend.longest_token_bytes()};
}

absl::StatusOr<v1::CancelGenerationResponse> AnswerCancel(
    const v1::CancelGenerationRequest& request, GenerationBackend& backend) {
  if (request.request_ids_size() == 0 ||
      request.request_ids_size() > kMaxCancelIds) {
    return absl::InvalidArgumentError(
        absl::StrCat("request_ids: wanted 1 to ", kMaxCancelIds, " ids, found ",
                     request.request_ids_size()));
  }
  if (request.reason().size() > kMaxCancelReasonBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("reason: wanted at most ", kMaxCancelReasonBytes,
                     " bytes, found ", request.reason().size()));
  }
  const std::string reason =
      request.reason().empty() ? "no reason given" : request.reason();
  v1::CancelGenerationResponse answer;
  for (const std::string& id : request.request_ids()) {
    if (backend.Cancel(id, CancelSource::kAdmin, reason)) {
      answer.add_cancelled_ids(id);
    }
  }
  return answer;
}

}  // namespace

grpc::ServerWriteReactor<grpc::ByteBuffer>* GenerateService::Generate(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire) {
  const std::shared_ptr<GenerateReactor> reactor =
      GenerateReactor::Make(context, stats_, limits_);
  const auto submit = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state_->Accepting());
    ASSIGN_OR_RETURN(const v1::GenerateRequest request,
                     ParseRequest<v1::GenerateRequest>(*wire));
    // gRPC keeps a stream's request to its end. It is ours, made for this call
    // and not const, and nobody reads it again.
    const_cast<grpc::ByteBuffer*>(wire)->Clear();
    CallContext call;
    ASSIGN_OR_RETURN(
        call.request_id,
        ChooseRequestId(
            request.request_id(), IdInMetadata(*context),
            absl::StrCat("req-", absl::Hex(RandomBits(), absl::kZeroPad16))));
    call.random_seed = RandomBits();
    call.now = Clock::Steady().Now();
    call.deadline = SteadyDeadline(*context, call.now);
    absl::StatusOr<GenerateCall> decoded =
        DecodeGenerate(request, call, ModelOf(*backend));
    if (!decoded.ok()) {
      reactor->Refuse(decoded.status(), call.request_id);
    } else {
      reactor->Submit(backend, *std::move(decoded));
    }
    return absl::OkStatus();
  };
  if (const absl::Status status = submit(); !status.ok()) {
    reactor->Refuse(status, "");
  }
  return reactor.get();
}

grpc::ServerUnaryReactor* GenerateService::CancelGeneration(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerWithModel<v1::CancelGenerationRequest>(
      UnaryCall(context, answer, stats_,
                "kvasir.v1.Inference/CancelGeneration"),
      *wire, *state_, AnswerCancel);
}

grpc::ServerUnaryReactor* GenerateService::Tokenize(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerWithModel<v1::TokenizeRequest>(
      UnaryCall(context, answer, stats_, "kvasir.v1.Inference/Tokenize"), *wire,
      *state_,
      [](const v1::TokenizeRequest& request, const GenerationBackend& backend) {
        return AnswerTokenize(request, ModelOf(backend));
      });
}

grpc::ServerUnaryReactor* GenerateService::Detokenize(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerWithModel<v1::DetokenizeRequest>(
      UnaryCall(context, answer, stats_, "kvasir.v1.Inference/Detokenize"),
      *wire, *state_,
      [](const v1::DetokenizeRequest& request,
         const GenerationBackend& backend) {
        return AnswerDetokenize(request, ModelOf(backend));
      });
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
        return AnswerListModels(request,
                                EncodeModel(backend.model(), state_->phase()));
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
        RETURN_IF_ERROR(CheckModelName(request.model(), backend.model()));
        v1::GetModelResponse model;
        *model.mutable_model() = EncodeModel(backend.model(), state_->phase());
        return model;
      });
}

grpc::ServerUnaryReactor* GenerateService::GetServerStatus(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  UnaryCall call(context, answer, stats_,
                 "kvasir.v1.Inference/GetServerStatus");
  const auto request = ParseRequest<v1::GetServerStatusRequest>(*wire);
  if (!request.ok()) return call.Finish(request.status());
  return call.Finish(AnswerServerStatus(*request, *state_));
}

}  // namespace kvasir

#include "server/admin_service.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/clock.h"

#include "cache/base/status_macros.h"
#include "server/create_version_call.h"
#include "server/flush_call.h"
#include "server/model_codec.h"
#include "server/prefix_codec.h"
#include "server/progress_reactor.h"
#include "server/resize_call.h"
#include "server/resize_codec.h"
#include "server/version_choice.h"
#include "server/version_codec.h"
#include "server/warm_call.h"

namespace kvasir {
namespace {

absl::StatusOr<v1::GetCacheStatsResponse> AnswerStats(
    const v1::GetCacheStatsRequest& request, const GenerationBackend& backend) {
  ASSIGN_OR_RETURN(const auto version,
                   ChooseVersion(backend, request.model(), ""));
  RETURN_IF_ERROR(CheckTiers(request.tiers()));
  v1::GetCacheStatsResponse answer;
  *answer.mutable_stats() = EncodeCacheStats(version->info(), backend.Stats(),
                                             request.tiers(), absl::Now());
  return answer;
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::GetCacheStats(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerWithModel<v1::GetCacheStatsRequest>(
      UnaryCall(context, answer, stats_, "kvasir.v1.CacheAdmin/GetCacheStats"),
      *wire, *state_, AnswerStats);
}

grpc::ServerUnaryReactor* AdminService::FlushCache(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  UnaryCall call(context, answer, stats_, "kvasir.v1.CacheAdmin/FlushCache");
  const auto start = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state_->Loaded());
    ASSIGN_OR_RETURN(const v1::FlushCacheRequest request,
                     state_->Parse<v1::FlushCacheRequest>(*wire));
    call.Note(request);
    return StartFlush(request, call, *backend, *work_, *walking_);
  };
  if (const absl::Status started = start(); !started.ok()) {
    return call.Finish(started);
  }
  return call.reactor();
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* AdminService::ResizeCache(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire) {
  const auto reactor = ProgressReactor::Make(
      context, stats_, "kvasir.v1.CacheAdmin/ResizeCache");
  const auto start = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state_->Loaded());
    ASSIGN_OR_RETURN(const v1::ResizeCacheRequest request,
                     state_->Parse<v1::ResizeCacheRequest>(*wire));
    reactor->Note(request);
    ASSIGN_OR_RETURN(const CacheRoom room, memory_->Room());
    ASSIGN_OR_RETURN(ResizeOrder order, DecodeResize(request, *backend, room));
    return StartResize(
        std::move(order), *backend,
        [memory = memory_](int64_t bytes) { memory->OnOperatorResize(bytes); },
        reactor);
  };
  if (const absl::Status started = start(); !started.ok()) {
    reactor->End(started);
  }
  return reactor.get();
}

grpc::ServerUnaryReactor* AdminService::ListCacheVersions(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerWithModel<v1::ListCacheVersionsRequest>(
      UnaryCall(context, answer, stats_,
                "kvasir.v1.CacheAdmin/ListCacheVersions"),
      *wire, *state_, AnswerListVersions);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* AdminService::CreateCacheVersion(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire) {
  const auto reactor = ProgressReactor::Make(
      context, stats_, "kvasir.v1.CacheAdmin/CreateCacheVersion");
  const auto start = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state_->Accepting());
    ASSIGN_OR_RETURN(const v1::CreateCacheVersionRequest request,
                     state_->Parse<v1::CreateCacheVersionRequest>(*wire));
    reactor->Note(request);
    return StartCreateVersion(request, *backend, reactor);
  };
  if (const absl::Status started = start(); !started.ok()) {
    reactor->End(started);
  }
  return reactor.get();
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* AdminService::WarmCache(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire) {
  const std::shared_ptr<ProgressReactor> reactor =
      ProgressReactor::Make(context, stats_, "kvasir.v1.CacheAdmin/WarmCache");
  const auto start = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state_->Accepting());
    ASSIGN_OR_RETURN(v1::WarmCacheRequest request,
                     state_->Parse<v1::WarmCacheRequest>(*wire));
    reactor->Note(request);
    return StartWarmCache(std::move(request), *backend, *state_, *warming_,
                          reactor);
  };
  if (const absl::Status started = start(); !started.ok()) {
    reactor->End(started);
  }
  return reactor.get();
}

grpc::ServerUnaryReactor* AdminService::ActivateCacheVersion(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerFromPool<v1::ActivateCacheVersionRequest>(
      UnaryCall(context, answer, stats_,
                "kvasir.v1.CacheAdmin/ActivateCacheVersion"),
      *wire, *state_, *work_, Activate);
}

grpc::ServerUnaryReactor* AdminService::RollbackCacheVersion(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerFromPool<v1::RollbackCacheVersionRequest>(
      UnaryCall(context, answer, stats_,
                "kvasir.v1.CacheAdmin/RollbackCacheVersion"),
      *wire, *state_, *work_, RollBack);
}

grpc::ServerUnaryReactor* AdminService::DeleteCacheVersion(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire,
    grpc::ByteBuffer* answer) {
  return AnswerFromPool<v1::DeleteCacheVersionRequest>(
      UnaryCall(context, answer, stats_,
                "kvasir.v1.CacheAdmin/DeleteCacheVersion"),
      *wire, *state_, *work_, Delete);
}

}  // namespace kvasir

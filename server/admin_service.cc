#include "server/admin_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "cache/base/clock.h"
#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/create_version_call.h"
#include "server/model_codec.h"
#include "server/progress_reactor.h"
#include "server/request_codec.h"
#include "server/request_parse.h"
#include "server/resize_codec.h"
#include "server/resize_reactor.h"
#include "server/version_choice.h"
#include "server/version_codec.h"
#include "server/warm_call.h"

namespace kvasir {
namespace {

absl::Status CheckTiers(const google::protobuf::RepeatedField<int>& tiers) {
  for (const int tier : tiers) {
    if (tier == v1::CACHE_TIER_DEVICE) continue;
    return absl::UnimplementedError(absl::StrCat(
        "tiers: this server has the tier DEVICE, found number ", tier));
  }
  return absl::OkStatus();
}

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

// How long the flush waits for running requests; nothing if it does not mind
// them.
using FlushWait = std::optional<absl::Duration>;

absl::StatusOr<FlushWait> CheckFlush(const v1::FlushCacheRequest& request,
                                     const GenerationBackend& backend) {
  switch (request.scope()) {
    case v1::FLUSH_SCOPE_UNSPECIFIED:
    case v1::FLUSH_SCOPE_ALL:
      if (request.value().empty()) break;
      return absl::InvalidArgumentError(
          absl::StrCat("value: wanted it empty for this scope, found ",
                       QuoteText(request.value())));
    case v1::FLUSH_SCOPE_MODEL:
      RETURN_IF_ERROR(ChooseVersion(backend, request.value(), "").status());
      break;
    default:
      return absl::UnimplementedError(
          absl::StrCat("scope: this server flushes ALL or MODEL, found ",
                       v1::FlushScope_Name(request.scope())));
  }
  RETURN_IF_ERROR(CheckTiers(request.tiers()));
  if (!request.has_wait()) return FlushWait();
  const auto& wait = request.wait();
  if (wait.seconds() == 0 && wait.nanos() == 0) {
    return FlushWait(absl::ZeroDuration());
  }
  ASSIGN_OR_RETURN(const absl::Duration span,
                   DecodePositiveDuration("wait", wait));
  if (span <= kMaxFlushWait) return FlushWait(span);
  return absl::InvalidArgumentError(
      absl::StrCat("wait: wanted at most ", absl::FormatDuration(kMaxFlushWait),
                   ", found ", absl::FormatDuration(span)));
}

absl::StatusOr<v1::FlushCacheResponse> Flush(GenerationBackend& backend) {
  ASSIGN_OR_RETURN(const FlushOutcome outcome, backend.FlushCache());
  v1::FlushCacheResponse answer;
  answer.set_freed_blocks(outcome.freed_blocks);
  answer.set_freed_bytes(outcome.freed_bytes);
  return answer;
}

// A flush that waits until no request is in flight. Many may wait, one thread
// asks them in turn.
struct WaitingFlush {
  UnaryCall call;
  GenerationBackend* backend;
  absl::Duration wait;
  absl::Duration deadline;  // steady

  // Whether the call has been answered; it is when this is the last chance.
  bool Answer(bool last_chance) {
    if (backend->WaitIdle(absl::ZeroDuration())) {
      call.Finish(Flush(*backend));
    } else if (call.cancelled()) {
      call.Finish(absl::CancelledError("the call ended"));
    } else if (last_chance || Clock::Steady().Now() >= deadline) {
      const EngineStats stats = backend->Stats();
      call.Finish(absl::FailedPreconditionError(
          absl::StrCat("wanted no request in flight, found ",
                       stats.requests_running + stats.requests_waiting,
                       " after ", absl::FormatDuration(wait))));
    } else {
      return false;
    }
    return true;
  }
};

// Answers with what `move(request, backend)` says, which waits for the engine,
// on a thread of `work`.
template <typename Request, typename Move>
grpc::ServerUnaryReactor* AnswerFromPool(UnaryCall call,
                                         const grpc::ByteBuffer& wire,
                                         const ServerState& state,
                                         WorkPool& work, Move move) {
  const auto start = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state.Loaded());
    ASSIGN_OR_RETURN(Request request, ParseRequest<Request>(wire));
    return work.Post(
        [call, backend, request = std::move(request), move]() mutable {
          call.Finish(move(request, *backend));
        });
  };
  if (const absl::Status started = start(); !started.ok()) {
    return call.Finish(started);
  }
  return call.reactor();
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
                     ParseRequest<v1::FlushCacheRequest>(*wire));
    ASSIGN_OR_RETURN(const FlushWait wait, CheckFlush(request, *backend));
    if (!wait.has_value()) {
      return work_->Post(
          [call, backend]() mutable { call.Finish(Flush(*backend)); });
    }
    return work_->Watch(
        [flush =
             WaitingFlush{call, backend, *wait, Clock::Steady().Now() + *wait}](
            bool ending) mutable { return flush.Answer(ending); });
  };
  if (const absl::Status started = start(); !started.ok()) {
    return call.Finish(started);
  }
  return call.reactor();
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* AdminService::ResizeCache(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* wire) {
  const std::shared_ptr<ResizeReactor> reactor = ResizeReactor::Make(stats_);
  const auto start = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state_->Loaded());
    ASSIGN_OR_RETURN(const v1::ResizeCacheRequest request,
                     ParseRequest<v1::ResizeCacheRequest>(*wire));
    ASSIGN_OR_RETURN(const CacheRoom room, memory_->Room());
    ASSIGN_OR_RETURN(ResizeOrder order, DecodeResize(request, *backend, room));
    reactor->Start(
        *backend, std::move(order),
        [memory = memory_](int64_t bytes) { memory->OnOperatorResize(bytes); });
    return absl::OkStatus();
  };
  if (const absl::Status started = start(); !started.ok()) {
    reactor->Refuse(started);
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
  const auto reactor =
      ProgressReactor::Make(stats_, "kvasir.v1.CacheAdmin/CreateCacheVersion");
  const auto start = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state_->Accepting());
    ASSIGN_OR_RETURN(const v1::CreateCacheVersionRequest request,
                     ParseRequest<v1::CreateCacheVersionRequest>(*wire));
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
      ProgressReactor::Make(stats_, "kvasir.v1.CacheAdmin/WarmCache");
  const auto start = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(GenerationBackend * backend, state_->Accepting());
    ASSIGN_OR_RETURN(v1::WarmCacheRequest request,
                     ParseRequest<v1::WarmCacheRequest>(*wire));
    return StartWarmCache(std::move(request), *backend, *work_, reactor);
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

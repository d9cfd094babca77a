#include "server/admin_service.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "cache/base/clock.h"
#include "cache/base/status_macros.h"
#include "server/model_codec.h"
#include "server/request_codec.h"
#include "server/request_parse.h"

namespace kvasir {
namespace {

// How often a waiting flush looks whether it is to end.
constexpr absl::Duration kFlushPoll = absl::Milliseconds(50);

absl::StatusOr<v1::GetCacheStatsResponse> AnswerStats(
    const v1::GetCacheStatsRequest& request, const GenerationBackend& backend) {
  RETURN_IF_ERROR(CheckModelName(request.model(), backend.model()));
  v1::GetCacheStatsResponse answer;
  *answer.mutable_stats() = EncodeCacheStats(backend.model(), backend.Stats(),
                                             request.tiers(), absl::Now());
  return answer;
}

// How long the flush waits for running requests; nothing if it does not mind
// them.
using FlushWait = std::optional<absl::Duration>;

absl::StatusOr<FlushWait> CheckFlush(const v1::FlushCacheRequest& request,
                                     const ModelInfo& info) {
  switch (request.scope()) {
    case v1::FLUSH_SCOPE_UNSPECIFIED:
    case v1::FLUSH_SCOPE_ALL:
      if (request.value().empty()) break;
      return absl::InvalidArgumentError(
          absl::StrCat("value: wanted it empty for this scope, found \"",
                       request.value(), "\""));
    case v1::FLUSH_SCOPE_MODEL:
      RETURN_IF_ERROR(CheckModelName(request.value(), info));
      break;
    default:
      return absl::UnimplementedError(
          absl::StrCat("scope: this server flushes ALL or MODEL, found ",
                       v1::FlushScope_Name(request.scope())));
  }
  for (const int tier : request.tiers()) {
    if (tier == v1::CACHE_TIER_DEVICE) continue;
    return absl::UnimplementedError(absl::StrCat(
        "tiers: this server has the tier DEVICE, found number ", tier));
  }
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

absl::Status WaitForIdle(GenerationBackend& backend, absl::Duration wait,
                         const WorkPool& work,
                         const grpc::CallbackServerContext& context) {
  const absl::Duration deadline = Clock::Steady().Now() + wait;
  while (true) {
    const absl::Duration left = deadline - Clock::Steady().Now();
    if (backend.WaitIdle(std::clamp(left, absl::ZeroDuration(), kFlushPoll))) {
      return absl::OkStatus();
    }
    if (context.IsCancelled()) return absl::CancelledError("the call ended");
    if (left <= absl::ZeroDuration() || work.stopping()) {
      const EngineStats stats = backend.Stats();
      return absl::FailedPreconditionError(
          absl::StrCat("wanted no request in flight, found ",
                       stats.requests_running + stats.requests_waiting,
                       " after ", absl::FormatDuration(wait)));
    }
  }
}

absl::StatusOr<v1::FlushCacheResponse> Flush(
    GenerationBackend& backend, FlushWait wait, const WorkPool& work,
    const grpc::CallbackServerContext& context) {
  if (wait.has_value()) {
    RETURN_IF_ERROR(WaitForIdle(backend, *wait, work, context));
  }
  ASSIGN_OR_RETURN(const FlushOutcome outcome, backend.FlushCache());
  v1::FlushCacheResponse answer;
  answer.set_freed_blocks(outcome.freed_blocks);
  answer.set_freed_bytes(outcome.freed_bytes);
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
                     ParseRequest<v1::FlushCacheRequest>(*wire));
    ASSIGN_OR_RETURN(const FlushWait wait,
                     CheckFlush(request, backend->model()));
    return work_->Post([call, context, wait, backend, work = work_]() mutable {
      call.Finish(Flush(*backend, wait, *work, *context));
    });
  };
  if (const absl::Status started = start(); !started.ok()) {
    return call.Finish(started);
  }
  return call.reactor();
}

}  // namespace kvasir

#include "server/flush_call.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "cache/base/clock.h"
#include "cache/base/status_macros.h"
#include "server/prefix_codec.h"
#include "server/request_codec.h"
#include "server/version_choice.h"

namespace kvasir {
namespace {

// What is flushed: everything, if there is no selection.
using FlushTarget = std::optional<PrefixSelection>;

absl::StatusOr<FlushTarget> DecodeTarget(const v1::FlushCacheRequest& request,
                                         const GenerationBackend& backend) {
  PrefixSelection selection;
  switch (request.scope()) {
    case v1::FLUSH_SCOPE_UNSPECIFIED:
    case v1::FLUSH_SCOPE_ALL:
      if (request.value().empty()) return FlushTarget();
      return absl::InvalidArgumentError(
          absl::StrCat("value: wanted it empty for this scope, found ",
                       request.value().size(), " bytes"));
    case v1::FLUSH_SCOPE_MODEL: {
      ASSIGN_OR_RETURN(const auto version,
                       ChooseVersion(backend, request.value(), ""));
      selection.model = version->model();
      break;
    }
    case v1::FLUSH_SCOPE_VERSION:
      if (request.value().empty()) {
        return absl::InvalidArgumentError(
            "value: wanted the label or fingerprint of a cache version, found "
            "nothing");
      }
      selection.version = LabelOf(backend.Versions(), "", request.value());
      break;
    case v1::FLUSH_SCOPE_SALT:
      selection.salt = request.value();
      break;
    default:
      return absl::UnimplementedError(absl::StrCat(
          "scope: this server flushes ALL, MODEL, SALT or VERSION, found ",
          v1::FlushScope_Name(request.scope())));
  }
  return FlushTarget(std::move(selection));
}

// How long the flush waits for running requests; nothing if it does not mind
// them.
using FlushWait = std::optional<absl::Duration>;

absl::StatusOr<FlushWait> DecodeWait(const v1::FlushCacheRequest& request) {
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

absl::StatusOr<v1::FlushCacheResponse> Flush(const FlushTarget& target,
                                             GenerationBackend& backend,
                                             const StillWanted& wanted) {
  FlushOutcome outcome;
  if (target.has_value()) {
    ASSIGN_OR_RETURN(const EvictedPrefixes evicted,
                     backend.FlushPrefixes(*target, wanted));
    outcome = {evicted.blocks, evicted.bytes};
  } else {
    ASSIGN_OR_RETURN(outcome, backend.FlushCache());
  }
  v1::FlushCacheResponse answer;
  answer.set_freed_blocks(outcome.freed_blocks);
  answer.set_freed_bytes(outcome.freed_bytes);
  return answer;
}

absl::Status PostFlush(UnaryCall call, const FlushTarget& target,
                       GenerationBackend& backend, WorkPool& walking) {
  return walking.Post([call, target, &backend]() mutable {
    // Who has given up must not find it done after all.
    if (call.cancelled()) {
      call.Finish(absl::CancelledError("the call was cancelled"));
      return;
    }
    call.Finish(Flush(target, backend, [&call] { return !call.cancelled(); }));
  });
}

// A flush that waits until no request is in flight. Many may wait, one thread
// asks them in turn.
struct WaitingFlush {
  UnaryCall call;
  FlushTarget target;
  GenerationBackend* backend;
  WorkPool* walking;
  absl::Duration wait;
  absl::Duration deadline;  // steady

  // Whether the call is answered or about to be; it is when this is the last
  // chance.
  bool Answer(bool last_chance) {
    if (backend->WaitIdle(absl::ZeroDuration())) {
      const absl::Status begun = PostFlush(call, target, *backend, *walking);
      if (!begun.ok()) call.Finish(begun);
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

}  // namespace

absl::Status StartFlush(const v1::FlushCacheRequest& request, UnaryCall call,
                        GenerationBackend& backend, WorkPool& work,
                        WorkPool& walking) {
  ASSIGN_OR_RETURN(const FlushTarget target, DecodeTarget(request, backend));
  RETURN_IF_ERROR(CheckTiers(request.tiers()));
  ASSIGN_OR_RETURN(const FlushWait wait, DecodeWait(request));
  if (!wait.has_value()) return PostFlush(call, target, backend, walking);
  return work.Watch(
      [flush = WaitingFlush{call, target, &backend, &walking, *wait,
                            Clock::Steady().Now() + *wait}](
          bool ending) mutable { return flush.Answer(ending); });
}

}  // namespace kvasir

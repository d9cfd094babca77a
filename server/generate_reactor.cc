#include "server/generate_reactor.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "server/request_parse.h"
#include "server/status_mapping.h"

namespace kvasir {

std::shared_ptr<GenerateReactor> GenerateReactor::Make(
    grpc::CallbackServerContext* context, CallStats* stats, IdOwners* ids,
    Limits limits) {
  std::shared_ptr<GenerateReactor> reactor(
      new GenerateReactor(context, stats, ids, limits));
  reactor->self_ = reactor;
  return reactor;
}

GenerateReactor::GenerateReactor(grpc::CallbackServerContext* context,
                                 CallStats* stats, IdOwners* ids, Limits limits)
    : context_(context),
      ids_(ids),
      limits_(limits),
      meter_(stats, "kvasir.v1.Inference/Generate") {}

void GenerateReactor::Submit(GenerationBackend* backend, GenerateCall call) {
  const std::string id = call.request.id;
  {
    absl::MutexLock lock(&mu_);
    request_id_ = id;
    if (end_.has_value()) return;  // cancelled meanwhile
    stream_.emplace(GenerateStream::SettingsOf(call));
  }
  const absl::Status submitted = ids_->Take(id, this, [&] {
    return backend->Submit(std::move(call.request), shared_from_this());
  });
  if (!submitted.ok()) return Refuse(submitted, id);
  bool cancelled = false;
  {
    absl::MutexLock lock(&mu_);
    if (stream_->end().has_value()) return;  // it was quick
    backend_ = backend;
    // OnCancel() may have come before there was anything to cancel.
    cancelled = cancelled_;
  }
  if (cancelled) Cancel(backend, id, "the call ended");
}

void GenerateReactor::Cancel(GenerationBackend* backend, const std::string& id,
                             std::string_view reason) {
  ids_->IfOwner(id, this,
                [&] { backend->Cancel(id, CancelSource::kClient, reason); });
}

bool GenerateReactor::ended() const {
  absl::MutexLock lock(&mu_);
  return end_.has_value();
}

void GenerateReactor::Refuse(const absl::Status& status,
                             const std::string& request_id) {
  Action action;
  {
    absl::MutexLock lock(&mu_);
    request_id_ = request_id;
    if (!end_.has_value()) end_ = status;
    action = Next();
  }
  Perform(std::move(action));
}

bool GenerateReactor::Push(TokenEvent event) {
  Action action;
  bool wanted = true;
  std::string ended_id;
  {
    absl::MutexLock lock(&mu_);
    std::vector<v1::GenerateResponse> messages =
        stream_->Take(std::move(event));
    const bool last = stream_->end().has_value();
    if (last) {
      backend_ = nullptr;
      ended_id = request_id_;
    }
    // A call that was given up keeps the status it was given up with.
    if (!end_.has_value()) {
      for (v1::GenerateResponse& message : messages) {
        queue_.push_back(std::move(message));
      }
      if (last) {
        end_ = stream_->end();
        if (!end_->ok()) queue_.clear();
      } else if (static_cast<int64_t>(queue_.size()) > limits_.stream_queue) {
        GiveUp(WithReason(absl::ResourceExhaustedError(absl::StrCat(
                              "the client reads too slowly: ", queue_.size(),
                              " messages wait, at most ", limits_.stream_queue,
                              " (server.stream_queue)")),
                          kReasonSlowClient));
      }
      action = Next();
    }
    wanted = last || (!cancelled_ && !end_.has_value());
  }
  if (!ended_id.empty()) ids_->Release(ended_id, this);
  Perform(std::move(action));
  return wanted;
}

// The queue is dropped, so that a client that does not read costs no memory.
// The status can be sent once the write in flight is done, which needs the
// client to read; if it never does, the call is reset.
void GenerateReactor::GiveUp(absl::Status status) {
  queue_.clear();
  end_ = std::move(status);
  if (!writing_) return;
  // Not a shared_ptr: the alarm keeps its function as long as it lives itself.
  stalled_.Set(std::chrono::system_clock::now() +
                   absl::ToChronoNanoseconds(kStalledClientGrace),
               [weak = weak_from_this()](bool expired) {
                 const std::shared_ptr<GenerateReactor> self = weak.lock();
                 if (!expired || self == nullptr) return;
                 // The context is there as long as Finish() was not called.
                 absl::MutexLock lock(&self->mu_);
                 if (!self->finished_) self->context_->TryCancel();
               });
}

void GenerateReactor::OnWriteDone(bool ok) {
  Action action;
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) {
      queue_.clear();
      cancelled_ = true;
      // The engine says so too, once it has noticed; nobody hears it.
      if (!end_.has_value()) end_ = absl::CancelledError("the client left");
    }
    action = Next();
  }
  Perform(std::move(action));
}

void GenerateReactor::OnCancel() {
  // gRPC cancels a call whose deadline has passed, too; the engine sees that by
  // itself, and counts it as what it is.
  const bool late = context_->deadline() <= std::chrono::system_clock::now();
  GenerationBackend* backend = nullptr;
  std::string id;
  Action action;
  {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
    queue_.clear();
    if (!late) backend = backend_;
    id = request_id_;
    if (!end_.has_value()) {
      end_ = late ? absl::DeadlineExceededError("the call's deadline passed")
                  : absl::CancelledError("the client cancelled the call");
    }
    action = Next();
  }
  if (backend != nullptr) {
    Cancel(backend, id, "the call was cancelled");
  }
  Perform(std::move(action));
}

void GenerateReactor::OnDone() {
  stalled_.Cancel();
  self_.reset();
}

GenerateReactor::Action GenerateReactor::Next() {
  Action action;
  if (writing_ || finished_) return action;
  if (!queue_.empty()) {
    action.write = std::move(queue_.front());
    queue_.pop_front();
    writing_ = true;
  } else if (end_.has_value()) {
    finished_ = true;
    AddTrailers(*end_);
    action.finish = ToGrpcStatus(*end_, request_id_);
  }
  return action;
}

void GenerateReactor::AddTrailers(const absl::Status& status) {
  if (!request_id_.empty()) {
    context_->AddTrailingMetadata("x-request-id", request_id_);
  }
  if (stream_.has_value() && stream_->cached_tokens() >= 0) {
    context_->AddTrailingMetadata("x-kvasir-cached-tokens",
                                  absl::StrCat(stream_->cached_tokens()));
  }
  if (const std::optional<absl::Duration> delay = RetryDelay(status);
      delay.has_value() && !status.ok()) {
    context_->AddTrailingMetadata(
        "grpc-retry-pushback-ms",
        absl::StrCat(absl::ToInt64Milliseconds(*delay)));
  }
}

void GenerateReactor::Perform(Action action) {
  if (action.write.has_value()) {
    current_ = ToBytes(*action.write);
    StartWrite(&current_);
  } else if (action.finish.has_value()) {
    meter_.End(action.finish->error_code());
    Finish(*std::move(action.finish));
  }
}

}  // namespace kvasir

#include "server/generate_reactor.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "cache/base/clock.h"
#include "server/request_parse.h"
#include "server/status_mapping.h"

namespace kvasir {
namespace {

absl::Duration Now() { return Clock::Steady().Now(); }

int64_t TokensIn(const TokenEvent& event) {
  const auto* delta = std::get_if<DeltaEvent>(&event);
  return delta == nullptr ? 0 : static_cast<int64_t>(delta->token_ids.size());
}

// The prompt's messages, as bytes.
class EchoSource final : public MessageSource {
 public:
  explicit EchoSource(PromptEcho echo) : echo_(std::move(echo)) {}
  grpc::ByteBuffer Next() override { return ToBytes(echo_.Next()); }
  bool done() const override { return echo_.done(); }

 private:
  PromptEcho echo_;
};

absl::Status SlowReader(const WriteQueue& queue,
                        const WriteQueue::Limits& limits) {
  const absl::Status status = WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "the client reads too slowly: wanted room among ", limits.messages,
          " messages (server.stream_queue) within ",
          absl::FormatDuration(limits.timeout),
          " (server.slow_reader_timeout), found ", queue.size(), " waiting")),
      kReasonSlowClient);
  return WithLimit(status, {.name = "server.stream_queue",
                            .subject = "server",
                            .metric = "messages",
                            .value = limits.messages});
}

}  // namespace

std::shared_ptr<GenerateReactor> GenerateReactor::Make(
    grpc::CallbackServerContext* context, CallStats* stats, IdOwners* ids,
    const WriteQueue::Limits& limits) {
  std::shared_ptr<GenerateReactor> reactor(
      new GenerateReactor(context, stats, ids, limits));
  reactor->self_ = reactor;
  return reactor;
}

GenerateReactor::GenerateReactor(grpc::CallbackServerContext* context,
                                 CallStats* stats, IdOwners* ids,
                                 const WriteQueue::Limits& limits)
    : context_(context),
      stats_(stats),
      ids_(ids),
      limits_(limits),
      meter_(stats, "kvasir.v1.Inference/Generate"),
      record_(Now()),
      queue_(limits) {}

void GenerateReactor::Hold(GenerateTicket ticket) {
  slot_ = std::move(ticket.slot);
  pass_ = std::move(ticket.pass);
  absl::MutexLock lock(&mu_);
  record_ = std::move(ticket.record);
}

void GenerateReactor::Submit(GenerationBackend* backend, GenerateCall call,
                             std::string engine_id) {
  const std::string id = call.request.id;
  const auto prompt_tokens = static_cast<int64_t>(call.request.prompt.size());
  {
    absl::MutexLock lock(&mu_);
    request_id_ = id;
    engine_id_ = engine_id;
    if (end_.has_value()) return;  // cancelled meanwhile
    stream_.emplace(GenerateStream::SettingsOf(call));
    record_.NoteSubmitted(prompt_tokens, Now());
    waker_ = backend;
  }
  call.request.id = engine_id;
  absl::Status submitted = ids_->Take(engine_id, this);
  if (submitted.ok()) {
    submitted = backend->Submit(std::move(call.request), shared_from_this());
    if (!submitted.ok()) ids_->Release(engine_id, this);
  } else {
    stats_->CountRefusal(submitted);  // the engine counts its own
  }
  // Those words are about the engine's id.
  if (absl::IsAlreadyExists(submitted)) {
    submitted = absl::AlreadyExistsError(
        absl::StrCat("request id \"", id, "\" is in flight already"));
  }
  if (!submitted.ok()) return Refuse(submitted, id);
  bool cancelled = false;
  {
    absl::MutexLock lock(&mu_);
    if (stream_->end().has_value()) return;  // it was quick
    backend_ = backend;
    // OnCancel() may have come before there was anything to cancel.
    cancelled = cancelled_;
  }
  if (cancelled) Cancel(backend, engine_id, "the call ended");
}

void GenerateReactor::Cancel(GenerationBackend* backend,
                             const std::string& engine_id,
                             std::string_view reason) {
  ids_->IfOwner(engine_id, this, [&] {
    backend->Cancel(engine_id, CancelSource::kClient, reason);
  });
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
    action = Next(Now());
  }
  Perform(std::move(action));
}

bool GenerateReactor::Push(TokenEvent event) {
  if (std::holds_alternative<AcceptedEvent>(event)) pass_.KeepPrompt();
  pass_.Charge(TokensIn(event));
  const absl::Duration now = Now();
  Action action;
  bool wanted = true;
  std::string ended_id;
  {
    absl::MutexLock lock(&mu_);
    record_.Note(event, now);
    std::vector<GenerateStream::Outgoing> due = stream_->Take(std::move(event));
    const bool last = stream_->end().has_value();
    if (last) {
      backend_ = nullptr;
      waker_ = nullptr;
      ended_id = engine_id_;
    }
    // A call that was given up keeps the status it was given up with.
    if (!end_.has_value()) {
      for (GenerateStream::Outgoing& one : due) Queue(std::move(one), now);
      if (last) {
        end_ = stream_->end();
        if (!end_->ok()) queue_.Clear(now);
        queue_.NoteLast(now);
      }
      action = Next(now);
    }
    wanted = last || (!cancelled_ && !end_.has_value());
  }
  if (!ended_id.empty()) ids_->Release(ended_id, this);
  Perform(std::move(action));
  return wanted;
}

void GenerateReactor::Queue(GenerateStream::Outgoing due, absl::Duration now) {
  if (auto* const echo = std::get_if<PromptEcho>(&due)) {
    queue_.Push(std::make_unique<EchoSource>(std::move(*echo)), now);
    return;
  }
  const auto& message = std::get<v1::GenerateResponse>(due);
  record_.Note(message);
  queue_.Push(ToBytes(message), now);
}

void GenerateReactor::Watch(absl::Duration delay) {
  watch_ = std::make_unique<grpc::Alarm>();
  // Not a shared_ptr: the alarm keeps its function as long as it lives itself.
  watch_->Set(
      std::chrono::system_clock::now() + absl::ToChronoNanoseconds(delay),
      [weak = weak_from_this()](bool expired) {
        if (!expired) return;
        if (const auto self = weak.lock()) self->OnWatch();
      });
}

void GenerateReactor::OnWatch() {
  GenerationBackend* backend = nullptr;
  std::string id;
  Action action;
  {
    absl::MutexLock lock(&mu_);
    if (finished_) return;
    if (given_up_) {
      // The context is there as long as Finish() was not called.
      context_->TryCancel();
      return;
    }
    watch_.reset();
    const absl::Duration now = Now();
    const bool overdue = queue_.TimeLeft(now) == absl::ZeroDuration() &&
                         (writing_ || !queue_.empty());
    if (overdue && !cancelled_) {
      GiveUp();
      backend = backend_;
      id = engine_id_;
    }
    action = Next(now);
  }
  if (backend != nullptr) Cancel(backend, id, "the client reads too slowly");
  Perform(std::move(action));
}

// The queue is dropped, so that a client that does not read costs no memory.
// The status can be sent once the write in flight is done, which needs the
// client to read; if it never does, the call is reset.
void GenerateReactor::GiveUp() {
  end_ = SlowReader(queue_, limits_);
  given_up_ = true;
  queue_.Clear(Now());
  stats_->CountSlowReader();
  if (writing_) Watch(kStalledClientGrace);
}

void GenerateReactor::OnWriteDone(bool ok) {
  Action action;
  {
    absl::MutexLock lock(&mu_);
    const absl::Duration now = Now();
    writing_ = false;
    queue_.NoteProgress(now);
    if (!ok) {
      queue_.Clear(now);
      cancelled_ = true;
      // The engine says so too, once it has noticed; nobody hears it.
      if (!end_.has_value()) end_ = absl::CancelledError("the client left");
    }
    action = Next(now);
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
    const absl::Duration now = Now();
    cancelled_ = true;
    queue_.Clear(now);
    if (!late) backend = backend_;
    id = engine_id_;
    if (!end_.has_value()) {
      end_ = late ? absl::DeadlineExceededError("the call's deadline passed")
                  : absl::CancelledError("the client cancelled the call");
    }
    action = Next(now);
  }
  if (backend != nullptr) {
    Cancel(backend, id, "the call was cancelled");
  }
  Perform(std::move(action));
}

void GenerateReactor::OnDone() {
  slot_.Leave();
  std::optional<RequestRecord> record;
  absl::Status end;
  {
    absl::MutexLock lock(&mu_);
    watch_.reset();
    record.emplace(std::move(record_));
    record->request_id = request_id_;
    end = *end_;
  }
  // Not under the lock, for which the engine may wait: a log can be slow.
  LogRequest(*record, end, Now());
  self_.reset();
}

GenerateReactor::Action GenerateReactor::Next(absl::Duration now) {
  Action action;
  if (!writing_ && !finished_) {
    if (!queue_.empty()) {
      action.write = queue_.Pop(now);
      writing_ = true;
    } else if (end_.has_value()) {
      finished_ = true;
      AddTrailers(*end_);
      action.finish = ToGrpcStatus(*end_, request_id_);
    }
  }
  const bool was_full = full_.exchange(queue_.full());
  if (was_full && !queue_.full()) action.wake = waker_;
  const absl::Duration left = queue_.TimeLeft(now);
  if (!finished_ && watch_ == nullptr && left != absl::InfiniteDuration()) {
    Watch(left);
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
  if (action.wake != nullptr) action.wake->Wake();
  if (action.write.has_value()) {
    current_ = *std::move(action.write);
    StartWrite(&current_);
  } else if (action.finish.has_value()) {
    // Who has heard of the end may ask again at once.
    pass_.Leave();
    meter_.End(action.finish->error_code());
    Finish(*std::move(action.finish));
  }
}

}  // namespace kvasir

#include "server/progress_reactor.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/clock.h"
#include "server/call_metadata.h"
#include "server/request_parse.h"
#include "server/status_mapping.h"

namespace kvasir {

std::shared_ptr<ProgressReactor> ProgressReactor::Make(
    grpc::CallbackServerContext* context, CallStats* stats,
    std::string_view method) {
  std::shared_ptr<ProgressReactor> reactor(
      new ProgressReactor(context, stats, method));
  reactor->self_ = reactor;
  return reactor;
}

ProgressReactor::ProgressReactor(grpc::CallbackServerContext* context,
                                 CallStats* stats, std::string_view method)
    : context_(context), meter_(stats, method) {}

bool ProgressReactor::Report(absl::FunctionRef<grpc::ByteBuffer()> encode) {
  {
    absl::MutexLock lock(&mu_);
    if (cancelled_) return false;
    const absl::Duration now = Clock::Steady().Now();
    if (end_.has_value() || now - last_report_ < kReportInterval) return true;
    last_report_ = now;
  }
  grpc::ByteBuffer report = encode();
  {
    absl::MutexLock lock(&mu_);
    if (end_.has_value()) return !cancelled_;
    newest_ = std::move(report);
  }
  Go();
  return true;
}

void ProgressReactor::End(const absl::Status& status,
                          const google::protobuf::Message* last) {
  {
    absl::MutexLock lock(&mu_);
    if (end_.has_value()) return;
    end_ = status;
    newest_.reset();
    if (last != nullptr) newest_ = ToBytes(*last);
  }
  Go();
}

void ProgressReactor::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) cancelled_ = true;
  }
  Go();
}

// The operation hears of it with its next report; the call need not wait for
// that.
void ProgressReactor::OnCancel() {
  {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
    if (!end_.has_value()) {
      end_ = absl::CancelledError("the call was cancelled");
    }
  }
  Go();
}

// The operation may have ended on the engine's thread, which does not write
// logs.
void ProgressReactor::OnDone() {
  absl::Status end;
  {
    absl::MutexLock lock(&mu_);
    end = *end_;
  }
  LogAdminCall(meter_.method(), {meter_.NameOfCaller(*context_), change_}, end);
  self_.reset();
}

// Starts what is due: a write, or the end once all is written.
void ProgressReactor::Go() {
  std::optional<absl::Status> end;
  {
    absl::MutexLock lock(&mu_);
    if (writing_ || finished_) return;
    if (newest_.has_value() && !cancelled_) {
      current_ = *std::move(newest_);
      newest_.reset();
      writing_ = true;
    } else if (end_.has_value()) {
      finished_ = true;
      end = end_;
    } else {
      return;
    }
  }
  if (!end.has_value()) return StartWrite(&current_);
  meter_.End(static_cast<grpc::StatusCode>(end->code()));
  if (const auto delay = RetryDelay(*end); delay.has_value() && !end->ok()) {
    context_->AddTrailingMetadata(
        "grpc-retry-pushback-ms",
        absl::StrCat(absl::ToInt64Milliseconds(*delay)));
  }
  Finish(ToGrpcStatus(*end, EchoedRequestId(*context_)));
}

}  // namespace kvasir

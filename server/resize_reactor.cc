#include "server/resize_reactor.h"

#include <utility>

#include "cache/base/clock.h"
#include "server/request_parse.h"
#include "server/resize_codec.h"
#include "server/status_mapping.h"

namespace kvasir {
namespace {

// What the tier's size is when the order is given.
int64_t BlocksNow(const GenerationBackend& backend) {
  const CacheSnapshot cache = backend.Stats().cache;
  return cache.tiers.empty() ? 0 : cache.tiers.front().blocks.total();
}

}  // namespace

std::shared_ptr<ResizeReactor> ResizeReactor::Make(CallStats* stats) {
  std::shared_ptr<ResizeReactor> reactor(new ResizeReactor(stats));
  reactor->self_ = reactor;
  return reactor;
}

ResizeReactor::ResizeReactor(CallStats* stats)
    : meter_(stats, "kvasir.v1.CacheAdmin/ResizeCache") {}

void ResizeReactor::Start(GenerationBackend& backend, ResizeOrder order,
                          std::function<void(int64_t)> on_resized) {
  if (!order.dry_run) on_resized_ = std::move(on_resized);
  {
    absl::MutexLock lock(&mu_);
    start_blocks_ = BlocksNow(backend);
    dry_run_ = order.dry_run;
  }
  order.sink = shared_from_this();
  const absl::Status taken = backend.ResizeCache(std::move(order));
  if (!taken.ok()) Refuse(taken);
}

void ResizeReactor::Refuse(const absl::Status& status) {
  {
    absl::MutexLock lock(&mu_);
    if (!end_.has_value()) end_ = status;
  }
  Go();
}

bool ResizeReactor::OnProgress(const ResizeReport& report) {
  {
    absl::MutexLock lock(&mu_);
    if (cancelled_) return false;
    const absl::Duration now = Clock::Steady().Now();
    if (now - last_report_ < kReportInterval) return true;
    last_report_ = now;
    newest_ = report;
  }
  Go();
  return true;
}

void ResizeReactor::OnEnd(const absl::Status& status,
                          const ResizeReport& report) {
  if (status.ok() && on_resized_) {
    on_resized_(report.block_count * report.block_bytes);
  }
  {
    absl::MutexLock lock(&mu_);
    newest_.reset();
    if (status.ok()) newest_ = report;
    if (!end_.has_value()) end_ = status;
  }
  Go();
}

void ResizeReactor::OnWriteDone(bool ok) {
  {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) cancelled_ = true;
  }
  Go();
}

// The engine hears of it with the next slice; the call need not wait for that.
void ResizeReactor::OnCancel() {
  {
    absl::MutexLock lock(&mu_);
    cancelled_ = true;
    if (!end_.has_value())
      end_ = absl::CancelledError("the call was cancelled");
  }
  Go();
}

void ResizeReactor::OnDone() { self_.reset(); }

// Starts what is due: a write, or the end once all is written.
void ResizeReactor::Go() {
  std::optional<absl::Status> end;
  {
    absl::MutexLock lock(&mu_);
    if (writing_ || finished_) return;
    if (newest_.has_value() && !cancelled_) {
      const char* phase = dry_run_           ? "dry run"
                          : end_.has_value() ? "done"
                          : newest_->waits   ? "waiting"
                                             : "resizing";
      current_ = ToBytes(EncodeResize(*newest_, start_blocks_, phase));
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
  Finish(ToGrpcStatus(*end));
}

}  // namespace kvasir

#include "engine/resize_task.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "engine/sequence_roster.h"

namespace kvasir {
namespace {

absl::Status Dropped() {
  return absl::CancelledError("the resize was called off");
}

}  // namespace

ResizeTask::ResizeTask(KvCache* cache, SequenceRoster* roster)
    : cache_(cache), roster_(roster) {}

void ResizeTask::Begin(ResizeOrder order) {
  KV_CHECK(order.sink != nullptr);
  if (active() && order_->from_blocks.has_value() && !order.dry_run &&
      !order.from_blocks.has_value()) {
    CallOff(absl::CancelledError("another resize took its place"));
    TellEnd();
  }
  if (active()) {
    return order.sink->OnEnd(absl::FailedPreconditionError(absl::StrCat(
                                 "a resize to ", order_->target_blocks,
                                 " blocks is under way, from ", start_blocks_)),
                             DryRun(order));
  }
  absl::Status fits = cache_->CheckTarget(order.target_blocks);
  const int64_t present = cache_->resize().block_count;
  if (order.from_blocks.value_or(present) != present) {
    fits = absl::FailedPreconditionError(
        absl::StrCat("the order is for a cache of ", *order.from_blocks,
                     " blocks, found ", present));
  }
  if (fits.ok() && order.all_or_nothing) {
    fits = CheckReachable(order, present);
  }
  if (!fits.ok() || order.dry_run) {
    return order.sink->OnEnd(fits, DryRun(order));
  }
  order_ = std::move(order);
  start_blocks_ = present;
  preempted_ = 0;
  before_ = cache_->Snapshot().counters;
}

int64_t ResizeTask::Continue() {
  if (!active()) return 0;
  // Prefixes may have been pinned since it began.
  if (cache_->PinnedPrefixBlocks() >= order_->target_blocks) {
    CallOff(cache_->CheckTarget(order_->target_blocks));
    return 0;
  }
  const int64_t preempted =
      order_->strategy == ResizeStrategy::kPreempt ? PreemptUntilFits() : 0;
  preempted_ += preempted;
  const int64_t target = TargetNow();
  if (cache_->resize().target_blocks != target) {
    const absl::Status set = cache_->SetTarget(target);
    KV_CHECK(set.ok()) << set;
  }
  const absl::Status status = cache_->ContinueResize();
  if (!status.ok()) {
    End(status);
  } else if (cache_->resize().block_count == order_->target_blocks) {
    End(absl::OkStatus());
  } else if (!order_->sink->OnProgress(Report())) {
    CallOff(Dropped());
  }
  return preempted;
}

void ResizeTask::CallOff(const absl::Status& why) {
  if (!active()) return;
  const absl::Status stays = cache_->SetTarget(cache_->resize().block_count);
  KV_CHECK(stays.ok()) << stays;
  End(why);
}

int64_t ResizeTask::PromisedBlocks() const {
  const int64_t there = cache_->Capacity().total_blocks;
  return active() ? std::min(there, order_->target_blocks) : there;
}

CapacityView ResizeTask::ForAdmission() const {
  CapacityView capacity = cache_->Capacity();
  const int64_t extra_blocks = capacity.total_blocks - PromisedBlocks();
  capacity.total_blocks -= extra_blocks;
  // Cached blocks are what has to go for it, then free ones are missing.
  const int64_t extra = extra_blocks * capacity.pieces_per_block;
  const int64_t cached = std::min(capacity.cached_pieces, extra);
  capacity.cached_pieces -= cached;
  capacity.free_pieces =
      std::max<int64_t>(capacity.free_pieces - (extra - cached), 0);
  return capacity;
}

// Where the pool should be on its way. Unless they are to give way, running
// sequences keep room for their known tokens and the next block; and the pool
// is not closed over one that alone would not fit any more, so that each can
// end, if not without being preempted in between.
int64_t ResizeTask::TargetNow(const ResizeOrder& order,
                              int64_t start_blocks) const {
  const int64_t target = order.target_blocks;
  if (target >= start_blocks || order.strategy == ResizeStrategy::kPreempt) {
    return target;
  }
  const int64_t needed = NeededBlocks(target);
  if (needed <= target && EachCanEndIn(target)) return target;
  if (order.strategy == ResizeStrategy::kWait) return start_blocks;
  return std::clamp(needed, target + 1, start_blocks);
}

absl::Status ResizeTask::CheckReachable(const ResizeOrder& order,
                                        int64_t present) const {
  const int64_t target = order.target_blocks;
  if (TargetNow(order, present) == target) return absl::OkStatus();
  const int64_t needed = NeededBlocks(target);
  const std::string now =
      needed > target
          ? absl::StrCat("of which ", needed, " are needed now")
          : absl::StrCat("of which ", needed,
                         " are needed now, and more until each request ends");
  return absl::FailedPreconditionError(
      absl::StrCat("wanted ", target, " blocks, found ", present, ", ", now));
}

int64_t ResizeTask::NeededBlocks(int64_t target) const {
  const KvLayout& layout = cache_->layout();
  const int64_t block = layout.PiecesPerBlock();
  int64_t needed = (PinnedBlocks() + cache_->KeptBlocksAtRest(target)) * block;
  for (const std::unique_ptr<Sequence>& sequence : roster_->running()) {
    needed += layout.PiecesFor(sequence->known_count()) + block -
              sequence->lease().piece_count();
  }
  return (needed + block - 1) / block;
}

bool ResizeTask::EachCanEndIn(int64_t blocks) const {
  blocks -= cache_->KeptBlocks(blocks);
  const auto fits = [&](const std::unique_ptr<Sequence>& sequence) {
    const int64_t own =
        sequence->running() ? cache_->PinnedPrefixBlocks(sequence->lease()) : 0;
    return cache_->layout().BlocksFor(sequence->most_tokens()) - own <= blocks;
  };
  const auto fits_or_begins = [&](const std::unique_ptr<Sequence>& sequence) {
    return !sequence->preempted() || fits(sequence);
  };
  return absl::c_all_of(roster_->running(), fits) &&
         absl::c_all_of(roster_->waiting(), fits_or_begins);
}

int64_t ResizeTask::PreemptUntilFits() {
  int64_t count = 0;
  const int64_t kept = cache_->KeptBlocksAtRest(order_->target_blocks);
  while (PinnedBlocks() + kept > order_->target_blocks &&
         !roster_->running().empty()) {
    roster_->PreemptLast();
    ++count;
  }
  return count;
}

int64_t ResizeTask::PinnedBlocks() const {
  return cache_->resize().pinned_blocks;
}

ResizeReport ResizeTask::DryRun(const ResizeOrder& order) const {
  // What pins and floors keep makes no room either.
  const int64_t kept = cache_->KeptBlocksAtRest(order.target_blocks);
  const int64_t pinned = PinnedBlocks() + kept;
  const int64_t cached = std::max<int64_t>(
      cache_->Snapshot().tiers.front().blocks.cached - kept, 0);
  ResizeReport report = Report();
  report.target_blocks = order.target_blocks;
  report.waiting_blocks = std::max<int64_t>(pinned - order.target_blocks, 0);
  report.evicted_blocks =
      std::clamp<int64_t>(pinned + cached - order.target_blocks, 0, cached);
  report.relocated_blocks = 0;
  report.preempted_count = 0;
  if (order.strategy == ResizeStrategy::kPreempt) CountPreemptible(report);
  return report;
}

// Blocks that several sequences share are counted with the youngest of them.
void ResizeTask::CountPreemptible(ResizeReport& report) const {
  int64_t missing = report.waiting_blocks * cache_->layout().PiecesPerBlock();
  const auto& running = roster_->running();
  for (auto it = running.rbegin(); it != running.rend() && missing > 0; ++it) {
    missing -= (*it)->lease().piece_count();
    ++report.preempted_count;
  }
}

ResizeReport ResizeTask::Report() const {
  const ResizeProgress progress = cache_->resize();
  const CacheCounters now = cache_->Snapshot().counters;
  ResizeReport report;
  report.target_blocks =
      active() ? order_->target_blocks : progress.target_blocks;
  report.block_count = progress.block_count;
  report.block_bytes = cache_->layout().BlockBytes();
  report.waits = active() && TargetNow() != order_->target_blocks;
  const int64_t kept =
      active() ? cache_->KeptBlocksAtRest(report.target_blocks) : 0;
  report.waiting_blocks =
      std::max<int64_t>(PinnedBlocks() + kept - report.target_blocks, 0);
  report.evicted_blocks = now.evicted[EvictionCause::kResize] -
                          before_.evicted[EvictionCause::kResize];
  report.relocated_blocks = now.relocated_blocks - before_.relocated_blocks;
  report.preempted_count = preempted_;
  return report;
}

void ResizeTask::End(const absl::Status& status) {
  const ResizeReport report = Report();
  ended_ = {std::move(order_->sink), status, report};
  order_.reset();
}

void ResizeTask::TellEnd() {
  if (!ended_.has_value()) return;
  const Ended ended = *std::move(ended_);
  ended_.reset();
  ended.sink->OnEnd(ended.status, ended.report);
}

}  // namespace kvasir

#include "cache/resize_planner.h"

#include <algorithm>

#include "cache/base/check.h"

namespace kvasir {
namespace {

int64_t WholeBlocks(int64_t bytes, int64_t block_bytes) {
  return bytes / block_bytes * block_bytes;
}

int64_t WholeBlocksUp(int64_t bytes, int64_t block_bytes) {
  return WholeBlocks(bytes + block_bytes - 1, block_bytes);
}

int64_t Step(const SizingView& view) {
  return std::max(view.cache / kStepDivisor, view.block_bytes);
}

// What stalls leave of the cache: only pages that were touched relieve
// anybody, but one look is not enough to give up most of it.
int64_t UnderStalls(const SizingView& view) {
  const int64_t touched = std::min(view.cache, view.resident);
  return std::max(touched - Step(view), view.cache / 2);
}

bool Stalled(const SizingView& view) {
  return view.some_stalled >= kSomeStalledLimit ||
         view.all_stalled >= kAllStalledLimit;
}

SizingDecision Shrink(const SizingView& view) {
  int64_t target = view.cache;
  ResizeCause cause = ResizeCause::kNone;
  if (Stalled(view) && view.since_change >= kStallSettleTime) {
    target = UnderStalls(view);
    cause = ResizeCause::kPressure;
  }
  const int64_t free_reserve = view.left - view.cache + view.reserve;
  if (free_reserve < view.reserve / 4 * 3 && view.since_change >= kSettleTime &&
      view.left < target) {
    target = view.left;
    cause = ResizeCause::kLimit;
  }
  const int64_t lowest = std::max({view.floor, view.held, view.block_bytes});
  target = std::max(WholeBlocks(std::max<int64_t>(target, 0), view.block_bytes),
                    WholeBlocksUp(lowest, view.block_bytes));
  if (target >= view.cache) return {view.cache, ResizeCause::kNone};
  return {target, cause};
}

SizingDecision Grow(const SizingView& view) {
  const SizingDecision stays = {view.cache, ResizeCause::kNone};
  if (view.calm < view.calm_needed || view.some_stalled > kCalmStalled)
    return stays;
  const int64_t most =
      WholeBlocks(std::min(view.room, view.ceiling), view.block_bytes);
  // The ceiling stands still, so that one may grow to it; what is left moves.
  const int64_t least = view.room >= view.ceiling
                            ? view.block_bytes
                            : std::max(view.reserve / 4, view.block_bytes);
  if (most - view.cache < least) return stays;
  return {
      WholeBlocks(std::min(view.cache + Step(view), most), view.block_bytes),
      ResizeCause::kRoom};
}

}  // namespace

CacheBudget BudgetFor(const MemoryShares& shares) {
  CacheBudget budget;
  budget.limit = shares.limit;
  budget.weights = shares.weights;
  budget.others = std::max<int64_t>(
      shares.used - shares.cache_resident - shares.weights, 0);
  budget.reserve = std::clamp(shares.limit / kReserveDivisor, kMinReserveBytes,
                              kMaxReserveBytes);
  budget.left = budget.limit - budget.weights - budget.others - budget.reserve;
  return budget;
}

int64_t CacheWithin(int64_t left, double share, int64_t block_bytes) {
  KV_CHECK(share >= 0 && share <= 1 && block_bytes > 0)
      << share << " of " << block_bytes;
  if (left <= 0) return 0;
  const auto bytes = static_cast<int64_t>(static_cast<double>(left) * share);
  return bytes / (block_bytes + kBookkeepingBytesPerBlock) * block_bytes;
}

SizingDecision PlanCacheSize(const SizingView& view) {
  KV_CHECK(view.block_bytes > 0 && view.cache % view.block_bytes == 0)
      << view.cache << " bytes of blocks of " << view.block_bytes;
  const SizingDecision shrink = Shrink(view);
  return shrink.cause != ResizeCause::kNone ? shrink : Grow(view);
}

absl::Duration CalmNeededAfter(ResizeCause previous, ResizeCause now,
                               absl::Duration needed) {
  const bool taken_back = previous == ResizeCause::kRoom &&
                          now != ResizeCause::kRoom &&
                          now != ResizeCause::kNone;
  return taken_back ? std::min(needed * 2, kMaxCalmTime) : needed;
}

}  // namespace kvasir

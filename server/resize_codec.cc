#include "server/resize_codec.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "server/text.h"
#include "server/version_choice.h"

namespace kvasir {
namespace {

absl::StatusOr<ResizeStrategy> DecodeStrategy(v1::ResizeStrategy wire) {
  switch (wire) {
    case v1::RESIZE_STRATEGY_WAIT:
      return ResizeStrategy::kWait;
    case v1::RESIZE_STRATEGY_UNSPECIFIED:
    case v1::RESIZE_STRATEGY_EVICT:
      return ResizeStrategy::kEvict;
    case v1::RESIZE_STRATEGY_PREEMPT:
      return ResizeStrategy::kPreempt;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("strategy: wanted WAIT, EVICT or PREEMPT, found number ",
                       static_cast<int>(wire)));
  }
}

absl::StatusOr<int64_t> DecodeBlocks(const v1::ResizeCacheRequest& wire,
                                     int64_t block_bytes, int64_t limit) {
  int64_t bytes = 0;
  switch (wire.target_case()) {
    case v1::ResizeCacheRequest::kBlocks:
      if (wire.blocks() >= 1) return wire.blocks();
      return absl::InvalidArgumentError(
          absl::StrCat("blocks: wanted at least 1, found ", wire.blocks()));
    case v1::ResizeCacheRequest::kBytes:
      bytes = wire.bytes();
      break;
    case v1::ResizeCacheRequest::kRatio:
      // Not "out of the range", so that NaN is refused too.
      if (!(wire.ratio() > 0 && wire.ratio() <= 1)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "ratio: wanted a share in (0, 1], found ", wire.ratio()));
      }
      bytes = static_cast<int64_t>(wire.ratio() * static_cast<double>(limit));
      break;
    case v1::ResizeCacheRequest::TARGET_NOT_SET:
      return absl::InvalidArgumentError(
          "target: wanted bytes, blocks or ratio, found none");
  }
  if (bytes >= block_bytes) return bytes / block_bytes;
  return absl::InvalidArgumentError(
      absl::StrCat("target: wanted at least one block of ", block_bytes,
                   " bytes, found ", bytes, " bytes"));
}

}  // namespace

absl::StatusOr<ResizeOrder> DecodeResize(const v1::ResizeCacheRequest& wire,
                                         const GenerationBackend& backend,
                                         const CacheRoom& room) {
  RETURN_IF_ERROR(ChooseVersion(backend, wire.model(), "").status());
  if (wire.tier() != v1::CACHE_TIER_UNSPECIFIED &&
      wire.tier() != v1::CACHE_TIER_DEVICE) {
    return absl::UnimplementedError(
        absl::StrCat("tier: this server has the tier DEVICE, found number ",
                     static_cast<int>(wire.tier())));
  }
  ResizeOrder order;
  ASSIGN_OR_RETURN(order.strategy, DecodeStrategy(wire.strategy()));
  const int64_t left = std::max<int64_t>(room.budget.left, 0);
  const CacheSnapshot cache = backend.Stats().cache;
  const TierSnapshot tier = cache.tiers.empty() ? TierSnapshot{.block_bytes = 1}
                                                : cache.tiers.front();
  ASSIGN_OR_RETURN(order.target_blocks,
                   DecodeBlocks(wire, tier.block_bytes, left));
  // To commit memory costs none, so the system would not refuse it: it would
  // end the process once the blocks are filled. To shrink is always right.
  const int64_t most = left / tier.block_bytes;
  if (order.target_blocks > std::max(most, tier.blocks.total())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "target: wanted at most ", most, " blocks of ", tier.block_bytes,
        " bytes (", FormatBytes(left), " left of ", Explain(room), "), found ",
        order.target_blocks));
  }
  order.dry_run = wire.dry_run();
  return order;
}

v1::ResizeCacheResponse EncodeResize(const ResizeReport& report,
                                     int64_t start_blocks,
                                     absl::string_view phase) {
  v1::ResizeCacheResponse wire;
  v1::OperationProgress& progress = *wire.mutable_progress();
  progress.set_phase(std::string(phase));
  progress.set_total_count(std::abs(report.target_blocks - start_blocks));
  progress.set_done_count(std::min(std::abs(report.block_count - start_blocks),
                                   progress.total_count()));
  progress.set_byte_count(report.relocated_blocks * report.block_bytes);
  wire.set_target_bytes(report.target_blocks * report.block_bytes);
  wire.set_current_bytes(report.block_count * report.block_bytes);
  wire.set_evicted_block_count(report.evicted_blocks);
  wire.set_preempted_count(report.preempted_count);
  wire.set_waiting_block_count(report.waiting_blocks);
  return wire;
}

}  // namespace kvasir

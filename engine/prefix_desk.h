#ifndef KVASIR_ENGINE_PREFIX_DESK_H_
#define KVASIR_ENGINE_PREFIX_DESK_H_

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "cache/kv_cache.h"
#include "cache/prefix_info.h"
#include "cache/prefix_walk.h"
#include "engine/prefix_order.h"
#include "engine/version_order.h"

namespace kvasir {

// One moment on both clocks, so that the cache's steady times can be told as
// those on the wall.
struct ClockReading {
  absl::Duration steady;
  absl::Time wall;
};

// To tell the longest prefixes and the pinned ones that are meant. Plain value,
// carried from slice to slice.
struct PrefixListOrder {
  PrefixSelection selection;
  // In no order; one that a resize moved may be there twice. A deque, because
  // there may be many and none is to be moved when more come.
  std::deque<CachedPrefix> found = {};

  std::optional<std::vector<PrefixFilter>> filters = {};  // still to come
  PrefixListing listing = {};
};

// What an order found, once it is done, in the order of their ids and each
// once. Any thread: sorting many of them takes longer than the engine may be
// kept.
std::vector<CachedPrefix> TakeSorted(PrefixListOrder& order);

// To drop what is meant; see PrefixSweep.
struct PrefixSweepOrder {
  PrefixSelection selection;
  bool dry_run = false;
  bool flush = false;  // pinned ones too; what requests hold loses its pin
  EvictedPrefixes evicted = {};

  std::optional<std::vector<PrefixFilter>> filters = {};  // still to come
  PrefixSweep sweep = {};
};

// Translates between operators, who know names and the time of day, and the
// cache, which knows keys, ids and steady time. Made for one order at one
// moment; engine thread only.
//
// An id may be any leading digits, at least kMinPrefixIdDigits, that only one
// prefix among those that List() tells has; any other prefix needs all digits.
// INVALID_ARGUMENT for what is no id or not unique, NOT_FOUND for a prefix that
// is not cached.
class PrefixDesk {
 public:
  // `versions` are those that are resident. The cache outlives the desk.
  PrefixDesk(KvCache* cache, std::vector<VersionInfo> versions,
             const ClockReading& now)
      : cache_(cache), versions_(std::move(versions)), now_(now) {}

  // Does a slice of the order, short enough to go between two steps; true when
  // it is done. NOT_FOUND for a model or a version that is not resident.
  absl::StatusOr<bool> Continue(PrefixListOrder& order) const;
  absl::StatusOr<bool> Continue(PrefixSweepOrder& order);

  absl::StatusOr<CachedPrefix> Get(std::string_view id) const;
  // `ttl` from now, which may be infinite. RESOURCE_EXHAUSTED if pins would
  // keep too much of the cache.
  absl::StatusOr<CachedPrefix> Pin(std::string_view id, absl::Duration ttl);
  // FAILED_PRECONDITION if it is not pinned.
  absl::StatusOr<CachedPrefix> Unpin(std::string_view id);
  // See PrefixAdmin::Evict(). Nothing is done if one of the ids is wrong.
  absl::StatusOr<EvictedPrefixes> Evict(absl::Span<const std::string> ids,
                                        bool dry_run);

 private:
  absl::StatusOr<std::vector<PrefixFilter>> FiltersOf(
      const PrefixSelection& selection) const;
  absl::StatusOr<BlockKey> KeyOf(std::string_view id) const;
  CachedPrefix Describe(const PrefixInfo& info) const;
  absl::Time WallTime(absl::Duration steady) const;
  EvictedPrefixes Report(const PrefixEviction& eviction) const;

  KvCache* const cache_;
  const std::vector<VersionInfo> versions_;
  const ClockReading now_;
};

// Gives the tenants of a new cache their quotas. INVALID_ARGUMENT or
// RESOURCE_EXHAUSTED, "tenant_quotas: ...", for those that make no sense or do
// not fit; see KvCache::SetTenantQuota(). It tells whose by HashSalt().
absl::Status ApplyTenantQuotas(absl::Span<const TenantShare> tenants,
                               KvCache& cache);

// Gives tenants these quotas in place of those that were applied before. If one
// cannot be applied, all are as they were, as far as they still fit.
absl::Status ReplaceTenantQuotas(absl::Span<const TenantShare> before,
                                 absl::Span<const TenantShare> tenants,
                                 KvCache& cache);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_PREFIX_DESK_H_

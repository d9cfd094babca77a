#ifndef KVASIR_ENGINE_PREFIX_DESK_H_
#define KVASIR_ENGINE_PREFIX_DESK_H_

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
#include "engine/prefix_order.h"
#include "engine/version_order.h"

namespace kvasir {

// One moment on both clocks, so that the cache's steady times can be told as
// those on the wall.
struct ClockReading {
  absl::Duration steady;
  absl::Time wall;
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

  // The longest prefixes and the pinned ones, in the order of their ids. All of
  // these: NOT_FOUND for a model or a version that is not resident.
  absl::StatusOr<std::vector<CachedPrefix>> List(
      const PrefixSelection& selection) const;
  absl::StatusOr<EvictedPrefixes> Evict(const PrefixSelection& selection,
                                        bool dry_run);
  // Pinned ones too; what requests hold stays, without its pin.
  absl::StatusOr<EvictedPrefixes> Flush(const PrefixSelection& selection);

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
// not fit; see KvCache::SetTenantQuota().
absl::Status ApplyTenantQuotas(absl::Span<const TenantShare> tenants,
                               KvCache& cache);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_PREFIX_DESK_H_

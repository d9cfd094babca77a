#ifndef KVASIR_CACHE_RETENTION_H_
#define KVASIR_CACHE_RETENTION_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"

namespace kvasir {

inline constexpr int32_t kMinRetentionPriority = 0;
inline constexpr int32_t kMaxRetentionPriority = 100;
inline constexpr int32_t kDefaultRetentionPriority = 50;

// How long a prefix is to be kept that nobody holds. Plain value.
//
// Blocks of a higher priority go after all those of a lower one, whatever the
// policy says; among equals the policy decides. After `ttl` without a lease
// that asks for it again, a prefix is dropped.
struct Retention {
  int32_t priority = kDefaultRetentionPriority;
  absl::Duration ttl = absl::InfiniteDuration();
  friend bool operator==(const Retention&, const Retention&) = default;
};

// A tenant, which is a salt, with a quota; the others share what is left and
// are told apart no further.
using TenantIndex = int32_t;
inline constexpr TenantIndex kNoTenant = -1;
inline constexpr int64_t kMaxQuotaTenants = 64;

// Of the blocks that there are, what pins and floors together may keep from
// requests. Floors shrink with the pool where they would be more.
inline constexpr int64_t kMaxKeptPercent = 75;

// How many findable blocks a tenant may count on and keep. A ratio above 0
// stands instead of its number of blocks, and is of the blocks that there are
// at any time. Plain value.
struct TenantQuota {
  int64_t floor_blocks = 0;  // nobody else pushes it below this
  int64_t max_blocks = 0;  // what is beyond goes when nobody holds it; 0: none
  double floor_ratio = 0;
  double max_ratio = 0;

  int64_t FloorOf(int64_t total) const {
    return floor_ratio > 0 ? static_cast<int64_t>(floor_ratio * total)
                           : floor_blocks;
  }
  // In blocks alone, of `total` ones. A limit is one block at the least, and a
  // floor never above it.
  TenantQuota Of(int64_t total) const {
    TenantQuota fixed{.floor_blocks = FloorOf(total), .max_blocks = max_blocks};
    if (max_ratio > 0) {
      fixed.max_blocks =
          std::max<int64_t>(static_cast<int64_t>(max_ratio * total), 1);
    }
    if (fixed.max_blocks > 0) {
      fixed.floor_blocks = std::min(fixed.floor_blocks, fixed.max_blocks);
    }
    return fixed;
  }
  friend bool operator==(const TenantQuota&, const TenantQuota&) = default;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_RETENTION_H_

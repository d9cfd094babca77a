#ifndef KVASIR_CACHE_RETENTION_H_
#define KVASIR_CACHE_RETENTION_H_

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

}  // namespace kvasir

#endif  // KVASIR_CACHE_RETENTION_H_

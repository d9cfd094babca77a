#ifndef KVASIR_CACHE_EVICTION_COUNTS_H_
#define KVASIR_CACHE_EVICTION_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace kvasir {

// Why a cached block was dropped. Also the values of the metric label `reason`.
enum class EvictionCause : uint8_t {
  kCapacity,  // a step needed its room
  kTtl,       // its time to live was over
  kQuota,     // its tenant or version kept more than its quota
  kVersion,   // its version retired
  kFlush,     // an operator dropped everything
  kResize,    // the pool became smaller
  kNamed,     // an operator named it
  kCanary,    // it was not what a new computation gave, or found through one
};
inline constexpr size_t kEvictionCauseCount = 8;

constexpr absl::string_view EvictionCauseName(EvictionCause cause) {
  constexpr absl::string_view kNames[kEvictionCauseCount] = {
      "capacity", "ttl",    "quota", "version",
      "flush",    "resize", "named", "canary"};
  return kNames[static_cast<size_t>(cause)];
}

// Blocks dropped, by cause; totals that only grow. Plain value.
struct EvictionCounts {
  std::array<int64_t, kEvictionCauseCount> by_cause{};

  int64_t& operator[](EvictionCause cause) {
    return by_cause[static_cast<size_t>(cause)];
  }
  int64_t operator[](EvictionCause cause) const {
    return by_cause[static_cast<size_t>(cause)];
  }
  int64_t total() const {
    int64_t sum = 0;
    for (const int64_t count : by_cause) sum += count;
    return sum;
  }
  friend bool operator==(const EvictionCounts&,
                         const EvictionCounts&) = default;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_EVICTION_COUNTS_H_

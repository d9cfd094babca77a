#ifndef KVASIR_CACHE_RESIZE_PLANNER_H_
#define KVASIR_CACHE_RESIZE_PLANNER_H_

#include <cstdint>

#include "absl/time/time.h"

namespace kvasir {

// How large the cache may be beside everything else under a limit on memory,
// and when it changes its size by itself. Pure functions of plain values: they
// read no file and no clock, and whoever calls them does the moving.

// What there is of memory under one limit, and who has it. Bytes.
struct MemoryShares {
  int64_t limit = 0;
  // Of it by everyone, with the weights and what of the cache has been touched,
  // without page cache that the system can drop. 0: nobody counts.
  int64_t used = 0;
  int64_t weights = 0;         // that stay in memory beside the cache
  int64_t cache_resident = 0;  // of the cache, that has been touched
};

// What is left for the cache, and where the rest of the limit goes:
// limit = weights + others + reserve + left. Bytes.
struct CacheBudget {
  int64_t limit = 0;
  int64_t weights = 0;
  int64_t others = 0;   // used by all but weights and cache
  int64_t reserve = 0;  // for what is still to come: buffers, bookkeeping
  int64_t left = 0;     // negative if the rest is too much already
};

// The reserve is this share of the limit, within bounds: below the lower one
// the buffers of a few calls are too much, above the upper one it is waste.
inline constexpr int64_t kReserveDivisor = 16;
inline constexpr int64_t kMinReserveBytes = int64_t{32} << 20;
inline constexpr int64_t kMaxReserveBytes = int64_t{2} << 30;

CacheBudget BudgetFor(const MemoryShares& shares);

// What the index, the pool and the eviction order take per block beside it.
inline constexpr int64_t kBookkeepingBytesPerBlock = 512;

// The largest cache of whole blocks, in bytes, that takes at most `share` of
// `left` with its bookkeeping; 0 if not even one block does.
int64_t CacheWithin(int64_t left, double share, int64_t block_bytes);

// Why the size changes.
enum class ResizeCause : uint8_t {
  kNone,      // it does not
  kLimit,     // the reserve is being eaten: less is left than it takes
  kPressure,  // tasks wait for memory
  kRoom,      // it has been calm for long, and there is room
};

// Stalls that the cache answers, and those that are none.
inline constexpr double kSomeStalledLimit = 0.10;
inline constexpr double kAllStalledLimit = 0.05;
inline constexpr double kCalmStalled = 0.01;

// A shrink is to show in what is measured before the next one: at once in the
// use, after the ten seconds of its average in the stalls.
inline constexpr absl::Duration kSettleTime = absl::Seconds(2);
inline constexpr absl::Duration kStallSettleTime = absl::Seconds(10);
// Growing is in no hurry: what is cached returns only with traffic. Where it
// was wrong, the next try waits longer; see CalmNeededAfter().
inline constexpr absl::Duration kCalmTime = absl::Seconds(30);
inline constexpr absl::Duration kMaxCalmTime = absl::Hours(1);

// A step up or down is this share of the cache.
inline constexpr int64_t kStepDivisor = 8;

// What is known at one moment. Bytes, ratios in [0, 1].
struct SizingView {
  int64_t left = 0;     // CacheBudget::left of the tightest limit
  int64_t reserve = 0;  // and its reserve
  int64_t room = 0;     // that the cache may grow to; at most `left`
  // Share of the last ten seconds in which some task, or all at a time, waited
  // for memory (PSI's avg10).
  double some_stalled = 0;
  double all_stalled = 0;
  int64_t cache = 0;     // its size, whole blocks
  int64_t resident = 0;  // of it, that has been touched
  int64_t held = 0;      // of it, by requests
  int64_t floor = 0;
  int64_t ceiling = 0;  // at least the floor
  int64_t block_bytes = 1;
  absl::Duration since_change;             // of the size, by anybody
  absl::Duration calm;                     // without change or stall
  absl::Duration calm_needed = kCalmTime;  // before it grows
};

struct SizingDecision {
  int64_t target = 0;  // whole blocks; the present size if there is no cause
  ResizeCause cause = ResizeCause::kNone;
};

// Whether and how far the cache should change its size now.
//
// It shrinks to what is left when three quarters of the reserve or less are
// free beside it, and it grows, a step at a time, where a quarter of the
// reserve or more is to be won; so a wobble of less than a quarter costs
// nothing, and what one rule does the other does not undo. Under stalls it
// gives up a step of what it has touched, at most half of its size. It never
// goes below the floor or what requests hold, nor above the ceiling.
SizingDecision PlanCacheSize(const SizingView& view);

// The calm that the next growth needs, after one cause followed another and
// `needed` held so far: twice as long if a growth had to be taken back, so that
// growing and shrinking do not take turns for ever.
absl::Duration CalmNeededAfter(ResizeCause previous, ResizeCause now,
                               absl::Duration needed);

}  // namespace kvasir

#endif  // KVASIR_CACHE_RESIZE_PLANNER_H_

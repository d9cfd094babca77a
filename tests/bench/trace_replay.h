#ifndef KVASIR_TESTS_BENCH_TRACE_REPLAY_H_
#define KVASIR_TESTS_BENCH_TRACE_REPLAY_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "cache/eviction_policy.h"
#include "tests/bench/block_trace.h"

namespace kvasir::bench {

inline constexpr int64_t kMaxReplayCapacity = int64_t{1} << 24;

struct ReplayResult {
  int64_t references = 0;  // blocks of all requests, whether looked up or not
  int64_t hits = 0;        // of these, found before the request's first miss

  double hit_ratio() const {
    return static_cast<double>(hits) / static_cast<double>(references);
  }
};

// Replays the trace through a PrefixCache, a block of the trace being a block
// of the cache: the blocks of a request are looked up until the first that is
// missing, the others inserted; then the request lets go of them all.
//
// A request takes no time in such a trace. So it does not compete with what is
// cached: it has room of its own until it ends, and `capacity` (1 to
// kMaxReplayCapacity) says how many blocks stay between requests. Blocks leave
// from the ends of prefixes, as they do in the cache. With this accounting the
// ratios of LRU, LFU and Belady are those that others computed for the
// conversation trace; with pinned requests inside the capacity LFU hits less.
absl::StatusOr<ReplayResult> Replay(const BlockTrace& trace, int64_t capacity,
                                    std::unique_ptr<EvictionPolicy> policy);

}  // namespace kvasir::bench

#endif  // KVASIR_TESTS_BENCH_TRACE_REPLAY_H_

#ifndef KVASIR_TESTS_BENCH_REPLAY_POLICIES_H_
#define KVASIR_TESTS_BENCH_REPLAY_POLICIES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "cache/eviction_policy.h"
#include "tests/bench/block_trace.h"

namespace kvasir::bench {

// Policies of the cache, and others that they are measured against. An operator
// has no use for these: lfu and gdsf never forget a block, so that their memory
// grows without bound, and belady knows the future.
//
//   lfu     least often used since the beginning first; ties: oldest
//   slru    segmented LRU: blocks that were hit have 80 % for themselves
//   gdsf    Cherkasova, "Improving WWW proxies performance with greedy-dual-
//           size-frequency caching policy" (1998); all sizes are equal
//   belady  Belady, "A study of replacement algorithms for a virtual-storage
//           computer" (1966): what is used again the latest first
inline constexpr absl::string_view kReplayPolicies[] = {
    "adaptive", "lru", "lfu", "slru", "gdsf", "belady"};

// INVALID_ARGUMENT for a name that is not in kReplayPolicies. belady expects
// that tick t refers to the blocks of request t, one after the other; `trace`
// must outlive it.
absl::StatusOr<std::unique_ptr<EvictionPolicy>> MakeReplayPolicy(
    absl::string_view name, const BlockTrace& trace);

}  // namespace kvasir::bench

#endif  // KVASIR_TESTS_BENCH_REPLAY_POLICIES_H_

#ifndef KVASIR_SERVER_CACHE_SIZING_H_
#define KVASIR_SERVER_CACHE_SIZING_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/resize_planner.h"
#include "engine/engine.h"
#include "server/memory_limit.h"

namespace kvasir {

// What the operator says of the cache's size, beside EngineOptions::cache_bytes
// and cache_blocks. Plain value.
struct CacheSizing {
  // Of what the limits leave beside weights, others and reserve; 0: the size
  // is given in bytes or blocks, or is for the server to choose.
  double share = 0;
  int64_t floor_bytes = 0;    // 0: an eighth of the size at start, see FloorFor
  int64_t ceiling_bytes = 0;  // 0: the size that is given, else what is left
  bool auto_resize = false;
  std::string system_root;  // test hook: where /proc and /sys are
};

// The share that the server chooses. A control group with a limit is made for
// this process; a host has other inhabitants.
inline constexpr double kAutoShareOfGroup = 0.9;
inline constexpr double kAutoShareOfHost = 0.5;
// The most blocks that it chooses: bookkeeping and scrapes grow with them.
inline constexpr int64_t kMaxAutomaticBlocks = int64_t{1} << 20;

// What the limits leave for the cache.
struct CacheRoom {
  MemoryLimit limit;   // the one that leaves least
  CacheBudget budget;  // of that one
  // What a cache that is not given in bytes may grow to: the least of each
  // limit's share of what it leaves.
  int64_t room_bytes = 0;
};

// `shares.limit` and `shares.used` are filled in from each of the limits.
CacheRoom FindRoom(const MemoryState& state, const CacheSizing& sizing,
                   MemoryShares shares, int64_t block_bytes);

// "512 MiB (cgroup /sys/fs/cgroup/memory.max), less 105 MiB of weights, ...".
std::string Explain(const CacheRoom& room);

struct SizedCache {
  int64_t bytes = 0;
  int64_t ceiling_bytes = 0;  // for later
  CacheRoom room;
  bool over_budget = false;  // it eats into the reserve, or more
};

// How large the cache is at start (RES-1). RESOURCE_EXHAUSTED with wanted and
// found if a size that was given is more than a limit less the weights, which
// can never hold, or if nothing is left for one that was not.
absl::StatusOr<SizedCache> SizeCacheAtStart(const MemoryState& state,
                                            const CacheSizing& sizing,
                                            const CacheSizeQuery& query);

// What the weights of these versions take; a revision that several of them
// share counts once.
int64_t ResidentWeightBytes(absl::Span<const VersionInfo> versions);

// A cache that further weights are to fit beside. Bytes.
struct CacheBeside {
  int64_t cache = 0;  // its size, whole blocks
  int64_t least = 0;  // that it may be shrunk to for them
  int64_t block_bytes = 1;
};

// How large the cache may be for `weight_bytes` more to fit beside it, in whole
// blocks: as large as it is, or what is left. `room` is without them.
// RESOURCE_EXHAUSTED with wanted, found and the limit if they do not fit beside
// the least cache either (RES-1).
absl::StatusOr<int64_t> SizeCacheBeside(const CacheRoom& room,
                                        const CacheBeside& beside,
                                        int64_t weight_bytes);

// The size that the cache is not shrunk below by itself, where the operator
// names none: an eighth of the size at start, or more to keep room for one
// request of the full context, but at most half of it.
int64_t FloorFor(int64_t start_bytes, int64_t context_bytes);

}  // namespace kvasir

#endif  // KVASIR_SERVER_CACHE_SIZING_H_

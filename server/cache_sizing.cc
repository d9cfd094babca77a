#include "server/cache_sizing.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "server/text.h"

namespace kvasir {
namespace {

double ShareOf(const MemoryLimit& limit, const CacheSizing& sizing) {
  if (sizing.share > 0) return sizing.share;
  return limit.source == "cgroup" ? kAutoShareOfGroup : kAutoShareOfHost;
}

// Of a size that the operator did not give in bytes.
int64_t CeilingFor(const CacheSizing& sizing, int64_t block_bytes) {
  if (sizing.ceiling_bytes > 0) return sizing.ceiling_bytes;
  return sizing.share > 0 ? std::numeric_limits<int64_t>::max()
                          : kMaxAutomaticBlocks * block_bytes;
}

}  // namespace

CacheRoom FindRoom(const MemoryState& state, const CacheSizing& sizing,
                   MemoryShares shares, int64_t block_bytes) {
  CacheRoom found;
  found.room_bytes = std::numeric_limits<int64_t>::max();
  for (const MemoryLimit& limit : state.limits) {
    shares.limit = limit.bytes;
    shares.used = limit.used_bytes;
    const CacheBudget budget = BudgetFor(shares);
    if (found.limit.source.empty() || budget.left < found.budget.left) {
      found.limit = limit;
      found.budget = budget;
    }
    found.room_bytes =
        std::min(found.room_bytes,
                 CacheWithin(budget.left, ShareOf(limit, sizing), block_bytes));
  }
  return found;
}

std::string Explain(const CacheRoom& room) {
  return absl::StrCat(FormatBytes(room.limit.bytes), " (", room.limit.source,
                      " ", room.limit.file, "), less ",
                      FormatBytes(room.budget.weights), " of weights, ",
                      FormatBytes(room.budget.others), " of others and ",
                      FormatBytes(room.budget.reserve), " of reserve");
}

absl::StatusOr<SizedCache> SizeCacheAtStart(const MemoryState& state,
                                            const CacheSizing& sizing,
                                            const CacheSizeQuery& query) {
  SizedCache sized;
  sized.room = FindRoom(state, sizing, {.weights = query.weight_bytes},
                        query.block_bytes);
  const bool given = query.wanted_bytes > 0;
  if (given) {
    sized.bytes = query.wanted_bytes;
    sized.ceiling_bytes = std::max(sizing.ceiling_bytes, sized.bytes);
  } else {
    sized.ceiling_bytes = CeilingFor(sizing, query.block_bytes);
    sized.bytes = std::clamp(sized.room.room_bytes, sizing.floor_bytes,
                             std::max(sizing.floor_bytes, sized.ceiling_bytes));
    if (sized.bytes < query.block_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cache_bytes: wanted room for a block of ",
                       FormatBytes(query.block_bytes), ", found none in ",
                       Explain(sized.room)));
    }
  }
  const MemoryLimit& tightest = state.Tightest();
  const int64_t most =
      std::max<int64_t>(tightest.bytes - query.weight_bytes, 0);
  if (sized.bytes > most) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cache_bytes: wanted at most ", FormatBytes(most), " (a limit of ",
        FormatBytes(tightest.bytes), " by ", tightest.source, " ",
        tightest.file, ", less ", FormatBytes(query.weight_bytes),
        " of weights), found ", FormatBytes(sized.bytes)));
  }
  sized.over_budget = sized.bytes > sized.room.budget.left;
  return sized;
}

int64_t ResidentWeightBytes(absl::Span<const VersionInfo> versions) {
  absl::flat_hash_set<std::string> seen;
  int64_t bytes = 0;
  for (const VersionInfo& version : versions) {
    if (seen.insert(version.weights_digest).second) {
      bytes += version.weight_bytes;
    }
  }
  return bytes;
}

absl::StatusOr<int64_t> SizeCacheBeside(const CacheRoom& room,
                                        const CacheBeside& beside,
                                        int64_t weight_bytes) {
  const int64_t left = room.budget.left;
  if (weight_bytes <= left - beside.cache) return beside.cache;
  const int64_t target =
      (left - weight_bytes) / beside.block_bytes * beside.block_bytes;
  if (target >= std::max(beside.least, beside.block_bytes) &&
      target < beside.cache) {
    return target;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "model_path: wanted ", FormatBytes(weight_bytes),
      " for its weights, found ",
      FormatBytes(std::max<int64_t>(left - beside.least, 0)), " in ",
      Explain(room), ", less ", FormatBytes(beside.least), " of cache"));
}

int64_t FloorFor(int64_t start_bytes, int64_t context_bytes) {
  return std::max(start_bytes / 8, std::min(context_bytes, start_bytes / 2));
}

}  // namespace kvasir

#ifndef KVASIR_ENGINE_HOT_TABLE_H_
#define KVASIR_ENGINE_HOT_TABLE_H_

#include <vector>

#include "cache/kv_cache.h"
#include "engine/engine_stats.h"

namespace kvasir {

// How many prefixes the table of the hottest shows.
inline constexpr size_t kHotTableSize = 10;

// The hottest prefixes of all these versions. Engine thread.
std::vector<HotPrefixStat> MakeHotTable(
    const KvCache& cache, const std::vector<VersionSnapshot>& versions);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_HOT_TABLE_H_

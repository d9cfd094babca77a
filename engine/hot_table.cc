#include "engine/hot_table.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/prefix_order.h"

namespace kvasir {

std::vector<HotPrefixStat> MakeHotTable(
    const KvCache& cache, const std::vector<VersionSnapshot>& versions) {
  std::vector<HotPrefixStat> table;
  for (const VersionSnapshot& version : versions) {
    for (const HotPrefix& hot :
         cache.HottestPrefixes(version.id, kHotTableSize)) {
      table.push_back({.version = version.id,
                       .id = PrefixName(hot.key),
                       .salt_hash = HashSalt(hot.salt),
                       .tokens = static_cast<int64_t>(hot.tokens.size()),
                       .hits = hot.hits});
    }
  }
  std::stable_sort(table.begin(), table.end(),
                   [](const HotPrefixStat& a, const HotPrefixStat& b) {
                     return a.hits > b.hits;
                   });
  if (table.size() > kHotTableSize) table.resize(kHotTableSize);
  return table;
}

}  // namespace kvasir

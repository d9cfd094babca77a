#ifndef KVASIR_SERVER_SIZE_OPTIONS_H_
#define KVASIR_SERVER_SIZE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/cache_sizing.h"

namespace kvasir {

// The options of the cache's size, rows of cache_options.cc. Errors are
// those of config_values.h.

// What --cache-size says: bytes, a share, or neither for "auto".
struct SizeChoice {
  int64_t bytes = 0;
  double share = 0;
};
absl::StatusOr<SizeChoice> ParseCacheSize(const std::string& text);

// What --cache-floor and --cache-ceiling say: bytes, or 0 for "auto".
absl::StatusOr<int64_t> ParseSizeBound(const std::string& text);

// Sizes that cannot go together, or not with a memory limit.
struct SizeConflict {
  std::string key;     // of the option that is wrong
  std::string wanted;  // instead
};

// As far as it can be said before the weights are loaded. `limit`: the memory
// limit, if it is known.
std::optional<SizeConflict> FindSizeConflict(int64_t cache_bytes,
                                             const CacheSizing& sizing,
                                             std::optional<int64_t> limit);

}  // namespace kvasir

#endif  // KVASIR_SERVER_SIZE_OPTIONS_H_

#ifndef KVASIR_SERVER_CLI_CACHE_REPORT_H_
#define KVASIR_SERVER_CLI_CACHE_REPORT_H_

#include <optional>
#include <string>

#include "absl/time/time.h"

#include "kvasir/v1/cache_admin.pb.h"

namespace kvasir::cli {

// What `kvasir cache stats` shows: the model, a table of tiers, the prefix
// cache. `bold` for a terminal. Pure.
std::string RenderCacheStats(const v1::CacheStats& stats, bool bold);

// Lines of `kvasir cache stats --watch`, one per sample, each under the
// header's columns. Rates are per second between two samples; the first line
// has none.
class CacheWatch {
 public:
  static std::string Header();
  std::string Line(const v1::CacheStats& stats);

 private:
  std::optional<v1::CacheStats> previous_;
};

// One line: where a resize stands, or what it would do.
std::string DescribeResize(const v1::ResizeCacheResponse& report);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_CACHE_REPORT_H_

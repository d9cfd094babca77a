#ifndef KVASIR_SERVER_CLI_VERSION_REPORT_H_
#define KVASIR_SERVER_CLI_VERSION_REPORT_H_

#include <string>

#include "absl/time/time.h"

#include "kvasir/v1/cache_admin.pb.h"

namespace kvasir::cli {

// What `kvasir cache versions` shows, a line per version. `bold` for a
// terminal. Pure.
std::string RenderVersions(const v1::ListCacheVersionsResponse& versions,
                           absl::Time now, bool bold);

// One line: how far the making of a version is, or what came of it.
std::string DescribeCreation(const v1::CreateCacheVersionResponse& report);

// One line after a version was deleted.
std::string DescribeDeletion(const v1::CacheVersion& version);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_VERSION_REPORT_H_

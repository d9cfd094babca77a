#ifndef KVASIR_SERVER_CLI_PREFIX_REPORT_H_
#define KVASIR_SERVER_CLI_PREFIX_REPORT_H_

#include <string>

#include "absl/time/time.h"

#include "kvasir/v1/cache_admin.pb.h"

namespace kvasir::cli {

// What `kvasir cache ls` shows, a line per prefix, with as many digits of each
// id as are surely enough to name it. `bold` for a terminal. Pure.
std::string RenderPrefixes(const v1::ListPrefixesResponse& prefixes,
                           absl::Time now, bool bold);

// All that is known of one prefix, a line each.
std::string RenderPrefix(const v1::Prefix& prefix, absl::Time now);

// One line after a prefix was pinned or unpinned.
std::string DescribePin(const v1::Prefix& prefix, absl::Time now);

// One line: what an eviction dropped, or would drop.
std::string DescribeEviction(const v1::EvictPrefixesResponse& answer,
                             bool dry_run);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_PREFIX_REPORT_H_

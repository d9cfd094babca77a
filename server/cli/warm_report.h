#ifndef KVASIR_SERVER_CLI_WARM_REPORT_H_
#define KVASIR_SERVER_CLI_WARM_REPORT_H_

#include <string>

#include "kvasir/v1/cache_admin.pb.h"

namespace kvasir::cli {

// One line: how far a warm-up is.
std::string DescribeWarm(const v1::WarmCacheResponse& report);

// What became of each prompt, and their sum, from the last message. `bold` for
// a terminal. Pure.
std::string RenderWarmed(const v1::WarmCacheResponse& last, bool bold);

}  // namespace kvasir::cli

#endif  // KVASIR_SERVER_CLI_WARM_REPORT_H_

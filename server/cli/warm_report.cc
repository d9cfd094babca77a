#include "server/cli/warm_report.h"

#include <cstdint>

#include "absl/strings/str_cat.h"

#include "server/cli/format.h"

namespace kvasir::cli {
namespace {

// "96 device", or "0" where nothing is.
std::string Resident(const v1::WarmedPrefix& prefix) {
  std::string text;
  for (const v1::TierCount& count : prefix.resident()) {
    const bool device = count.tier() == v1::CACHE_TIER_DEVICE;
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    FormatCount(count.token_count()), " ",
                    device ? "device" : v1::CacheTier_Name(count.tier()));
  }
  return text.empty() ? "0" : text;
}

}  // namespace

std::string DescribeWarm(const v1::WarmCacheResponse& report) {
  const v1::OperationProgress& progress = report.progress();
  return absl::StrCat(progress.phase(), ": ",
                      FormatCount(progress.done_count()), " of ",
                      Plural(progress.total_count(), "prompt"), ", ",
                      Plural(report.computed_tokens(), "token"), " computed");
}

std::string RenderWarmed(const v1::WarmCacheResponse& last, bool bold) {
  Table table({{"PROMPT", true},
               {"TOKENS", true},
               {"RESIDENT", true},
               {"COMPUTED", true},
               {"RESULT"}});
  for (const v1::WarmedPrefix& prefix : last.prefixes()) {
    table.AddRow({FormatCount(prefix.prompt_index()),
                  FormatCount(prefix.token_count()), Resident(prefix),
                  FormatCount(prefix.computed_tokens()),
                  prefix.code() == 0 ? "ok" : Visible(prefix.message())});
  }
  return table.Render(bold) + DescribeWarm(last) + "\n";
}

}  // namespace kvasir::cli

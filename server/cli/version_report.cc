#include "server/cli/version_report.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "server/cli/format.h"
#include "server/text.h"

namespace kvasir::cli {
namespace {

// Digits of a fingerprint that tell it from others at a glance.
constexpr size_t kShortDigits = 12;

std::string StateName(const v1::CacheVersion& version) {
  if (version.retiring()) return "retiring";
  const std::string name = v1::CacheVersionState_Name(version.state());
  absl::string_view view = name;
  absl::ConsumePrefix(&view, "CACHE_VERSION_STATE_");
  return absl::AsciiStrToLower(view);
}

int64_t BlockCount(const v1::CacheVersion& version) {
  return version.reserved_blocks() + version.pinned_blocks() +
         version.cached_blocks();
}

}  // namespace

std::string RenderVersions(const v1::ListCacheVersionsResponse& versions,
                           absl::Time now, bool bold) {
  Table table({{"LABEL"},
               {"MODEL"},
               {"STATE"},
               {"ACTIVE"},
               {"BLOCKS", true},
               {"SIZE", true},
               {"HIT TOKENS", true},
               {"LEASES", true},
               {"AGE", true},
               {"FINGERPRINT"}});
  for (const v1::CacheVersion& version : versions.versions()) {
    const absl::Time created =
        absl::FromUnixSeconds(version.create_time().seconds());
    table.AddRow(
        {Visible(version.label()), Visible(version.model()), StateName(version),
         version.state() == v1::CACHE_VERSION_STATE_ACTIVE ? "yes" : "-",
         FormatCount(BlockCount(version)), FormatBytes(version.byte_size()),
         FormatCount(version.hit_tokens()), FormatCount(version.lease_count()),
         FormatSpan(now - created), version.version().substr(0, kShortDigits)});
  }
  return table.Render(bold);
}

std::string DescribeCreation(const v1::CreateCacheVersionResponse& report) {
  const v1::OperationProgress& progress = report.progress();
  if (progress.phase() == "loading") {
    return absl::StrCat("loading: ", FormatBytes(progress.done_count()), " of ",
                        FormatBytes(progress.total_count()));
  }
  if (progress.phase() == "warming") {
    return absl::StrCat("warming: ", FormatCount(progress.done_count()), " of ",
                        FormatCount(progress.total_count()), " prefixes, ",
                        Plural(report.warmed_tokens(), "token"), " resident");
  }
  return absl::StrCat("created ", Visible(report.version().label()), " of ",
                      Visible(report.version().model()), ", fingerprint ",
                      report.version().version().substr(0, kShortDigits));
}

std::string DescribeDeletion(const v1::CacheVersion& version) {
  std::string line = absl::StrCat("deleted ", Visible(version.label()));
  if (version.lease_count() > 0) {
    absl::StrAppend(&line, "; it is there until ",
                    Plural(version.lease_count(), "request"),
                    version.lease_count() == 1 ? " has" : " have", " ended");
  }
  return line;
}

}  // namespace kvasir::cli

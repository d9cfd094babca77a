#include "server/size_options.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/config_values.h"
#include "server/text.h"

namespace kvasir {
namespace {

absl::Status MoreThanNothing(const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat("wanted more than nothing, found ", QuoteText(text)));
}

absl::StatusOr<int64_t> ParseBytes(const std::string& text) {
  ASSIGN_OR_RETURN(
      const int64_t bytes, ParseSize(text, [&text] {
        return absl::StatusOr<int64_t>(absl::InvalidArgumentError(absl::StrCat(
            "wanted auto or bytes, such as 512MiB, found ", QuoteText(text))));
      }));
  if (bytes == 0) return MoreThanNothing(text);
  return bytes;
}

}  // namespace

absl::StatusOr<SizeChoice> ParseCacheSize(const std::string& text) {
  SizeChoice choice;
  if (text == "auto") return choice;
  if (!absl::EndsWith(text, "%")) {
    ASSIGN_OR_RETURN(choice.bytes, ParseBytes(text));
    return choice;
  }
  // Of so many "bytes" the share is exact to a millionth.
  constexpr int64_t kWhole = 1000000;
  ASSIGN_OR_RETURN(const int64_t share, ParseSize(text, [] { return kWhole; }));
  if (share == 0) return MoreThanNothing(text);
  choice.share = static_cast<double>(share) / kWhole;
  return choice;
}

absl::StatusOr<int64_t> ParseSizeBound(const std::string& text) {
  if (text == "auto") return 0;
  return ParseBytes(text);
}

std::optional<SizeConflict> FindSizeConflict(int64_t cache_bytes,
                                             const CacheSizing& sizing,
                                             std::optional<int64_t> limit) {
  if (limit) {
    const std::string most =
        absl::StrCat("at most the memory limit of ", FormatBytes(*limit));
    if (cache_bytes > *limit) return SizeConflict{"cache.size", most};
    if (sizing.floor_bytes > *limit) return SizeConflict{"cache.floor", most};
  }
  const int64_t ceiling = sizing.ceiling_bytes > 0
                              ? sizing.ceiling_bytes
                              : std::numeric_limits<int64_t>::max();
  if (cache_bytes > ceiling) {
    return SizeConflict{"cache.ceiling",
                        absl::StrCat("at least the cache's size of ",
                                     FormatBytes(cache_bytes))};
  }
  const int64_t highest = cache_bytes > 0 ? cache_bytes : ceiling;
  if (sizing.floor_bytes <= highest) return std::nullopt;
  return SizeConflict{
      "cache.floor",
      absl::StrCat("at most the cache's ", cache_bytes > 0 ? "size" : "ceiling",
                   " of ", FormatBytes(highest))};
}

}  // namespace kvasir

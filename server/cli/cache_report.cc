#include "server/cli/cache_report.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

#include "server/cli/format.h"
#include "server/text.h"

namespace kvasir::cli {
namespace {

std::string TierName(v1::CacheTier tier) {
  const std::string name = v1::CacheTier_Name(tier);
  absl::string_view view = name;
  absl::ConsumePrefix(&view, "CACHE_TIER_");
  return absl::AsciiStrToLower(view);
}

// Digits of a prefix's id, which is 64 long.
constexpr size_t kHotIdDigits = 16;

double Ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

int64_t TotalBlocks(const v1::TierStats& tier) {
  return tier.free_blocks() + tier.reserved_blocks() + tier.pinned_blocks() +
         tier.cached_blocks() + tier.leaving_blocks();
}

std::string RenderTiers(const v1::CacheStats& stats, bool bold) {
  Table table({{"TIER"},
               {"SIZE", true},
               {"BLOCKS", true},
               {"FREE", true},
               {"CACHED", true},
               {"PINNED", true},
               {"RESERVED", true},
               {"LEAVING", true},
               {"IN USE", true},
               {"UNFILLED", true}});
  for (const v1::TierStats& tier : stats.tiers()) {
    table.AddRow(
        {TierName(tier.tier()), FormatBytes(tier.capacity_bytes()),
         FormatCount(TotalBlocks(tier)), FormatCount(tier.free_blocks()),
         FormatCount(tier.cached_blocks()), FormatCount(tier.pinned_blocks()),
         FormatCount(tier.reserved_blocks()),
         FormatCount(tier.leaving_blocks()), FormatPercent(tier.usage_ratio()),
         FormatPercent(tier.fragmentation_ratio())});
  }
  return table.Render(bold);
}

// What requests come back to most; nothing if they do not.
std::string RenderHotPrefixes(const v1::CacheStats& stats, bool bold) {
  if (stats.top_prefixes().empty()) return "";
  Table table({{"HOTTEST PREFIX"},
               {"HITS", true},
               {"TOKENS", true},
               {"SIZE", true},
               {"VERSION"}});
  for (const v1::Prefix& prefix : stats.top_prefixes()) {
    table.AddRow({prefix.prefix_id().substr(0, kHotIdDigits),
                  FormatCount(prefix.hit_count()),
                  FormatCount(prefix.token_count()),
                  FormatBytes(prefix.byte_size()), prefix.version()});
  }
  return absl::StrCat("\n", table.Render(bold));
}

}  // namespace

std::string RenderCacheStats(const v1::CacheStats& stats, bool bold) {
  const int64_t block_bytes = stats.block_tokens() * stats.token_bytes();
  std::string text =
      RenderPairs({{"model", stats.model()},
                   {"version", stats.version()},
                   {"block", absl::StrCat(Plural(stats.block_tokens(), "token"),
                                          ", ", FormatBytes(block_bytes), " (",
                                          FormatBytes(stats.token_bytes()),
                                          " per token)")}});
  absl::StrAppend(&text, "\n", RenderTiers(stats, bold), "\n");
  absl::StrAppend(
      &text,
      RenderPairs(
          {{"requests",
            absl::StrCat(FormatCount(stats.running_count()), " running, ",
                         FormatCount(stats.waiting_count()), " waiting, ",
                         Plural(stats.preemption_count(), "preemption"))},
           {"prompt tokens",
            absl::StrCat(
                FormatCount(stats.lookup_tokens()), " looked up, ",
                FormatCount(stats.hit_tokens()), " found (",
                FormatPercent(Ratio(stats.hit_tokens(), stats.lookup_tokens())),
                ")")},
           {"recomputed", Plural(stats.recomputed_tokens(), "token")},
           {"prefix blocks",
            absl::StrCat(FormatCount(stats.index_entries()), " findable, ",
                         FormatCount(stats.inserted_blocks()), " inserted, ",
                         FormatCount(stats.deduplicated_blocks()),
                         " were there already")},
           {"evicted",
            absl::StrCat(
                FormatCount(stats.evicted_capacity_blocks()), " for room, ",
                FormatCount(stats.evicted_flush_blocks()), " flushed, ",
                FormatCount(stats.evicted_resize_blocks()), " by a resize, ",
                FormatCount(stats.evicted_version_blocks()),
                " with their version, ",
                FormatCount(stats.evicted_ttl_blocks()), " by their ttl, ",
                FormatCount(stats.evicted_quota_blocks()), " by a quota, ",
                FormatCount(stats.evicted_prefix_blocks()), " by name")},
           {"kept",
            absl::StrCat(Plural(stats.pinned_prefix_count(), "pin"), " of ",
                         Plural(stats.pinned_prefix_blocks(), "block"), ", ",
                         Plural(stats.floor_blocks(), "block"),
                         " for tenants")}}));
  absl::StrAppend(&text, RenderHotPrefixes(stats, bold));
  return text;
}

std::string CacheWatch::Header() {
  return absl::StrFormat("%8s %5s %5s %9s %9s %9s %8s %7s %9s %9s\n", "TIME",
                         "RUN", "WAIT", "FREE", "CACHED", "PINNED", "IN USE",
                         "HIT", "LOOKUP/S", "EVICT/S");
}

std::string CacheWatch::Line(const v1::CacheStats& stats) {
  v1::TierStats device;
  if (stats.tiers_size() > 0) device = stats.tiers(0);
  const absl::Time time = absl::FromUnixSeconds(stats.sample_time().seconds());
  std::string hit = "-";
  std::string lookups = "-";
  std::string evictions = "-";
  if (previous_.has_value()) {
    const double seconds =
        static_cast<double>(stats.sample_time().seconds() -
                            previous_->sample_time().seconds()) +
        (stats.sample_time().nanos() - previous_->sample_time().nanos()) / 1e9;
    const int64_t looked = stats.lookup_tokens() - previous_->lookup_tokens();
    if (looked > 0) {
      hit = FormatPercent(
          Ratio(stats.hit_tokens() - previous_->hit_tokens(), looked));
    }
    if (seconds > 0) {
      lookups = FormatRate(static_cast<double>(looked) / seconds);
      evictions = FormatRate(static_cast<double>(stats.evicted_blocks() -
                                                 previous_->evicted_blocks()) /
                             seconds);
    }
  }
  previous_ = stats;
  return absl::StrFormat(
      "%8s %5d %5d %9s %9s %9s %8s %7s %9s %9s\n",
      absl::FormatTime("%H:%M:%S", time, absl::LocalTimeZone()),
      stats.running_count(), stats.waiting_count(),
      FormatCount(device.free_blocks()), FormatCount(device.cached_blocks()),
      FormatCount(device.pinned_blocks()), FormatPercent(device.usage_ratio()),
      hit, lookups, evictions);
}

std::string DescribeResize(const v1::ResizeCacheResponse& report) {
  const v1::OperationProgress& progress = report.progress();
  std::string line =
      absl::StrCat(progress.phase(), ": ", FormatBytes(report.current_bytes()),
                   " of ", FormatBytes(report.target_bytes()), " wanted");
  if (progress.phase() == "done") {
    line = absl::StrCat("resized to ", FormatBytes(report.current_bytes()));
  } else if (progress.phase() == "dry run") {
    line = absl::StrCat("from ", FormatBytes(report.current_bytes()), " to ",
                        FormatBytes(report.target_bytes()), " would mean");
  }
  absl::StrAppend(&line, progress.phase() == "dry run" ? ": " : "; ",
                  Plural(report.evicted_block_count(), "block"), " evicted, ",
                  Plural(report.preempted_count(), "request"), " preempted");
  if (report.waiting_block_count() > 0) {
    absl::StrAppend(&line, ", ", Plural(report.waiting_block_count(), "block"),
                    " too many in use");
  }
  return line;
}

}  // namespace kvasir::cli

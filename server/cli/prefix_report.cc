#include "server/cli/prefix_report.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/cli/format.h"
#include "server/text.h"

namespace kvasir::cli {
namespace {

// Digits of an id that are shown at least; more where these are not unique.
constexpr size_t kShortDigits = 12;

absl::Time FromProto(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

// People read ages in whole seconds at the finest.
std::string Seconds(absl::Duration span) {
  const absl::Duration whole = absl::Floor(span, absl::Seconds(1));
  return whole <= absl::ZeroDuration() ? "0s" : absl::FormatDuration(whole);
}

std::string LastHit(const v1::Prefix& prefix, absl::Time now) {
  if (!prefix.has_last_hit_time()) return "never";
  return absl::StrCat(Seconds(now - FromProto(prefix.last_hit_time())), " ago");
}

std::string Expiry(const v1::Prefix& prefix, absl::Time now) {
  if (!prefix.has_expire_time()) return "-";
  return absl::StrCat("in ", Seconds(FromProto(prefix.expire_time()) - now));
}

std::string Pin(const v1::Prefix& prefix, absl::Time now) {
  if (!prefix.pinned()) return "-";
  if (!prefix.has_pin_expire_time()) return "yes";
  return absl::StrCat("for ",
                      Seconds(FromProto(prefix.pin_expire_time()) - now));
}

std::string Tenant(const v1::Prefix& prefix) {
  return prefix.salt_hash().empty() ? "-" : Visible(prefix.salt_hash());
}

// Digits that tell each of the ids from all others.
size_t UniqueDigits(const v1::ListPrefixesResponse& prefixes) {
  size_t digits = kShortDigits;
  for (int i = 0; i < prefixes.prefixes_size(); ++i) {
    for (int j = 0; j < i; ++j) {
      const std::string& a = prefixes.prefixes(i).prefix_id();
      const std::string& b = prefixes.prefixes(j).prefix_id();
      size_t common = 0;
      while (common < std::min(a.size(), b.size()) && a[common] == b[common]) {
        ++common;
      }
      digits = std::max(digits, common + 1);
    }
  }
  return digits;
}

}  // namespace

std::string RenderPrefixes(const v1::ListPrefixesResponse& prefixes,
                           absl::Time now, bool bold) {
  Table table({{"ID"},
               {"TOKENS", true},
               {"SIZE", true},
               {"HITS", true},
               {"LAST HIT", true},
               {"HELD BY", true},
               {"PRIORITY", true},
               {"PINNED", true},
               {"EXPIRES", true},
               {"TENANT"},
               {"VERSION"}});
  const size_t digits = UniqueDigits(prefixes);
  for (const v1::Prefix& prefix : prefixes.prefixes()) {
    table.AddRow(
        {Visible(prefix.prefix_id().substr(0, digits)),
         FormatCount(prefix.token_count()), FormatBytes(prefix.byte_size()),
         FormatCount(prefix.hit_count()), LastHit(prefix, now),
         FormatCount(prefix.ref_count()), absl::StrCat(prefix.priority()),
         Pin(prefix, now), Expiry(prefix, now), Tenant(prefix),
         Visible(prefix.version())});
  }
  return table.Render(bold);
}

std::string RenderPrefix(const v1::Prefix& prefix, absl::Time now) {
  const std::string parent = Visible(prefix.parent_id());
  return RenderPairs(
      {{"id", Visible(prefix.prefix_id())},
       {"continues", parent.empty() ? "-" : parent},
       {"model", Visible(prefix.model())},
       {"version", Visible(prefix.version())},
       {"tenant", Tenant(prefix)},
       {"size", absl::StrCat(Plural(prefix.token_count(), "token"), ", ",
                             Plural(prefix.block_count(), "block"), ", ",
                             FormatBytes(prefix.byte_size()))},
       {"hits", absl::StrCat(FormatCount(prefix.hit_count()), ", last ",
                             LastHit(prefix, now))},
       {"held by", Plural(prefix.ref_count(), "request")},
       {"priority", absl::StrCat(prefix.priority())},
       {"ttl", prefix.has_ttl()
                   ? absl::FormatDuration(kvasir::cli::FromProto(prefix.ttl()))
                   : "-"},
       {"expires", Expiry(prefix, now)},
       {"pinned", Pin(prefix, now)},
       {"created",
        absl::StrCat(Seconds(now - FromProto(prefix.create_time())), " ago")}});
}

std::string DescribePin(const v1::Prefix& prefix, absl::Time now) {
  const std::string what =
      absl::StrCat(Visible(prefix.prefix_id().substr(0, kShortDigits)), " (",
                   Plural(prefix.token_count(), "token"), ", ",
                   FormatBytes(prefix.byte_size()), ")");
  if (!prefix.pinned()) return absl::StrCat("unpinned ", what);
  const std::string pin = Pin(prefix, now);
  return absl::StrCat("pinned ", what, " ",
                      pin == "yes" ? "until it is unpinned" : pin);
}

std::string DescribeEviction(const v1::EvictPrefixesResponse& answer,
                             bool dry_run) {
  std::string line = absl::StrCat(dry_run ? "would evict " : "evicted ",
                                  Plural(answer.evicted_block_count(), "block"),
                                  ", ", FormatBytes(answer.freed_bytes()));
  if (answer.kept_block_count() > 0) {
    absl::StrAppend(&line, "; ", Plural(answer.kept_block_count(), "block"),
                    dry_run ? " would stay" : " stayed",
                    ", pinned or held by requests");
  }
  return line;
}

}  // namespace kvasir::cli

#include "server/prefix_codec.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/event_codec.h"
#include "server/page.h"
#include "server/request_codec.h"
#include "server/retention_codec.h"
#include "server/text.h"
#include "server/version_choice.h"

namespace kvasir {
namespace {

constexpr std::pair<const char*, PrefixSort> kSorts[] = {
    {"key", PrefixSort::kKey},
    {"hits", PrefixSort::kHits},
    {"tokens", PrefixSort::kTokens},
    {"last_hit", PrefixSort::kLastHit}};

const char* NameOf(PrefixSort sort) {
  return kSorts[static_cast<size_t>(sort)].first;
}

bool IsLowerHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
  });
}

// A prefix's place in a list, before all larger ones.
struct Place {
  int64_t minus_number = 0;
  std::string id;
  friend bool operator<(const Place& a, const Place& b) {
    return std::tie(a.minus_number, a.id) < std::tie(b.minus_number, b.id);
  }
};

Place PlaceOf(const CachedPrefix& prefix, PrefixSort sort) {
  switch (sort) {
    case PrefixSort::kKey:
      return {0, prefix.id};
    case PrefixSort::kHits:
      return {-prefix.hit_count, prefix.id};
    case PrefixSort::kTokens:
      return {-prefix.token_count, prefix.id};
    case PrefixSort::kLastHit:
      break;
  }
  const bool never = prefix.last_hit == absl::InfinitePast();
  return {never ? 0 : -absl::ToUnixNanos(prefix.last_hit), prefix.id};
}

std::string TokenOf(const Place& place, PrefixSort sort) {
  return absl::StrCat(NameOf(sort), ".", place.minus_number, ".", place.id);
}

absl::StatusOr<Place> DecodeToken(std::string_view token, PrefixSort sort) {
  const std::vector<std::string> parts = absl::StrSplit(View(token), '.');
  Place place;
  if (parts.size() == 3 && absl::SimpleAtoi(parts[1], &place.minus_number)) {
    place.id = parts[2];
    if (place.id.size() == kPrefixIdDigits && IsLowerHex(place.id) &&
        TokenOf(place, sort) == token) {
      return place;
    }
  }
  return absl::InvalidArgumentError(
      "page_token: wanted one from a previous answer in this order, found "
      "another");
}

v1::Retention LevelOf(const CachedPrefix& prefix) {
  if (prefix.pinned) return v1::RETENTION_PINNED;
  switch (prefix.priority) {
    case kEphemeralPriority:
      return v1::RETENTION_EPHEMERAL;
    case kDefaultRetentionPriority:
      return v1::RETENTION_NORMAL;
    case kHighPriority:
      return v1::RETENTION_HIGH;
    default:
      return v1::RETENTION_UNSPECIFIED;
  }
}

bool IsMoment(absl::Time time) {
  return time != absl::InfinitePast() && time != absl::InfiniteFuture();
}

}  // namespace

v1::Prefix EncodePrefix(const CachedPrefix& prefix) {
  v1::Prefix wire;
  wire.set_prefix_id(prefix.id);
  wire.set_parent_id(prefix.parent_id);
  wire.set_salt_hash(prefix.salt_hash);
  wire.set_version(prefix.version);
  wire.set_model(prefix.model);
  wire.set_token_count(prefix.token_count);
  wire.set_block_count(prefix.block_count);
  wire.set_byte_size(prefix.byte_size);
  wire.set_hit_count(prefix.hit_count);
  wire.set_ref_count(Narrow(prefix.lease_count));
  wire.add_tiers(v1::CACHE_TIER_DEVICE);
  wire.set_retention(LevelOf(prefix));
  wire.set_priority(prefix.priority);
  if (prefix.ttl != absl::InfiniteDuration()) {
    *wire.mutable_ttl() = EncodeDuration(prefix.ttl);
  }
  wire.set_pinned(prefix.pinned);
  if (prefix.pinned && IsMoment(prefix.pinned_until)) {
    *wire.mutable_pin_expire_time() = EncodeTime(prefix.pinned_until);
  }
  *wire.mutable_create_time() = EncodeTime(prefix.created);
  if (IsMoment(prefix.last_hit)) {
    *wire.mutable_last_hit_time() = EncodeTime(prefix.last_hit);
  }
  if (IsMoment(prefix.expires)) {
    *wire.mutable_expire_time() = EncodeTime(prefix.expires);
  }
  return wire;
}

absl::StatusOr<PrefixSelection> DecodeFilter(const v1::PrefixFilter& wire,
                                             std::string_view model,
                                             const GenerationBackend& backend) {
  PrefixSelection selection;
  selection.model = std::string(model);
  if (!wire.version().empty()) {
    selection.version = LabelOf(backend.Versions(), model, wire.version());
  }
  if (wire.has_salt()) {
    if (wire.salt().size() > kMaxSaltBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("filter.salt: wanted at most ", kMaxSaltBytes,
                       " bytes, found ", wire.salt().size()));
    }
    selection.salt = wire.salt();
  }
  if (wire.has_salt_hash()) {
    const std::string& hash = wire.salt_hash();
    if (!hash.empty() &&
        (hash.size() != kSaltHashDigits || !IsLowerHex(hash))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "filter.salt_hash: wanted ", kSaltHashDigits,
          " hex digits in lower case, or none, found ", QuoteText(hash)));
    }
    selection.salt_hash = hash;
  }
  if (wire.has_pinned()) selection.pinned = wire.pinned();
  if (wire.min_tokens() < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "filter.min_tokens: wanted at least 0, found ", wire.min_tokens()));
  }
  selection.min_tokens = wire.min_tokens();
  return selection;
}

absl::StatusOr<PrefixSort> DecodeOrderBy(std::string_view order_by) {
  if (order_by.empty()) return PrefixSort::kKey;
  for (const auto& [name, sort] : kSorts) {
    if (order_by == name) return sort;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("order_by: wanted key, hits, tokens or last_hit, found ",
                   QuoteText(order_by)));
}

absl::StatusOr<PrefixPage> FindPrefixPage(std::vector<CachedPrefix> prefixes,
                                          PrefixSort sort, int32_t page_size,
                                          std::string_view page_token) {
  if (page_size < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "page_size: wanted 0 to ", kMaxPageSize, ", found ", page_size));
  }
  if (!page_token.empty()) {
    ASSIGN_OR_RETURN(const Place last, DecodeToken(page_token, sort));
    prefixes.erase(std::remove_if(prefixes.begin(), prefixes.end(),
                                  [&](const CachedPrefix& prefix) {
                                    return !(last < PlaceOf(prefix, sort));
                                  }),
                   prefixes.end());
  }
  std::sort(prefixes.begin(), prefixes.end(),
            [sort](const CachedPrefix& a, const CachedPrefix& b) {
              return PlaceOf(a, sort) < PlaceOf(b, sort);
            });
  const auto size = static_cast<size_t>(
      page_size == 0 ? kMaxPageSize : std::min(page_size, kMaxPageSize));
  PrefixPage page;
  if (prefixes.size() > size) {
    prefixes.resize(size);
    page.next_token = TokenOf(PlaceOf(prefixes.back(), sort), sort);
  }
  page.prefixes = std::move(prefixes);
  return page;
}

absl::Status CheckTiers(const google::protobuf::RepeatedField<int>& tiers) {
  for (const int tier : tiers) {
    if (tier == v1::CACHE_TIER_DEVICE) continue;
    return absl::UnimplementedError(absl::StrCat(
        "tiers: this server has the tier DEVICE, found number ", tier));
  }
  return absl::OkStatus();
}

}  // namespace kvasir

#include "engine/prefix_desk.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "openssl/sha.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

absl::string_view View(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

std::string Hex(const uint8_t* bytes, size_t size) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes), size));
}

std::string Hex(const BlockKey& key) { return Hex(key.data(), key.size()); }

BlockKey KeyFromHex(std::string_view digits) {
  const std::string bytes = absl::HexStringToBytes(View(digits));
  BlockKey key{};
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

bool IsIdPart(std::string_view text) {
  return text.size() >= kMinPrefixIdDigits && text.size() <= kPrefixIdDigits &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f');
         });
}

// A salt keeps a tenant's content its own, and errors go into logs.
std::string NameOf(std::string_view salt) {
  return salt.empty() ? "requests without a salt"
                      : absl::StrCat("salt_hash ", HashSalt(salt));
}

bool Meant(const VersionInfo& info, const PrefixSelection& selection) {
  return (selection.model.empty() || selection.model == info.model) &&
         (selection.version.empty() || selection.version == info.label);
}

// Neighbours often have the same salt, and SHA-256 costs more than the rest of
// looking at a block.
std::function<bool(const std::string&)> SaltsWithHash(std::string hash) {
  return [hash = std::move(hash), last = std::optional<std::string>(),
          same = false](const std::string& salt) mutable {
    if (last != salt) {
      last = salt;
      same = HashSalt(salt) == hash;
    }
    return same;
  };
}

int64_t BlocksOf(const CacheShare& share, int64_t block_bytes) {
  return share.blocks + share.bytes / block_bytes;
}

}  // namespace

std::string PrefixName(const std::array<uint8_t, 32>& key) { return Hex(key); }

std::string HashSalt(std::string_view salt) {
  if (salt.empty()) return "";
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(salt.data()), salt.size(),
         digest);
  return Hex(digest, kSaltHashDigits / 2);
}

std::vector<CachedPrefix> TakeSorted(PrefixListOrder& order) {
  std::vector<CachedPrefix> prefixes(
      std::make_move_iterator(order.found.begin()),
      std::make_move_iterator(order.found.end()));
  order.found.clear();
  std::sort(
      prefixes.begin(), prefixes.end(),
      [](const CachedPrefix& a, const CachedPrefix& b) { return a.id < b.id; });
  const auto end =
      std::unique(prefixes.begin(), prefixes.end(),
                  [](const CachedPrefix& a, const CachedPrefix& b) {
                    return a.id == b.id;
                  });
  prefixes.erase(end, prefixes.end());
  return prefixes;
}

absl::StatusOr<bool> PrefixDesk::Continue(PrefixListOrder& order) const {
  if (!order.filters.has_value()) {
    ASSIGN_OR_RETURN(order.filters, FiltersOf(order.selection));
  }
  PrefixListing& listing = order.listing;
  if (listing.left < 0) listing.filter = order.filters->back();
  const bool done = cache_->Continue(listing);
  for (const PrefixInfo& info : listing.found) {
    order.found.push_back(Describe(info));
  }
  if (!done) return false;
  listing = PrefixListing();
  order.filters->pop_back();
  return order.filters->empty();
}

absl::StatusOr<bool> PrefixDesk::Continue(PrefixSweepOrder& order) {
  if (!order.filters.has_value()) {
    ASSIGN_OR_RETURN(order.filters, FiltersOf(order.selection));
  }
  PrefixSweep& sweep = order.sweep;
  if (sweep.left < 0) {
    sweep.filter = order.filters->back();
    sweep.dry_run = order.dry_run;
    sweep.unpin = order.flush;
    if (order.flush) sweep.cause = EvictionCause::kFlush;
    if (order.flush) sweep.filter.pinned.reset();
  }
  if (!cache_->Continue(sweep)) return false;
  const EvictedPrefixes part = Report(sweep.sum);
  order.evicted.blocks += part.blocks;
  order.evicted.bytes += part.bytes;
  order.evicted.kept_blocks += part.kept_blocks;
  sweep = PrefixSweep();
  order.filters->pop_back();
  return order.filters->empty();
}

absl::StatusOr<CachedPrefix> PrefixDesk::Get(std::string_view id) const {
  ASSIGN_OR_RETURN(const BlockKey key, KeyOf(id));
  ASSIGN_OR_RETURN(const PrefixInfo info, cache_->FindPrefix(key));
  return Describe(info);
}

absl::StatusOr<CachedPrefix> PrefixDesk::Pin(std::string_view id,
                                             absl::Duration ttl) {
  ASSIGN_OR_RETURN(const BlockKey key, KeyOf(id));
  ASSIGN_OR_RETURN(const PrefixInfo info,
                   cache_->PinPrefix(key, now_.steady + ttl));
  return Describe(info);
}

absl::StatusOr<CachedPrefix> PrefixDesk::Unpin(std::string_view id) {
  ASSIGN_OR_RETURN(const BlockKey key, KeyOf(id));
  ASSIGN_OR_RETURN(const PrefixInfo info, cache_->UnpinPrefix(key));
  return Describe(info);
}

absl::StatusOr<EvictedPrefixes> PrefixDesk::Evict(
    absl::Span<const std::string> ids, bool dry_run) {
  std::vector<BlockKey> keys;
  for (const std::string& id : ids) {
    ASSIGN_OR_RETURN(const BlockKey key, KeyOf(id));
    keys.push_back(key);
  }
  ASSIGN_OR_RETURN(const PrefixEviction eviction,
                   cache_->EvictPrefixes(keys, dry_run));
  return Report(eviction);
}

// The cache knows one version and one salt at a time.
absl::StatusOr<std::vector<PrefixFilter>> PrefixDesk::FiltersOf(
    const PrefixSelection& selection) const {
  PrefixFilter filter;
  filter.salt = selection.salt;
  if (selection.salt_hash.has_value()) {
    filter.salt_is = SaltsWithHash(*selection.salt_hash);
  }
  filter.pinned = selection.pinned;
  filter.min_tokens = selection.min_tokens;
  std::vector<PrefixFilter> filters;
  if (selection.model.empty() && selection.version.empty()) {
    filters.push_back(filter);
  } else {
    for (const VersionInfo& info : versions_) {
      if (!Meant(info, selection)) continue;
      filter.version = info.id;
      filters.push_back(filter);
    }
    if (filters.empty()) {
      const bool model = selection.version.empty();
      return absl::NotFoundError(
          absl::StrCat("no ", model ? "model " : "cache version ",
                       QuoteText(model ? selection.model : selection.version),
                       " is resident"));
    }
  }
  return filters;
}

absl::StatusOr<BlockKey> PrefixDesk::KeyOf(std::string_view id) const {
  if (!IsIdPart(id)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prefix_id: wanted ", kPrefixIdDigits, " hex digits in lower case, or ",
        kMinPrefixIdDigits, " and more leading ones, found ", QuoteText(id)));
  }
  if (id.size() == kPrefixIdDigits) return KeyFromHex(id);
  const std::vector<PrefixInfo> found = cache_->PrefixesByDigits(id);
  if (found.size() == 1) return found.front().key;
  if (!found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("prefix_id: wanted digits that only one prefix begins "
                     "with, found several that begin with ",
                     View(id)));
  }
  return absl::NotFoundError(
      absl::StrCat("no listed prefix begins with ", View(id)));
}

CachedPrefix PrefixDesk::Describe(const PrefixInfo& info) const {
  CachedPrefix prefix;
  prefix.id = Hex(info.key);
  if (info.parent.has_value()) prefix.parent_id = Hex(*info.parent);
  for (const VersionInfo& version : versions_) {
    if (version.id != info.version) continue;
    prefix.model = version.model;
    prefix.version = version.label;
  }
  prefix.salt_hash = HashSalt(info.salt);
  prefix.token_count = info.token_count;
  prefix.block_count = info.block_count;
  prefix.byte_size = info.block_count * cache_->layout().BlockBytes();
  prefix.hit_count = info.hit_count;
  prefix.lease_count = info.lease_count;
  prefix.priority = info.retention.priority;
  prefix.ttl = info.retention.ttl;
  prefix.pinned = info.pinned;
  prefix.pinned_until = WallTime(info.pinned_until);
  prefix.created = WallTime(info.created);
  prefix.last_hit = WallTime(info.last_hit);
  prefix.expires = WallTime(info.expires);
  return prefix;
}

// Infinite spans become infinite times.
absl::Time PrefixDesk::WallTime(absl::Duration steady) const {
  return now_.wall + (steady - now_.steady);
}

EvictedPrefixes PrefixDesk::Report(const PrefixEviction& eviction) const {
  return {.blocks = eviction.blocks,
          .bytes = eviction.blocks * cache_->layout().BlockBytes(),
          .kept_blocks = eviction.kept_blocks};
}

absl::Status ApplyTenantQuotas(absl::Span<const TenantShare> tenants,
                               KvCache& cache) {
  const int64_t block_bytes = cache.layout().BlockBytes();
  for (const TenantShare& tenant : tenants) {
    TenantQuota quota{.floor_blocks = BlocksOf(tenant.floor, block_bytes),
                      .max_blocks = BlocksOf(tenant.most, block_bytes),
                      .floor_ratio = tenant.floor.ratio,
                      .max_ratio = tenant.most.ratio};
    if (tenant.most.bytes > 0) {
      // 0 would mean no limit.
      quota.max_blocks = std::max<int64_t>(quota.max_blocks, 1);
    }
    const absl::Status set = cache.SetTenantQuota(tenant.salt, quota);
    if (set.ok()) continue;
    return absl::Status(
        set.code(), absl::StrCat("tenant_quotas: ", NameOf(tenant.salt), ": ",
                                 set.message()));
  }
  return absl::OkStatus();
}

absl::Status ReplaceTenantQuotas(absl::Span<const TenantShare> before,
                                 absl::Span<const TenantShare> tenants,
                                 KvCache& cache) {
  const auto take_back = [&cache](absl::Span<const TenantShare> given) {
    for (const TenantShare& tenant : given) {
      // No quota fits always; a tenant beyond the most there may be has none.
      cache.SetTenantQuota(tenant.salt, {}).IgnoreError();
    }
  };
  take_back(before);
  const absl::Status applied = ApplyTenantQuotas(tenants, cache);
  if (applied.ok()) return applied;
  take_back(tenants);
  // In a cache that has shrunk since, even those may be too much.
  const absl::Status restored = ApplyTenantQuotas(before, cache);
  if (restored.ok()) return applied;
  return absl::Status(applied.code(),
                      absl::StrCat(applied.message(), "; and of those before: ",
                                   restored.message()));
}

}  // namespace kvasir

#include "cache/retention_book.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

// Ranges of standings. Within one, by priority; pinned blocks last.
constexpr int64_t kSuperseded = 0;
constexpr int64_t kOverQuota = 1000;
constexpr int64_t kOrdinary = 2000;
constexpr int64_t kPinnedAfter = 500;

// Of a block whose time to live is over while others are found through it.
constexpr int32_t kExpiredPriority = kMinRetentionPriority - 1;

// Notes of times to live that are kept whatever the number of blocks.
constexpr size_t kMinExpiries = 1024;

// From a second to a day.
std::vector<double> AgeBounds() {
  return {1,   2.5,  5,    10,   30,    60,    120,  300,
          600, 1800, 3600, 7200, 14400, 43200, 86400};
}

// Abseil of Debian 12 has a string_view of its own.
absl::string_view View(std::string_view text) {
  return {text.data(), text.size()};
}

int64_t FloorRoom(int64_t total, int64_t pinned) {
  return std::max<int64_t>(total * kMaxKeptPercent / 100 - pinned, 0);
}

// What is left of a floor where all of them together, `wanted`, get `granted`.
int64_t ShareOf(int64_t floor, int64_t wanted, int64_t granted) {
  if (granted >= wanted) return floor;
  return static_cast<int64_t>(static_cast<double>(floor) *
                              static_cast<double>(granted) /
                              static_cast<double>(wanted));
}

}  // namespace

RetentionBook::RetentionBook()
    : times_{.lifetime = Histogram(AgeBounds()),
             .idle_before_evict = Histogram(AgeBounds()),
             .reuse_gap = Histogram(AgeBounds())} {}

void RetentionBook::Insert(BlockId block, VersionId version,
                           std::string_view salt) {
  const size_t index = static_cast<size_t>(block.value());
  if (index >= records_.size()) records_.resize(index + 1);
  KV_CHECK(!records_[index].has_value()) << "block " << block;
  BlockRetention record;
  record.created = now_;
  record.version = version;
  const auto tenant = tenant_of_salt_.find(View(salt));
  if (tenant != tenant_of_salt_.end()) record.tenant = tenant->second;
  Count(record, 1);
  records_[index] = record;
}

void RetentionBook::Rest(BlockId block) {
  BlockRetention& record = At(block);
  KV_CHECK(!record.at_rest) << "block " << block;
  record.at_rest = true;
  record.rests_since = now_;
  CountAtRest(record, 1);
  record.expires = absl::InfiniteDuration();
  if (record.wish.ttl == absl::InfiniteDuration()) return;
  record.expires = now_ + record.wish.ttl;
  PushExpiry(block, record.expires);
}

// Whoever asks for a prefix often leaves a note each time; those that mean
// nothing any more are thrown out before they are the most.
void RetentionBook::PushExpiry(BlockId block, absl::Duration at) {
  if (expiries_.size() > 2 * records_.size() + kMinExpiries) {
    std::vector<Expiry> live;
    for (size_t i = 0; i < records_.size(); ++i) {
      const std::optional<BlockRetention>& record = records_[i];
      if (record.has_value() && record->at_rest && !record->expired &&
          record->expires < absl::InfiniteDuration()) {
        live.push_back(
            {record->expires, BlockId(static_cast<BlockId::Value>(i))});
      }
    }
    expiries_ = decltype(expiries_)(std::greater<>(), std::move(live));
  }
  expiries_.push({at, block});
}

void RetentionBook::Hold(BlockId block) {
  BlockRetention& record = At(block);
  KV_CHECK(record.at_rest) << "block " << block;
  times_.reuse_gap.Add(SecondsSince(record.rests_since));
  CountAtRest(record, -1);
  record.at_rest = false;
  record.expired = false;
  record.expires = absl::InfiniteDuration();
}

void RetentionBook::Drop(BlockId block, EvictionCause cause) {
  const BlockRetention& record = At(block);
  KV_CHECK(record.pins == 0) << "block " << block << " is pinned";
  if (record.at_rest) CountEviction(record, cause);
  Count(record, -1);
  records_[block.value()].reset();
}

void RetentionBook::Relocate(BlockId from, BlockId to) {
  const BlockRetention record = At(from);
  records_[from.value()].reset();
  const size_t index = static_cast<size_t>(to.value());
  if (index >= records_.size()) records_.resize(index + 1);
  KV_CHECK(!records_[index].has_value()) << "block " << to;
  records_[index] = record;
  if (record.at_rest && record.expires < absl::InfiniteDuration()) {
    PushExpiry(to, record.expires);
  }
}

void RetentionBook::CountEviction(const BlockRetention& record,
                                  EvictionCause cause) {
  times_.lifetime.Add(absl::ToDoubleSeconds(now_ - record.created));
  times_.idle_before_evict.Add(
      absl::ToDoubleSeconds(now_ - record.rests_since));
  ++evicted_[cause];
  ++VersionOf(record.version).evicted[cause];
  if (record.tenant != kNoTenant) ++tenants_[record.tenant].evicted[cause];
}

void RetentionBook::Clear(EvictionCause cause) {
  for (const std::optional<BlockRetention>& record : records_) {
    if (record.has_value() && record->at_rest) CountEviction(*record, cause);
  }
  records_.clear();
  expiries_ = {};
  for (Tenant& tenant : tenants_) tenant.blocks = tenant.at_rest = 0;
  for (Version& version : versions_) {
    version.blocks = version.pinned = version.pinned_at_rest = 0;
  }
  pinned_ = {};
  floor_sum_.floors = -1;
}

void RetentionBook::Keep(BlockId block, const std::optional<Retention>& wish) {
  BlockRetention& record = At(block);
  KV_CHECK(!record.at_rest) << "block " << block;
  if (wish.has_value()) {
    if (record.fresh) {
      record.wish = *wish;
    } else {
      record.wish.priority = std::max(record.wish.priority, wish->priority);
      record.wish.ttl = std::max(record.wish.ttl, wish->ttl);
    }
  }
  record.fresh = false;
}

void RetentionBook::AddPin(BlockId block, int32_t count) {
  BlockRetention& record = At(block);
  record.pins += count;
  KV_CHECK(record.pins >= 0) << "block " << block;
}

void RetentionBook::AddPinBelow(BlockId block, int32_t count) {
  BlockRetention& record = At(block);
  Count(record, -1);
  record.pins_below += count;
  KV_CHECK(record.pins_below >= 0) << "block " << block;
  Count(record, 1);
}

absl::Status RetentionBook::SetQuota(std::string_view salt,
                                     const TenantQuota& quota) {
  auto tenant = tenant_of_salt_.find(View(salt));
  const int64_t before = tenant == tenant_of_salt_.end()
                             ? 0
                             : tenants_[tenant->second].quota.floor_blocks;
  const int64_t floors =
      wanted_floors_ - before + quota.Of(limit_).floor_blocks;
  if (floors > max_pinned_blocks()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "wanted floors of at most ", max_pinned_blocks(), " blocks (",
        kMaxKeptPercent, " % of the cache) together, found ", floors));
  }
  if (tenant == tenant_of_salt_.end()) {
    if (static_cast<int64_t>(tenants_.size()) >= kMaxQuotaTenants) {
      return absl::ResourceExhaustedError(
          absl::StrCat("wanted at most ", kMaxQuotaTenants,
                       " tenants with a quota, found one more"));
    }
    tenant = tenant_of_salt_
                 .emplace(std::string(salt),
                          static_cast<TenantIndex>(tenants_.size()))
                 .first;
    tenants_.push_back({.salt = std::string(salt)});
  }
  tenants_[tenant->second].wish = quota;
  tenants_[tenant->second].quota = quota.Of(limit_);
  wanted_floors_ = floors;
  floor_sum_.floors = -1;
  return absl::OkStatus();
}

void RetentionBook::SetLimit(int64_t blocks) {
  if (blocks == limit_) return;
  limit_ = blocks;
  wanted_floors_ = 0;
  for (Tenant& tenant : tenants_) {
    tenant.quota = tenant.wish.Of(limit_);
    wanted_floors_ += tenant.quota.floor_blocks;
  }
  floor_sum_.floors = -1;
}

void RetentionBook::Assign(BlockId block, std::string_view salt) {
  BlockRetention& record = At(block);
  const auto tenant = tenant_of_salt_.find(View(salt));
  Count(record, -1);
  record.tenant = tenant == tenant_of_salt_.end() ? kNoTenant : tenant->second;
  Count(record, 1);
}

void RetentionBook::SetVersionQuota(VersionId version, int64_t blocks) {
  VersionOf(version).quota = blocks;
}

void RetentionBook::SetSuperseded(VersionId version, bool superseded) {
  Version& one = VersionOf(version);
  if (one.superseded == superseded) return;
  one.superseded = superseded;
  const int64_t sign = superseded ? -1 : 1;
  pinned_.blocks += sign * one.pinned;
  pinned_.at_rest += sign * one.pinned_at_rest;
}

BlockId RetentionBook::TakeExpired() {
  if (next_expiry() > now_ || expiries_.empty()) return BlockId();
  const Expiry expiry = expiries_.top();
  expiries_.pop();
  const size_t index = static_cast<size_t>(expiry.block.value());
  if (index >= records_.size() || !records_[index].has_value()) {
    return BlockId();
  }
  BlockRetention& record = *records_[index];
  if (!record.at_rest || record.expires != expiry.at || record.expired) {
    return BlockId();
  }
  record.expired = true;
  return expiry.block;
}

void RetentionBook::ExpireAgain(BlockId block) {
  BlockRetention& record = At(block);
  record.expired = false;
  PushExpiry(block, record.expires);
}

void RetentionBook::DieOfUnknown(BlockId block) {
  KV_CHECK(false) << "block " << block << " is not in the book";
  std::abort();
}

EvictionGroupKey RetentionBook::GroupOf(BlockId block) const {
  const BlockRetention& record = Of(block);
  return {.version = record.version,
          .tenant = record.tenant,
          .priority = record.expired ? kExpiredPriority : record.wish.priority,
          .pinned = record.pins > 0};
}

EvictionStanding RetentionBook::StandingOf(
    const EvictionGroupKey& group) const {
  const int64_t within = group.priority + 1;
  if (versions_[group.version.value()].superseded) {
    return kSuperseded + within + (group.pinned ? kPinnedAfter : 0);
  }
  if (group.pinned) return std::nullopt;
  if (group.tenant != kNoTenant) {
    const Tenant& tenant = tenants_[group.tenant];
    if (tenant.blocks <= FloorOf(tenant)) return std::nullopt;
  }
  return (OverQuota(group) ? kOverQuota : kOrdinary) + within;
}

bool RetentionBook::Pinned(BlockId block) const {
  const BlockRetention& record = Of(block);
  return record.pins_below > 0 && !versions_[record.version.value()].superseded;
}

bool RetentionBook::OverQuota(const EvictionGroupKey& group) const {
  const Version& version = versions_[group.version.value()];
  if (version.quota > 0 && version.blocks > version.quota) return true;
  if (group.tenant == kNoTenant) return false;
  const Tenant& tenant = tenants_[group.tenant];
  return tenant.quota.max_blocks > 0 && tenant.blocks > tenant.quota.max_blocks;
}

// A block may be counted twice, which errs on the safe side.
int64_t RetentionBook::protected_blocks() const {
  return pinned_.at_rest + ProtectedByFloors();
}

int64_t RetentionBook::KeptBlocks(int64_t total) const {
  const int64_t pinned = pinned_.blocks;
  return pinned + std::min(FloorsAt(total), FloorRoom(total, pinned));
}

int64_t RetentionBook::KeptBlocksAtRest(int64_t total) const {
  const int64_t wanted = FloorsAt(total);
  const int64_t granted = std::min(wanted, FloorRoom(total, pinned_.blocks));
  int64_t kept = pinned_.at_rest;
  for (const Tenant& tenant : tenants_) {
    kept += ProtectedByFloor(
        tenant, ShareOf(tenant.wish.Of(total).floor_blocks, wanted, granted));
  }
  return kept;
}

int64_t RetentionBook::FloorsAt(int64_t total) const {
  int64_t floors = 0;
  for (const Tenant& tenant : tenants_) {
    floors += tenant.wish.Of(total).floor_blocks;
  }
  return floors;
}

int64_t RetentionBook::FloorsNow() const {
  return std::min(wanted_floors_, FloorRoom(limit_, pinned_.blocks));
}

int64_t RetentionBook::FloorOf(const Tenant& tenant) const {
  return ShareOf(tenant.quota.floor_blocks, wanted_floors_, FloorsNow());
}

int64_t RetentionBook::ProtectedByFloor(const Tenant& tenant, int64_t floor) {
  const int64_t above = std::max<int64_t>(tenant.blocks - floor, 0);
  return tenant.at_rest - std::min(tenant.at_rest, above);
}

// Asked for at each eviction. Summed up anew only after the floors themselves
// have changed.
int64_t RetentionBook::ProtectedByFloors() const {
  const int64_t floors = FloorsNow();
  if (floor_sum_.floors == floors) return floor_sum_.blocks;
  floor_sum_ = {.floors = floors};
  for (const Tenant& tenant : tenants_) {
    floor_sum_.blocks += ProtectedByFloor(tenant, FloorOf(tenant));
  }
  return floor_sum_.blocks;
}

void RetentionBook::Describe(VersionSnapshot& version) const {
  const size_t index = static_cast<size_t>(version.id.value());
  if (index >= versions_.size()) return;
  version.quota_blocks = versions_[index].quota;
  version.pinned_blocks = versions_[index].pinned;
  version.evicted = versions_[index].evicted;
}

std::vector<TenantSnapshot> RetentionBook::Tenants() const {
  std::vector<TenantSnapshot> snapshots;
  snapshots.reserve(tenants_.size());
  for (const Tenant& tenant : tenants_) {
    snapshots.push_back({.salt = tenant.salt,
                         .quota = tenant.quota,
                         .blocks = tenant.blocks,
                         .at_rest = tenant.at_rest,
                         .evicted = tenant.evicted});
  }
  return snapshots;
}

void RetentionBook::Count(const BlockRetention& record, int64_t sign) {
  Version& version = VersionOf(record.version);
  version.blocks += sign;
  if (record.pins_below > 0) {
    version.pinned += sign;
    if (!version.superseded) pinned_.blocks += sign;
  }
  if (record.tenant != kNoTenant) CountTenant(record.tenant, sign, 0);
  if (record.at_rest) CountAtRest(record, sign);
}

void RetentionBook::CountAtRest(const BlockRetention& record, int64_t sign) {
  if (record.pins_below > 0) {
    Version& version = VersionOf(record.version);
    version.pinned_at_rest += sign;
    if (!version.superseded) pinned_.at_rest += sign;
  }
  if (record.tenant != kNoTenant) CountTenant(record.tenant, 0, sign);
}

void RetentionBook::CountTenant(TenantIndex index, int64_t blocks,
                                int64_t at_rest) {
  Tenant& tenant = tenants_[index];
  const bool summed = floor_sum_.floors == FloorsNow();
  const int64_t floor = FloorOf(tenant);
  if (summed) floor_sum_.blocks -= ProtectedByFloor(tenant, floor);
  tenant.blocks += blocks;
  tenant.at_rest += at_rest;
  if (summed) {
    floor_sum_.blocks += ProtectedByFloor(tenant, floor);
  } else {
    floor_sum_.floors = -1;
  }
}

bool RetentionBook::CountsAs(const RetentionBook& other) const {
  bool same = pinned_.blocks == other.pinned_.blocks &&
              pinned_.at_rest == other.pinned_.at_rest &&
              ProtectedByFloors() == other.ProtectedByFloors();
  for (size_t i = 0; i < tenants_.size(); ++i) {
    same &= tenants_[i].blocks == other.tenants_[i].blocks &&
            tenants_[i].at_rest == other.tenants_[i].at_rest &&
            tenants_[i].quota == tenants_[i].wish.Of(limit_);
  }
  for (size_t i = 0; i < versions_.size(); ++i) {
    same &= versions_[i].blocks == other.versions_[i].blocks &&
            versions_[i].pinned == other.versions_[i].pinned &&
            versions_[i].pinned_at_rest == other.versions_[i].pinned_at_rest;
  }
  return same;
}

// The blocks of a lease came to rest together and are found together.
double RetentionBook::SecondsSince(absl::Duration then) {
  if (then != span_begin_ || now_ != span_end_) {
    span_begin_ = then;
    span_end_ = now_;
    span_seconds_ = absl::ToDoubleSeconds(now_ - then);
  }
  return span_seconds_;
}

std::vector<std::string> RetentionBook::Violations(
    const std::vector<BlockId>& findable) const {
  std::vector<std::string> found;
  RetentionBook again;
  again.limit_ = limit_;
  again.wanted_floors_ = wanted_floors_;
  for (const Tenant& tenant : tenants_) {
    again.tenants_.push_back({.quota = tenant.quota});
  }
  for (const Version& version : versions_) {
    again.versions_.push_back({.superseded = version.superseded});
  }
  int64_t records = 0;
  for (const std::optional<BlockRetention>& record : records_) {
    if (!record.has_value()) continue;
    ++records;
    again.Count(*record, 1);
    if (record->pins < 0 || record->pins_below < record->pins) {
      found.push_back(absl::StrCat("a block has ", record->pins, " pins and ",
                                   record->pins_below, " on and below it"));
    }
  }
  if (records != static_cast<int64_t>(findable.size())) {
    found.push_back(absl::StrCat("the retention book has ", records,
                                 " blocks instead of ", findable.size()));
  }
  if (!CountsAs(again)) {
    found.push_back("the retention book's counts differ from its blocks");
  }
  return found;
}

}  // namespace kvasir

#include "server/tenant_quota.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "cache/base/status_macros.h"
#include "cache/retention.h"
#include "engine/model/utf8.h"
#include "server/config_values.h"
#include "server/request_codec.h"
#include "server/text.h"

namespace kvasir {
namespace {

constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();
// Of a cache of so many "bytes" a share is exact to a hundredth percent.
constexpr int64_t kShareUnits = 10000;

bool IsNumber(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isdigit(c); });
}

absl::StatusOr<CacheShare> ParseShare(std::string_view text) {
  CacheShare share;
  if (IsNumber(text)) {
    ASSIGN_OR_RETURN(share.blocks, ParseCount(text, 0, kMaxBlocks));
  } else if (!text.empty() && text.back() == '%') {
    ASSIGN_OR_RETURN(const int64_t units,
                     ParseSize(text, [] { return kShareUnits; }));
    share.ratio = static_cast<double>(units) / kShareUnits;
  } else {
    const absl::StatusOr<int64_t> bytes =
        ParseSize(text, [] { return int64_t{0}; });
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "wanted blocks, a size or a share, such as 4096, 512MiB or 10%, "
          "found ",
          QuoteText(text)));
    }
    share.bytes = *bytes;
  }
  return share;
}

// Whether `most` is surely below `floor`; different units cannot be compared
// before there is a cache.
bool SurelyBelow(const CacheShare& most, const CacheShare& floor) {
  return (most.blocks > 0 && most.blocks < floor.blocks) ||
         (most.bytes > 0 && most.bytes < floor.bytes) ||
         (most.ratio > 0 && most.ratio < floor.ratio);
}

// Salts are in no error, so places tell whose fault it is; from 1.
absl::Status AtEntry(size_t index, const absl::Status& fault) {
  return absl::Status(fault.code(),
                      absl::StrCat("entry ", index + 1, ": ", fault.message()));
}

absl::StatusOr<TenantShare> ParseTenant(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) {
    return absl::InvalidArgumentError(
        "wanted SALT=FLOOR[:MAX], found no = in it");
  }
  TenantShare tenant;
  tenant.salt = std::string(text.substr(0, equals));
  if (tenant.salt.size() > kMaxSaltBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted a salt of at most ", kMaxSaltBytes,
                     " bytes, found ", tenant.salt.size()));
  }
  const std::string_view shares = text.substr(equals + 1);
  const size_t colon = shares.find(':');
  ASSIGN_OR_RETURN(tenant.floor, ParseShare(shares.substr(0, colon)));
  if (colon == std::string_view::npos) return tenant;
  ASSIGN_OR_RETURN(tenant.most, ParseShare(shares.substr(colon + 1)));
  const bool none = tenant.most.blocks == 0 && tenant.most.bytes == 0 &&
                    tenant.most.ratio == 0;
  if (!none && !SurelyBelow(tenant.most, tenant.floor)) return tenant;
  return absl::InvalidArgumentError(absl::StrCat(
      "wanted a MAX above 0 and not below FLOOR, found ", QuoteText(shares)));
}

}  // namespace

absl::StatusOr<std::vector<TenantShare>> ParseTenantQuotas(
    std::string_view text) {
  std::vector<TenantShare> tenants;
  if (text.empty()) return tenants;
  for (const absl::string_view part :
       absl::StrSplit(View(text), kTenantSeparator)) {
    absl::StatusOr<TenantShare> tenant =
        ParseTenant({part.data(), part.size()});
    if (!tenant.ok()) return AtEntry(tenants.size(), tenant.status());
    const auto known = std::find_if(
        tenants.begin(), tenants.end(),
        [&](const TenantShare& other) { return other.salt == tenant->salt; });
    if (known != tenants.end()) {
      return AtEntry(tenants.size(), absl::InvalidArgumentError(absl::StrCat(
                                         "wanted each salt once, found that "
                                         "of entry ",
                                         known - tenants.begin() + 1)));
    }
    tenants.push_back(*std::move(tenant));
  }
  if (static_cast<int64_t>(tenants.size()) > kMaxQuotaTenants) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted at most ", kMaxQuotaTenants, " tenants, found ",
                     tenants.size()));
  }
  return tenants;
}

}  // namespace kvasir

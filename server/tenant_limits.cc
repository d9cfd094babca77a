#include "server/tenant_limits.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/config_values.h"
#include "server/text.h"

namespace kvasir {
namespace {

constexpr int64_t kMaxRequests = std::numeric_limits<int32_t>::max();
// So that a level in a double is exact to a token.
constexpr int64_t kMaxTokensPerMinute = int64_t{1} << 50;

absl::Status Unreadable(const std::string& found) {
  return absl::InvalidArgumentError(absl::StrCat(
      "wanted NAME=requests:N,tokens:N/min, or either part, found ", found));
}

// A name may be a salt, which is in no error; places tell whose fault it is.
absl::Status AtEntry(size_t index, const absl::Status& fault) {
  return absl::Status(fault.code(),
                      absl::StrCat("entry ", index + 1, ": ", fault.message()));
}

// One part of what stands behind the name; `tenant` is what it is read into.
absl::StatusOr<TenantLimit> ReadPart(TenantLimit tenant,
                                     absl::string_view part) {
  int64_t* member = nullptr;
  int64_t most = 0;
  if (absl::ConsumePrefix(&part, "requests:")) {
    member = &tenant.requests;
    most = kMaxRequests;
  } else if (absl::ConsumePrefix(&part, "tokens:") &&
             absl::ConsumeSuffix(&part, "/min")) {
    member = &tenant.tokens_per_minute;
    most = kMaxTokensPerMinute;
  } else {
    return Unreadable(QuoteText({part.data(), part.size()}));
  }
  if (*member != 0) {
    return absl::InvalidArgumentError("wanted each part once, found one twice");
  }
  ASSIGN_OR_RETURN(*member, ParseCount({part.data(), part.size()}, 1, most));
  return tenant;
}

absl::StatusOr<TenantLimit> ReadTenant(absl::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == absl::string_view::npos) return Unreadable("no = in it");
  TenantLimit tenant{.tenant = std::string(text.substr(0, equals))};
  for (const absl::string_view part :
       absl::StrSplit(text.substr(equals + 1), ',')) {
    ASSIGN_OR_RETURN(tenant, ReadPart(std::move(tenant), part));
  }
  return tenant;
}

}  // namespace

absl::StatusOr<std::vector<TenantLimit>> ParseTenantLimits(
    std::string_view text) {
  std::vector<TenantLimit> limits;
  if (text.empty()) return limits;
  for (const absl::string_view part :
       absl::StrSplit(View(text), kTenantLimitSeparator)) {
    absl::StatusOr<TenantLimit> limit = ReadTenant(part);
    if (!limit.ok()) return AtEntry(limits.size(), limit.status());
    const auto known = std::find_if(
        limits.begin(), limits.end(),
        [&](const TenantLimit& one) { return one.tenant == limit->tenant; });
    if (known != limits.end()) {
      return AtEntry(limits.size(), absl::InvalidArgumentError(absl::StrCat(
                                        "wanted each tenant once, found that "
                                        "of entry ",
                                        known - limits.begin() + 1)));
    }
    limits.push_back(*std::move(limit));
  }
  if (limits.size() > kMaxTenantLimits) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted at most ", kMaxTenantLimits, " tenants, found ",
                     limits.size()));
  }
  return limits;
}

}  // namespace kvasir

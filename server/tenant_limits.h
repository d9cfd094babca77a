#ifndef KVASIR_SERVER_TENANT_LIMITS_H_
#define KVASIR_SERVER_TENANT_LIMITS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kvasir {

// What one tenant may ask of the server; 0 is no limit.
struct TenantLimit {
  // Whose it is; kEveryTenant: of each one that has no limit of its own.
  std::string tenant;
  int64_t requests = 0;           // in flight
  int64_t tokens_per_minute = 0;  // of prompts and outputs together
};

inline constexpr std::string_view kEveryTenant = "*";

// Between the limits of several tenants, so that a tenant with it has none.
inline constexpr char kTenantLimitSeparator = ';';

inline constexpr size_t kMaxTenantLimits = 1024;

// "NAME=requests:N,tokens:N/min", either part alone too; several with
// kTenantLimitSeparator between them. NAME ends at the last '=' and may be
// empty, which means callers without a tenant, or "*", each tenant that is not
// named. Empty text: no limits.
//
// INVALID_ARGUMENT with what was wanted and found, without the option's name
// and without tenants' names: the entry is told by its place.
absl::StatusOr<std::vector<TenantLimit>> ParseTenantLimits(
    std::string_view text);

}  // namespace kvasir

#endif  // KVASIR_SERVER_TENANT_LIMITS_H_

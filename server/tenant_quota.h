#ifndef KVASIR_SERVER_TENANT_QUOTA_H_
#define KVASIR_SERVER_TENANT_QUOTA_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "engine/prefix_order.h"

namespace kvasir {

// Between the quotas of several tenants, so that a salt with it has none.
inline constexpr char kTenantSeparator = ',';

// "SALT=FLOOR[:MAX]", several with kTenantSeparator between them. A salt may be
// empty, which means the requests without one, and have any other character; it
// ends at the last '='. FLOOR and MAX are blocks ("4096"), sizes ("512MiB") or
// shares of the cache as it is at any time ("10%"); MAX is not below FLOOR
// where both are written alike. Empty text: no quotas.
//
// INVALID_ARGUMENT with what was wanted and found, without the option's name
// and without salts: the entry is told by its place.
absl::StatusOr<std::vector<TenantShare>> ParseTenantQuotas(
    std::string_view text);

}  // namespace kvasir

#endif  // KVASIR_SERVER_TENANT_QUOTA_H_

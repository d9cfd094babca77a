#ifndef KVASIR_SERVER_STATUS_MAPPING_H_
#define KVASIR_SERVER_STATUS_MAPPING_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

#include "server/status_reason.h"

namespace kvasir {

// The domain of every google.rpc.ErrorInfo that this server sends.
inline constexpr std::string_view kErrorDomain = "kvasir";

// Paths of files become their last part, addresses in memory "[address]".
std::string StripPrivate(std::string_view message);

// The only place where both kinds of status meet. Codes are equal by number.
//
// The details are a google.rpc.Status (AIP-193). Each kind of detail is there
// at most once: ErrorInfo always, with what was wanted and found and the
// limit's name as metadata; BadRequest if a field is at fault; QuotaFailure for
// a limit that RESOURCE_EXHAUSTED is about; PreconditionFailure for
// FAILED_PRECONDITION; ResourceInfo for NOT_FOUND; RetryInfo if trying again
// helps; RequestInfo if there is an id.
grpc::Status ToGrpcStatus(const absl::Status& status,
                          std::string_view request_id = {});

}  // namespace kvasir

#endif  // KVASIR_SERVER_STATUS_MAPPING_H_

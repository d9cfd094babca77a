#ifndef KVASIR_SERVER_STATUS_MAPPING_H_
#define KVASIR_SERVER_STATUS_MAPPING_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"

namespace kvasir {

// The domain of every google.rpc.ErrorInfo that this server sends.
inline constexpr std::string_view kErrorDomain = "kvasir";

// Reasons that are told apart by machines beyond the status code. UPPER_SNAKE,
// at most 63 characters (AIP-193).
inline constexpr std::string_view kReasonLoading = "MODEL_LOADING";
inline constexpr std::string_view kReasonDraining = "SERVER_DRAINING";
inline constexpr std::string_view kReasonQueueFull = "QUEUE_FULL";
inline constexpr std::string_view kReasonCacheTooSmall = "CACHE_TOO_SMALL";
inline constexpr std::string_view kReasonSlowClient = "CLIENT_READS_TOO_SLOWLY";

// `status` with the reason that ToGrpcStatus() will send. OK stays OK.
absl::Status WithReason(absl::Status status, std::string_view reason);

// The reason that ToGrpcStatus() sends with an error: WithReason()'s, else the
// usual one of its code.
std::string ReasonOf(const absl::Status& status);

// `status` with advice to try again after `delay`.
absl::Status WithRetry(absl::Status status, absl::Duration delay);

// How long a client had better wait before it tries again; nothing if trying
// again will not help. What WithRetry() said, else a second for UNAVAILABLE and
// for a full queue.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// The field of the request that an INVALID_ARGUMENT or UNIMPLEMENTED is about:
// what stands before the first ": " of its message, if that looks like a path
// such as "sampling.top_p" or "chat.messages[3].role". Empty if none.
std::string FieldOf(const absl::Status& status);

// Paths of files become their last part, addresses in memory "[address]".
std::string StripPrivate(std::string_view message);

// The only place where both kinds of status meet. Codes are equal by number.
// The details are a google.rpc.Status with an ErrorInfo, a BadRequest if a
// field is at fault, a RetryInfo if trying again helps and a RequestInfo if
// there is an id.
grpc::Status ToGrpcStatus(const absl::Status& status,
                          std::string_view request_id = {});

}  // namespace kvasir

#endif  // KVASIR_SERVER_STATUS_MAPPING_H_

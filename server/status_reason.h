#ifndef KVASIR_SERVER_STATUS_REASON_H_
#define KVASIR_SERVER_STATUS_REASON_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kvasir {

// What this server reads out of an absl::Status before it goes to a client:
// why, which field, limit or thing it is about, and whether to try again. What
// the server itself knows it attaches with the With...() functions; what only
// the engine knows is read off the engine's words, which are the same for each
// kind of error. Words that are not known fall back to the code's usual reason.
//
// Pure functions, any thread. OK stays OK in all of them.

// Reasons that are told apart by machines beyond the status code. UPPER_SNAKE,
// at most 63 characters (AIP-193).
inline constexpr std::string_view kReasonLoading = "MODEL_LOADING";
inline constexpr std::string_view kReasonDraining = "SERVER_DRAINING";
inline constexpr std::string_view kReasonQueueFull = "QUEUE_FULL";
inline constexpr std::string_view kReasonCacheTooSmall = "CACHE_TOO_SMALL";
inline constexpr std::string_view kReasonSlowClient = "SLOW_CLIENT";
inline constexpr std::string_view kReasonMessageTooLarge = "MESSAGE_TOO_LARGE";
inline constexpr std::string_view kReasonTooManyStreams = "TOO_MANY_STREAMS";
inline constexpr std::string_view kReasonTenantLimit = "TENANT_LIMIT";

// `status` with the reason that ReasonOf() will give.
absl::Status WithReason(absl::Status status, std::string_view reason);

// WithReason()'s, else that of the engine's words, else the usual one of the
// code.
std::string ReasonOf(const absl::Status& status);

// Every reason there is, for the documents to be complete.
std::set<std::string> AllReasons();

// `status` with advice to try again after `delay`.
absl::Status WithRetry(absl::Status status, absl::Duration delay);

// How long a client had better wait before it tries again; nothing if trying
// again will not help. What WithRetry() said, else a second for UNAVAILABLE and
// for a full queue.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// A limit that a request has met.
struct LimitInfo {
  std::string name;     // the option that sets it: "server.stream_queue"
  std::string subject;  // whose it is: "server", "tenant:blue"
  std::string metric;   // what is counted: "streams", "tokens_per_minute"
  int64_t value = 0;    // how much is allowed; 0: no one number
};

absl::Status WithLimit(absl::Status status, const LimitInfo& limit);

// WithLimit()'s, else that of the engine's words; nothing unless the code is
// RESOURCE_EXHAUSTED.
std::optional<LimitInfo> LimitOf(const absl::Status& status);

// A thing that a call names.
struct ResourceName {
  std::string type;  // "model", "version" or "prefix"
  std::string name;
};

// What a NOT_FOUND says is not there; nothing if it does not say.
std::optional<ResourceName> ResourceOf(const absl::Status& status);

// The field of the request that an error is about: what stands before the first
// ": " of its message, if that looks like a path such as "sampling.top_p" or
// "chat.messages[3].role". Empty if none.
std::string FieldIn(const absl::Status& status);

// The same for an INVALID_ARGUMENT or UNIMPLEMENTED, where the field is at
// fault; empty for other codes.
std::string FieldOf(const absl::Status& status);

// The two halves of "wanted W, found F" in a message, without what follows
// them; each empty if there is no such part.
struct WantedFound {
  std::string wanted;
  std::string found;
};
WantedFound WantedFoundIn(std::string_view message);

}  // namespace kvasir

#endif  // KVASIR_SERVER_STATUS_REASON_H_

#include "server/status_reason.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "server/text.h"

namespace kvasir {
namespace {

constexpr const char* kReasonUrl = "kvasir/reason";
constexpr const char* kRetryUrl = "kvasir/retry";
constexpr const char* kLimitUrl = "kvasir/limit";

constexpr absl::Duration kDefaultRetry = absl::Seconds(1);

// Metadata is for machines: what is longer is for people to read.
constexpr size_t kMaxWantedBytes = 128;

// Words of the engine and of the server's own rooms by which a kind of error
// is known. The first row whose code agrees and whose words are in the message
// counts.
struct Words {
  absl::StatusCode code;
  absl::string_view part;
  const char* reason;
  const char* limit = nullptr;
  const char* metric = nullptr;
};
constexpr Words kWords[] = {
    {absl::StatusCode::kInvalidArgument, " tokens (a context of ",
     "CONTEXT_LENGTH_EXCEEDED"},
    {absl::StatusCode::kResourceExhausted, "inbox_limit: ", "QUEUE_FULL",
     "engine.inbox_limit", "waiting_requests"},
    {absl::StatusCode::kResourceExhausted, "warm orders: ", "QUEUE_FULL",
     "warm orders", "waiting_orders"},
    {absl::StatusCode::kResourceExhausted, "prompt: ", "CACHE_TOO_SMALL",
     "cache.size", "tokens"},
    {absl::StatusCode::kResourceExhausted, "chat: ", "CACHE_TOO_SMALL",
     "cache.size", "tokens"},
    {absl::StatusCode::kResourceExhausted, "the KV cache has no room",
     "CACHE_TOO_SMALL", "cache.size", "tokens"},
    {absl::StatusCode::kResourceExhausted, " blocks kept by pins", "PIN_LIMIT",
     "pinned blocks", "blocks"},
    {absl::StatusCode::kResourceExhausted, " blocks of the cache, found ",
     "CACHE_TOO_SMALL", "cache.size", "blocks"},
    {absl::StatusCode::kResourceExhausted, " tokens to be resident, ",
     "CACHE_TOO_SMALL", "cache.size", "tokens"},
    {absl::StatusCode::kResourceExhausted, "changing its size; try again",
     "CACHE_BUSY"},
    {absl::StatusCode::kResourceExhausted, "model_path: ", "MEMORY_LIMIT",
     "memory", "bytes"},
    {absl::StatusCode::kResourceExhausted, "target: ", "MEMORY_LIMIT", "memory",
     "bytes"},
    {absl::StatusCode::kFailedPrecondition, "only a serving version",
     "VERSION_NOT_SERVING"},
    {absl::StatusCode::kFailedPrecondition, " has been deleted",
     "VERSION_RETIRING"},
    {absl::StatusCode::kFailedPrecondition, " is the active one",
     "VERSION_ACTIVE"},
    {absl::StatusCode::kFailedPrecondition, "no earlier version",
     "NO_EARLIER_VERSION"},
    {absl::StatusCode::kFailedPrecondition, " versions resident",
     "TOO_MANY_VERSIONS"},
    {absl::StatusCode::kFailedPrecondition, "another version is being made",
     "VERSION_BEING_MADE"},
    {absl::StatusCode::kFailedPrecondition, "whose cache blocks have the shape",
     "SHAPE_MISMATCH"},
    {absl::StatusCode::kFailedPrecondition, " is under way", "RESIZE_RUNNING"},
    {absl::StatusCode::kFailedPrecondition, " blocks of pinned prefixes",
     "BLOCKS_PINNED"},
    {absl::StatusCode::kFailedPrecondition, " are needed now", "BLOCKS_NEEDED"},
    {absl::StatusCode::kFailedPrecondition, " is not pinned", "NOT_PINNED"},
    {absl::StatusCode::kFailedPrecondition, "no request in flight",
     "REQUESTS_IN_FLIGHT"},
    {absl::StatusCode::kFailedPrecondition,
     "prefix_caching: ", "PREFIX_CACHING_OFF"},
    {absl::StatusCode::kAlreadyExists, "label: ", "LABEL_TAKEN"},
    {absl::StatusCode::kAlreadyExists, "", "REQUEST_ID_IN_FLIGHT"},
    {absl::StatusCode::kUnavailable, " is draining", "SERVER_DRAINING"},
    {absl::StatusCode::kUnavailable, "ended by a drain", "SERVER_DRAINING"},
    {absl::StatusCode::kUnavailable, "shutting down", "SERVER_DRAINING"},
    {absl::StatusCode::kUnavailable, "engine is unhealthy", "ENGINE_UNHEALTHY"},
    {absl::StatusCode::kUnimplemented, "", "NOT_IMPLEMENTED"},
};

const Words* FindWords(const absl::Status& status) {
  for (const Words& words : kWords) {
    if (status.code() == words.code &&
        absl::StrContains(status.message(), words.part)) {
      return &words;
    }
  }
  return nullptr;
}

std::optional<std::string> Payload(const absl::Status& status,
                                   const char* url) {
  const auto payload = status.GetPayload(url);
  if (!payload.has_value()) return std::nullopt;
  return std::string(*payload);
}

// What a NOT_FOUND calls the thing that its name stands behind.
struct Thing {
  absl::string_view words;
  const char* type;
};
constexpr Thing kThings[] = {
    {"no model ", "model"},     {"no cache version ", "version"},
    {"no version ", "version"}, {"no listed prefix begins with ", "prefix"},
    {"no prefix ", "prefix"},
};

// The name at the beginning of `text`, with or without quotes.
std::string NameAt(absl::string_view text) {
  if (absl::ConsumePrefix(&text, "\"")) {
    return std::string(text.substr(0, text.find('"')));
  }
  return std::string(text.substr(0, text.find(' ')));
}

std::string UpTo(std::string_view text, std::string_view end) {
  const std::string_view part = text.substr(0, text.find(end));
  return part.size() <= kMaxWantedBytes ? std::string(part) : "";
}

}  // namespace

absl::Status WithReason(absl::Status status, std::string_view reason) {
  status.SetPayload(kReasonUrl, absl::Cord(View(reason)));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  if (const auto reason = Payload(status, kReasonUrl)) return *reason;
  if (const Words* words = FindWords(status)) return words->reason;
  return CodeName(static_cast<int>(status.code()));
}

std::set<std::string> AllReasons() {
  std::set<std::string> reasons;
  for (const std::string_view own :
       {kReasonLoading, kReasonDraining, kReasonQueueFull, kReasonCacheTooSmall,
        kReasonSlowClient, kReasonMessageTooLarge, kReasonTooManyStreams,
        kReasonTenantLimit}) {
    reasons.emplace(own);
  }
  for (const Words& words : kWords) reasons.insert(words.reason);
  // The codes that this server uses.
  for (const absl::StatusCode code :
       {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
        absl::StatusCode::kFailedPrecondition,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kUnavailable,
        absl::StatusCode::kUnauthenticated, absl::StatusCode::kPermissionDenied,
        absl::StatusCode::kCancelled, absl::StatusCode::kDeadlineExceeded,
        absl::StatusCode::kOutOfRange, absl::StatusCode::kInternal}) {
    reasons.insert(CodeName(static_cast<int>(code)));
  }
  return reasons;
}

absl::Status WithRetry(absl::Status status, absl::Duration delay) {
  status.SetPayload(kRetryUrl, absl::Cord(absl::FormatDuration(delay)));
  return status;
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  if (const auto text = Payload(status, kRetryUrl)) {
    absl::Duration delay;
    if (absl::ParseDuration(*text, &delay)) return delay;
  }
  if (absl::IsUnavailable(status)) return kDefaultRetry;
  if (!absl::IsResourceExhausted(status)) return std::nullopt;
  const std::string reason = ReasonOf(status);
  if (reason == kReasonQueueFull || reason == "CACHE_BUSY") {
    return kDefaultRetry;
  }
  return std::nullopt;
}

// The subject comes last, since a tenant's name may have any character.
absl::Status WithLimit(absl::Status status, const LimitInfo& limit) {
  status.SetPayload(
      kLimitUrl, absl::Cord(absl::StrCat(limit.name, "\n", limit.metric, "\n",
                                         limit.value, "\n", limit.subject)));
  return status;
}

std::optional<LimitInfo> LimitOf(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return std::nullopt;
  if (const auto payload = Payload(status, kLimitUrl)) {
    const std::vector<std::string> parts =
        absl::StrSplit(*payload, absl::MaxSplits('\n', 3));
    LimitInfo limit{.name = parts[0], .subject = parts[3], .metric = parts[1]};
    if (!absl::SimpleAtoi(parts[2], &limit.value)) limit.value = 0;
    return limit;
  }
  const Words* words = FindWords(status);
  if (words == nullptr || words->limit == nullptr) return std::nullopt;
  return LimitInfo{
      .name = words->limit, .subject = "server", .metric = words->metric};
}

std::optional<ResourceName> ResourceOf(const absl::Status& status) {
  if (!absl::IsNotFound(status)) return std::nullopt;
  for (const Thing& thing : kThings) {
    const size_t at = status.message().find(thing.words);
    if (at == absl::string_view::npos) continue;
    return ResourceName{
        thing.type, NameAt(status.message().substr(at + thing.words.size()))};
  }
  return std::nullopt;
}

std::string FieldIn(const absl::Status& status) {
  const absl::string_view message = status.message();
  const size_t colon = message.find(": ");
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::ascii_islower(message[0])) {
    return "";
  }
  for (const char c : message.substr(0, colon)) {
    if (!absl::ascii_islower(c) && !absl::ascii_isdigit(c) && c != '_' &&
        c != '.' && c != '[' && c != ']') {
      return "";
    }
  }
  return std::string(message.substr(0, colon));
}

std::string FieldOf(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status)
             ? FieldIn(status)
             : "";
}

WantedFound WantedFoundIn(std::string_view message) {
  constexpr std::string_view kWanted = "wanted ";
  constexpr std::string_view kFound = ", found ";
  WantedFound parts;
  const size_t wanted = message.find(kWanted);
  if (wanted == std::string_view::npos) return parts;
  const std::string_view rest = message.substr(wanted + kWanted.size());
  const size_t found = rest.find(kFound);
  if (found == std::string_view::npos) return parts;
  // What stands in brackets behind the number explains it to people.
  parts.wanted = UpTo(rest.substr(0, found), " (");
  std::string_view tail = rest.substr(found + kFound.size());
  tail = tail.substr(0, tail.find("; "));
  parts.found = UpTo(tail, ", ");
  return parts;
}

}  // namespace kvasir

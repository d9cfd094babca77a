#include "server/status_mapping.h"

#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "server/text.h"

namespace kvasir {
namespace {

constexpr const char* kReasonUrl = "kvasir/reason";
constexpr const char* kRetryUrl = "kvasir/retry";

constexpr absl::Duration kDefaultRetry = absl::Seconds(1);

// gRPC's trailers should stay below 8 KiB, and the message goes there twice.
constexpr size_t kMaxMessageBytes = 2048;

const char* DefaultReason(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      // The engine's words for a prompt that is over the model's context.
      return FieldOf(status) == "prompt" &&
                     absl::StrContains(status.message(), "context")
                 ? "CONTEXT_LENGTH_EXCEEDED"
                 : "INVALID_ARGUMENT";
    case absl::StatusCode::kResourceExhausted:
      return absl::StartsWith(status.message(), "inbox_limit")
                 ? kReasonQueueFull.data()
                 : kReasonCacheTooSmall.data();
    case absl::StatusCode::kNotFound:
      return "NOT_FOUND";
    case absl::StatusCode::kAlreadyExists:
      return absl::StartsWith(status.message(), "label: ")
                 ? "LABEL_TAKEN"
                 : "REQUEST_ID_IN_FLIGHT";
    case absl::StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case absl::StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case absl::StatusCode::kCancelled:
      return "CANCELLED";
    case absl::StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case absl::StatusCode::kUnimplemented:
      return "NOT_IMPLEMENTED";
    default:
      return "INTERNAL";
  }
}

bool IsPathStart(char before) {
  return !absl::ascii_isalnum(before) && before != '/' && before != '.' &&
         before != '_' && before != '-' && before != ']' && before != ')';
}

bool IsPathCharacter(char c) {
  return absl::ascii_isalnum(c) || c == '/' || c == '.' || c == '_' ||
         c == '-' || c == '+' || c == '~' || c == '@' || c == '%';
}

std::string Truncate(std::string message) {
  if (message.size() <= kMaxMessageBytes) return message;
  size_t end = kMaxMessageBytes;
  // Not inside a character: a status message is UTF-8.
  while (end > 0 && (message[end] & 0xC0) == 0x80) --end;
  return message.substr(0, end) + "...";
}

std::string Details(const absl::Status& status, const std::string& message,
                    std::string_view request_id) {
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(status.code()));
  wire.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(ReasonOf(status));
  info.set_domain(std::string(kErrorDomain));
  wire.add_details()->PackFrom(info);
  if (const std::string field = FieldOf(status); !field.empty()) {
    google::rpc::BadRequest bad;
    auto* violation = bad.add_field_violations();
    violation->set_field(field);
    violation->set_description(message.substr(field.size() + 2));
    violation->set_reason(info.reason());
    wire.add_details()->PackFrom(bad);
  }
  if (const std::optional<absl::Duration> delay = RetryDelay(status)) {
    google::rpc::RetryInfo retry;
    const int64_t nanos = absl::ToInt64Nanoseconds(*delay);
    retry.mutable_retry_delay()->set_seconds(nanos / 1000000000);
    retry.mutable_retry_delay()->set_nanos(
        static_cast<int32_t>(nanos % 1000000000));
    wire.add_details()->PackFrom(retry);
  }
  if (!request_id.empty()) {
    google::rpc::RequestInfo request;
    request.set_request_id(std::string(request_id));
    wire.add_details()->PackFrom(request);
  }
  return wire.SerializeAsString();
}

}  // namespace

std::string ReasonOf(const absl::Status& status) {
  if (const auto reason = status.GetPayload(kReasonUrl)) {
    return std::string(*reason);
  }
  return DefaultReason(status);
}

absl::Status WithReason(absl::Status status, std::string_view reason) {
  status.SetPayload(kReasonUrl, absl::Cord(View(reason)));
  return status;
}

absl::Status WithRetry(absl::Status status, absl::Duration delay) {
  status.SetPayload(kRetryUrl, absl::Cord(absl::FormatDuration(delay)));
  return status;
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  if (const auto text = status.GetPayload(kRetryUrl)) {
    absl::Duration delay;
    if (absl::ParseDuration(std::string(*text), &delay)) return delay;
  }
  if (absl::IsUnavailable(status)) return kDefaultRetry;
  if (absl::IsResourceExhausted(status) &&
      ReasonOf(status) == kReasonQueueFull) {
    return kDefaultRetry;
  }
  return std::nullopt;
}

std::string FieldOf(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) && !absl::IsUnimplemented(status)) {
    return "";
  }
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

std::string StripPrivate(std::string_view message) {
  std::string out;
  for (size_t i = 0; i < message.size();) {
    const bool fresh = i == 0 || IsPathStart(message[i - 1]);
    size_t end = i;
    if (fresh && message[i] == '/') {
      while (end < message.size() && IsPathCharacter(message[end])) ++end;
      const std::string_view path = message.substr(i, end - i);
      // A lone slash and what ends in one have no last part to show.
      const std::string_view last = path.substr(path.rfind('/') + 1);
      out += last.empty() && path.size() > 1 ? "[path]" : std::string(last);
      if (path.size() == 1) out += '/';
    } else if (fresh && message.substr(i, 2) == "0x") {
      end += 2;
      while (end < message.size() && absl::ascii_isxdigit(message[end])) ++end;
      out += "[address]";
    } else {
      out += message[end++];
    }
    i = end;
  }
  return out;
}

grpc::Status ToGrpcStatus(const absl::Status& status,
                          std::string_view request_id) {
  if (status.ok()) return grpc::Status::OK;
  const absl::string_view text = status.message();
  const std::string message =
      Truncate(StripPrivate(std::string_view(text.data(), text.size())));
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      Details(status, message, request_id));
}

}  // namespace kvasir

#include "server/status_mapping.h"

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/time/time.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace kvasir {
namespace {

// gRPC's clients refuse trailers of more than 8 KiB, and the message is in them
// three times, once with three bytes for each that is not ASCII.
constexpr size_t kMaxMessageBytes = 1024;

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

google::rpc::ErrorInfo InfoOf(const absl::Status& status,
                              const std::string& message) {
  google::rpc::ErrorInfo info;
  info.set_reason(ReasonOf(status));
  info.set_domain(std::string(kErrorDomain));
  auto& metadata = *info.mutable_metadata();
  const WantedFound parts = WantedFoundIn(message);
  if (!parts.wanted.empty()) metadata["wanted"] = parts.wanted;
  if (!parts.found.empty()) metadata["found"] = parts.found;
  if (const auto limit = LimitOf(status)) metadata["limit"] = limit->name;
  return info;
}

google::rpc::BadRequest BadRequestOf(const std::string& field,
                                     const std::string& message,
                                     const std::string& reason) {
  google::rpc::BadRequest bad;
  auto* violation = bad.add_field_violations();
  violation->set_field(field);
  violation->set_description(message.substr(field.size() + 2));
  violation->set_reason(reason);
  return bad;
}

google::rpc::QuotaFailure QuotaFailureOf(const LimitInfo& limit,
                                         const std::string& message) {
  google::rpc::QuotaFailure quota;
  auto* violation = quota.add_violations();
  violation->set_subject(limit.subject);
  violation->set_description(message);
  violation->set_quota_metric(limit.metric);
  violation->set_quota_id(limit.name);
  violation->set_quota_value(limit.value);
  return quota;
}

google::rpc::PreconditionFailure PreconditionOf(const absl::Status& status,
                                                const std::string& message) {
  google::rpc::PreconditionFailure precondition;
  auto* violation = precondition.add_violations();
  violation->set_type(ReasonOf(status));
  violation->set_subject(FieldIn(status));
  violation->set_description(message);
  return precondition;
}

google::rpc::ResourceInfo ResourceInfoOf(const ResourceName& resource,
                                         const std::string& message) {
  google::rpc::ResourceInfo info;
  info.set_resource_type(resource.type);
  info.set_resource_name(resource.name);
  info.set_description(message);
  return info;
}

google::rpc::RetryInfo RetryInfoOf(absl::Duration delay) {
  constexpr int64_t kNanos = 1000000000;
  google::rpc::RetryInfo retry;
  const int64_t nanos = absl::ToInt64Nanoseconds(delay);
  retry.mutable_retry_delay()->set_seconds(nanos / kNanos);
  retry.mutable_retry_delay()->set_nanos(static_cast<int32_t>(nanos % kNanos));
  return retry;
}

std::string Details(const absl::Status& status, const std::string& message,
                    std::string_view request_id) {
  google::rpc::Status wire;
  wire.set_code(static_cast<int>(status.code()));
  wire.set_message(message);
  const auto add = [&wire](const google::protobuf::Message& detail) {
    wire.add_details()->PackFrom(detail);
  };
  const google::rpc::ErrorInfo info = InfoOf(status, message);
  add(info);
  if (const std::string field = FieldOf(status); !field.empty()) {
    add(BadRequestOf(field, message, info.reason()));
  }
  if (const auto limit = LimitOf(status)) {
    add(QuotaFailureOf(*limit, message));
  }
  if (absl::IsFailedPrecondition(status)) add(PreconditionOf(status, message));
  if (const auto resource = ResourceOf(status)) {
    add(ResourceInfoOf(*resource, message));
  }
  if (const auto delay = RetryDelay(status)) add(RetryInfoOf(*delay));
  if (!request_id.empty()) {
    google::rpc::RequestInfo request;
    request.set_request_id(std::string(request_id));
    add(request);
  }
  return wire.SerializeAsString();
}

}  // namespace

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

#include "server/retention_codec.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "server/request_codec.h"

namespace kvasir {
namespace {

absl::StatusOr<int32_t> PriorityOf(v1::Retention level) {
  switch (level) {
    case v1::RETENTION_EPHEMERAL:
      return kEphemeralPriority;
    case v1::RETENTION_UNSPECIFIED:
    case v1::RETENTION_NORMAL:
      return kDefaultRetentionPriority;
    case v1::RETENTION_HIGH:
      return kHighPriority;
    case v1::RETENTION_PINNED:
      return kMaxRetentionPriority;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("retention: wanted EPHEMERAL, NORMAL, HIGH or PINNED, "
                       "found number ",
                       static_cast<int>(level)));
  }
}

}  // namespace

absl::StatusOr<WantedRetention> DecodeRetention(
    v1::Retention level, std::optional<int32_t> priority,
    const google::protobuf::Duration* ttl) {
  WantedRetention wanted;
  wanted.pin = level == v1::RETENTION_PINNED;
  Retention retention;
  ASSIGN_OR_RETURN(retention.priority, PriorityOf(level));
  if (priority.has_value()) {
    if (*priority < kMinRetentionPriority ||
        *priority > kMaxRetentionPriority) {
      return absl::InvalidArgumentError(
          absl::StrCat("priority: wanted ", kMinRetentionPriority, " to ",
                       kMaxRetentionPriority, ", found ", *priority));
    }
    retention.priority = *priority;
  }
  if (ttl != nullptr) {
    ASSIGN_OR_RETURN(retention.ttl, DecodePositiveDuration("ttl", *ttl));
  }
  if (level != v1::RETENTION_UNSPECIFIED || priority.has_value() ||
      ttl != nullptr) {
    wanted.retention = retention;
  }
  return wanted;
}

}  // namespace kvasir

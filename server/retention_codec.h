#ifndef KVASIR_SERVER_RETENTION_CODEC_H_
#define KVASIR_SERVER_RETENTION_CODEC_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

#include "cache/retention.h"
#include "kvasir/v1/common.pb.h"

namespace kvasir {

// What the levels of v1::Retention stand for. NORMAL is the cache's default.
inline constexpr int32_t kEphemeralPriority = 10;
inline constexpr int32_t kHighPriority = 90;

// How somebody wants prefixes to be kept.
struct WantedRetention {
  std::optional<Retention> retention;  // unset: as they are kept already
  bool pin = false;
};

// INVALID_ARGUMENT, with the field's name, for a level that is none, a priority
// out of range and a ttl that is no positive time. `ttl` may be null. A
// priority takes the place of the level's.
absl::StatusOr<WantedRetention> DecodeRetention(
    v1::Retention level, std::optional<int32_t> priority,
    const google::protobuf::Duration* ttl);

}  // namespace kvasir

#endif  // KVASIR_SERVER_RETENTION_CODEC_H_

#ifndef KVASIR_SERVER_EVENT_CODEC_H_
#define KVASIR_SERVER_EVENT_CODEC_H_

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

#include "engine/token_sink.h"
#include "kvasir/v1/inference.pb.h"

namespace kvasir {

// The engine's words as the wire's. Pure. Counts beyond 31 bits, which no
// context reaches, stay at the largest the wire has.

v1::Usage EncodeUsage(const Usage& usage);
v1::Timings EncodeTimings(const Timings& timings, const Usage& usage);
v1::FinishReason EncodeReason(FinishReason reason);
v1::Accepted EncodeAccepted(const AcceptedEvent& event, uint64_t seed);

google::protobuf::Duration EncodeDuration(absl::Duration duration);
google::protobuf::Timestamp EncodeTime(absl::Time time);
int32_t Narrow(int64_t count);

}  // namespace kvasir

#endif  // KVASIR_SERVER_EVENT_CODEC_H_

#include "server/event_codec.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace kvasir {
namespace {

constexpr int64_t kNanosPerSecond = 1000000000;

// `count` per second of `duration`; 0 where that says nothing.
double PerSecond(int64_t count, absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  return count > 0 && seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

int32_t Narrow(int64_t count) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(count, std::numeric_limits<int32_t>::min(),
                          std::numeric_limits<int32_t>::max()));
}

google::protobuf::Duration EncodeDuration(absl::Duration duration) {
  google::protobuf::Duration wire;
  const int64_t nanos = absl::ToInt64Nanoseconds(duration);
  wire.set_seconds(nanos / kNanosPerSecond);
  wire.set_nanos(static_cast<int32_t>(nanos % kNanosPerSecond));
  return wire;
}

google::protobuf::Timestamp EncodeTime(absl::Time time) {
  google::protobuf::Timestamp wire;
  const int64_t nanos = absl::ToUnixNanos(time);
  wire.set_seconds(nanos / kNanosPerSecond);
  wire.set_nanos(static_cast<int32_t>(nanos % kNanosPerSecond));
  return wire;
}

v1::Usage EncodeUsage(const Usage& usage) {
  v1::Usage wire;
  wire.set_prompt_tokens(Narrow(usage.prompt_tokens));
  wire.set_completion_tokens(Narrow(usage.completion_tokens));
  wire.set_total_tokens(Narrow(usage.prompt_tokens + usage.completion_tokens));
  wire.set_cached_tokens(Narrow(usage.cached_tokens));
  wire.set_recomputed_tokens(Narrow(usage.recomputed_tokens));
  if (usage.cached_tokens > 0) {
    v1::TierCount* tier = wire.add_cached_by_tier();
    tier->set_tier(v1::CACHE_TIER_DEVICE);
    tier->set_token_count(usage.cached_tokens);
  }
  return wire;
}

v1::Timings EncodeTimings(const Timings& timings, const Usage& usage) {
  v1::Timings wire;
  *wire.mutable_queue() = EncodeDuration(timings.queue);
  *wire.mutable_prefill() = EncodeDuration(timings.prefill);
  *wire.mutable_first_token() = EncodeDuration(timings.first_token);
  *wire.mutable_decode() = EncodeDuration(timings.decode);
  *wire.mutable_total() = EncodeDuration(timings.total);
  wire.set_prefill_tokens_per_second(
      PerSecond(usage.prompt_tokens - usage.cached_tokens, timings.prefill));
  wire.set_decode_tokens_per_second(
      PerSecond(usage.completion_tokens - 1, timings.decode));
  return wire;
}

v1::FinishReason EncodeReason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEos:
      return v1::FINISH_REASON_EOS;
    case FinishReason::kStopToken:
      return v1::FINISH_REASON_STOP_TOKEN;
    case FinishReason::kLength:
      return v1::FINISH_REASON_LENGTH;
    case FinishReason::kContextFull:
      return v1::FINISH_REASON_CONTEXT_FULL;
    case FinishReason::kStopString:
      return v1::FINISH_REASON_STOP_STRING;
    case FinishReason::kTimeLimit:
      return v1::FINISH_REASON_TIME_LIMIT;
  }
  return v1::FINISH_REASON_UNSPECIFIED;
}

v1::Accepted EncodeAccepted(const AcceptedEvent& event, uint64_t seed) {
  v1::Accepted wire;
  wire.set_prompt_tokens(Narrow(event.prompt_tokens));
  wire.set_cached_tokens(Narrow(event.cached_tokens));
  if (event.cached_tokens > 0) {
    v1::TierCount* tier = wire.add_cached_by_tier();
    tier->set_tier(v1::CACHE_TIER_DEVICE);
    tier->set_token_count(event.cached_tokens);
  }
  wire.set_seed(seed);
  wire.set_cache_version(event.cache_version);
  return wire;
}

}  // namespace kvasir

#ifndef KVASIR_SERVER_GENERATE_STREAM_H_
#define KVASIR_SERVER_GENERATE_STREAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "engine/token_sink.h"
#include "kvasir/v1/inference.pb.h"
#include "server/request_codec.h"

namespace kvasir {

// How one Generate call sees the engine's events: which become messages, what
// is gathered for later, and how the call ends. Pure: no gRPC, no clock.
//
// One thread at a time. After End() has a value nothing more comes.
class GenerateStream {
 public:
  // How the client wants to hear of it; a part of GenerateCall.
  struct Settings {
    std::string request_id;
    uint64_t seed = 0;
    bool stream = false;
    bool return_text = true;
    bool return_token_ids = false;
    int32_t stream_interval = 1;
    bool usage_every_chunk = false;
    bool timings = false;
    bool deadline_is_max_time = false;
  };
  static Settings SettingsOf(const GenerateCall& call);

  explicit GenerateStream(Settings settings);

  // The messages that `event` makes due, in order; often none.
  std::vector<v1::GenerateResponse> Take(TokenEvent event);

  // The call's status, once the last event has been taken.
  const std::optional<absl::Status>& end() const { return end_; }

  // Prompt tokens that came from the cache, once accepted; -1 before.
  int64_t cached_tokens() const { return cached_tokens_; }

 private:
  using Messages = std::vector<v1::GenerateResponse>;

  v1::GenerateResponse Message() const;
  void TakeAccepted(const AcceptedEvent& event, Messages& out);
  void TakeDelta(DeltaEvent event, Messages& out);
  void TakeFinished(FinishedEvent event, Messages& out);
  void FlushDelta(Messages& out);
  void AddFinished(const FinishedEvent& event, v1::FinishReason reason,
                   Messages& out);

  const Settings settings_;
  // Tokens and text since the last delta, or all without `stream`.
  std::vector<TokenId> token_ids_;
  std::string text_;
  Usage usage_;  // so far
  int64_t cached_tokens_ = -1;
  std::optional<absl::Status> end_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_GENERATE_STREAM_H_

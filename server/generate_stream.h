#ifndef KVASIR_SERVER_GENERATE_STREAM_H_
#define KVASIR_SERVER_GENERATE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "engine/token_sink.h"
#include "kvasir/v1/inference.pb.h"
#include "server/request_codec.h"

namespace kvasir {

// Output of one sequence that is gathered before it is sent, at most: half of
// what a message may have, so that the rest of it has room.
inline constexpr size_t kMaxGatheredBytes = kMaxAnswerBytes / 2;

// How one Generate call sees the engine's events: which become messages, what
// is gathered for later, and how the call ends. Pure: no gRPC, no clock.
//
// No message is larger than kMaxAnswerBytes: what has been gathered goes out in
// a delta before it would be, also where the client wants no stream.
//
// One thread at a time. After end() has a value nothing more comes.
class GenerateStream {
 public:
  // How the client wants to hear of it; a part of GenerateCall.
  struct Settings {
    std::string request_id;
    uint64_t seed = 0;  // of the first sequence
    int32_t sequence_count = 1;
    bool stream = false;
    bool return_text = true;
    bool return_token_ids = false;
    int32_t stream_interval = 1;
    bool usage_every_chunk = false;
    bool timings = false;
    int64_t truncated_tokens = 0;
    // What precedes each sequence's output, if anything.
    std::vector<TokenId> echoed_ids;
    std::string echoed_text;
    // Whose tokenizer names the tokens of log-probabilities; needed for them
    // alone.
    std::shared_ptr<const ServedVersion> version;
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

  // What of a sequence has not been sent yet.
  struct Part {
    std::vector<TokenId> token_ids;
    std::string text;
    std::vector<v1::PositionLogprobs> logprobs;
    std::vector<v1::PositionLogprobs> prompt_logprobs;
    size_t bytes = 0;  // of all that, at least
    Usage usage;       // so far
  };

  v1::GenerateResponse Message() const;
  void TakeAccepted(const AcceptedEvent& event, Messages& out);
  void TakeProgress(const ProgressEvent& event, Messages& out);
  void TakeScores(const PromptLogprobsEvent& event, Messages& out);
  void TakeDelta(const DeltaEvent& event, Messages& out);
  void TakeFinished(FinishedEvent event, Messages& out);
  void Echo(int32_t index, Messages& out);
  void FlushDelta(int32_t index, Messages& out);
  void AddFinished(const FinishedEvent& event, Messages& out);
  v1::PositionLogprobs Encode(const PositionLogprobs& position) const;

  const Settings settings_;
  std::vector<Part> parts_;  // by sequence
  int32_t open_sequences_;
  int64_t cached_tokens_ = -1;
  std::optional<absl::Status> end_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_GENERATE_STREAM_H_

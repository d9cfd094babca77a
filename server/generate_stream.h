#ifndef KVASIR_SERVER_GENERATE_STREAM_H_
#define KVASIR_SERVER_GENERATE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"

#include "engine/token_sink.h"
#include "kvasir/v1/inference.pb.h"
#include "server/prompt_echo.h"
#include "server/request_codec.h"

namespace kvasir {

// Output that is gathered before it is sent, of all sequences of a call
// together, at most: half of what a message may have, so that the rest of it
// has room where it is one sequence's.
inline constexpr size_t kMaxGatheredBytes = kMaxAnswerBytes / 2;

// How one Generate call sees the engine's events: which become messages, what
// is gathered for later, and how the call ends. Pure: no gRPC, no clock.
//
// No message is larger than kMaxAnswerBytes, and no more than kMaxGatheredBytes
// are kept: what has been gathered goes out in deltas before there is more,
// also where the client wants no stream.
//
// A request whose time is over before it began is told as any other: accepted,
// with nothing found in the cache, and finished.
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
    // Label of the version that serves the request.
    std::string cache_version;
    // What precedes each sequence's output, if anything.
    std::vector<TokenId> echoed_ids;
    std::string echoed_text;
    // Whose tokenizer names the tokens of log-probabilities; needed for them
    // alone.
    std::shared_ptr<const ServedVersion> version;
  };
  static Settings SettingsOf(const GenerateCall& call);

  explicit GenerateStream(Settings settings);

  // What one event makes due: a message, or the prompt's.
  using Outgoing = std::variant<v1::GenerateResponse, PromptEcho>;

  // All that `event` makes due, in order; often nothing.
  std::vector<Outgoing> Take(TokenEvent event);

  // The call's status, once the last event has been taken.
  const std::optional<absl::Status>& end() const { return end_; }

  // Prompt tokens that came from the cache, once accepted; -1 before.
  int64_t cached_tokens() const { return cached_tokens_; }

 private:
  using Messages = std::vector<Outgoing>;

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
  void Echo(Messages& out);
  // Accounts for `bytes` more in the sequence's part, and sends parts while all
  // of them together are too large.
  void Gather(int32_t index, size_t bytes, Messages& out);
  void FlushDelta(int32_t index, Messages& out);
  void AddFinished(const FinishedEvent& event, Messages& out);
  v1::PositionLogprobs Encode(const PositionLogprobs& position) const;

  const Settings settings_;
  std::vector<Part> parts_;    // by sequence
  size_t gathered_bytes_ = 0;  // of them all
  int32_t open_sequences_;
  int64_t cached_tokens_ = -1;
  std::optional<absl::Status> end_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_GENERATE_STREAM_H_

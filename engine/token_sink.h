#ifndef KVASIR_ENGINE_TOKEN_SINK_H_
#define KVASIR_ENGINE_TOKEN_SINK_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "cache/base/strong_id.h"

namespace kvasir {

enum class FinishReason : uint8_t {
  kEos,          // the model's own end token
  kStopToken,    // one of StoppingParams::token_ids
  kLength,       // max_tokens reached
  kContextFull,  // prompt and output fill the context
};

// What a request consumed; as it would be had it never been preempted.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;      // prompt tokens not computed for this request
  int64_t completion_tokens = 0;  // ids delivered, an end token included
  int64_t recomputed_tokens = 0;  // computed again after preemptions
  int32_t preemption_count = 0;
};

struct Timings {
  absl::Duration queue;        // submitted -> first scheduled
  absl::Duration prefill;      // first scheduled -> first token
  absl::Duration first_token;  // submitted -> first token
  absl::Duration decode;       // first token -> last token
  absl::Duration total;
};

// The request was scheduled for the first time; sent once, before all others.
struct AcceptedEvent {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;
  std::string cache_version;
};

// Tokens and the text they complete. `text` is whole UTF-8 and may be empty
// while a character is unfinished.
//
// An end or stop token is delivered and counted like any other, and its text
// too, unless it is a control token that Request::skip_special_tokens leaves
// out. So the joined texts with FinishedEvent::tail_text are always
// DecodeText() of the joined ids (contract C9).
struct DeltaEvent {
  std::vector<TokenId> token_ids;
  std::string text;
};

// The last event. With an OK `status` the sequence ended for `reason`; any
// other status is how the call ends (CANCELLED, DEADLINE_EXCEEDED, ...), and
// then `reason` means nothing.
struct FinishedEvent {
  absl::Status status;
  FinishReason reason = FinishReason::kEos;
  TokenId matched_token = -1;  // the end or stop token, if one ended it
  std::string tail_text;       // what the decoder still held back
  Usage usage;
  Timings timings;
};

using TokenEvent = std::variant<AcceptedEvent, DeltaEvent, FinishedEvent>;

// Where the events of one request leave the engine. Implemented by the server;
// shared by engine and caller, whoever lets go last destroys it.
class TokenSink {
 public:
  virtual ~TokenSink() = default;

  // Engine thread; must not block. Exactly one FinishedEvent comes, as the
  // last event. False: nobody reads any more, or reads too slowly, and the
  // engine should cancel the request.
  virtual bool Push(TokenEvent event) = 0;

  // Engine thread; must not block. Whether its reader is so far behind that
  // nothing more should be computed for it. The request's sequences then keep
  // their memory and get no rows. Whoever stops being full calls
  // Engine::Wake().
  virtual bool Full() const { return false; }
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_TOKEN_SINK_H_

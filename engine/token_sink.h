#ifndef KVASIR_ENGINE_TOKEN_SINK_H_
#define KVASIR_ENGINE_TOKEN_SINK_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "cache/base/strong_id.h"
#include "engine/finish_reason.h"
#include "engine/model/logprobs.h"

namespace kvasir {

// What a sequence consumed; as it would be had it never been preempted. What it
// says of the prompt is the request's, the same in all its sequences.
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

// So much of the prompt is computed or was found; sent after each step that
// computed more of it, but the last.
struct ProgressEvent {
  int64_t done_tokens = 0;
  int64_t total_tokens = 0;
  absl::Duration elapsed;  // since the request was scheduled first
};

// Log-probabilities of the prompt tokens that come next, from
// OutputWish::prompt_logprob_start on. That of the very first token is empty:
// nothing comes before it.
struct PromptLogprobsEvent {
  std::vector<PositionLogprobs> positions;
};

// Tokens and the text they complete. `text` is whole UTF-8 and may be empty
// while a character is unfinished.
//
// An end or stop token is delivered and counted like any other, and its text
// too, unless it is a control token that Request::skip_special_tokens leaves
// out. So the joined texts with FinishedEvent::tail_text are always
// DecodeText() of the joined ids (contract C9), cut at the text that stopped it
// if one did. Text that may be the beginning of one is held back.
struct DeltaEvent {
  int32_t index = 0;  // which sequence of the request
  std::vector<TokenId> token_ids;
  std::string text;
  std::vector<PositionLogprobs> logprobs;  // if wanted: one per token
};

// The last event of a sequence. With an OK `status` it ended for `reason`; any
// other status is how the whole request ends (CANCELLED, DEADLINE_EXCEEDED,
// ...), and then `reason` and `index` mean nothing.
struct FinishedEvent {
  int32_t index = 0;
  absl::Status status;
  FinishReason reason = FinishReason::kEos;
  TokenId matched_token = -1;  // the end or stop token, if one ended it
  std::string matched_text;    // the stop text, likewise
  uint64_t seed = 0;           // that it drew with
  std::string tail_text;       // what was still held back
  Usage usage;
  Timings timings;
};

using TokenEvent = std::variant<AcceptedEvent, ProgressEvent,
                                PromptLogprobsEvent, DeltaEvent, FinishedEvent>;

// Where the events of one request leave the engine. Implemented by the server;
// shared by engine and caller, whoever lets go last destroys it.
class TokenSink {
 public:
  virtual ~TokenSink() = default;

  // Engine thread; must not block. Each sequence ends with one FinishedEvent; a
  // status that is not OK is the last event of all. False: nobody reads any
  // more, or reads too slowly, and the engine should cancel the request.
  virtual bool Push(TokenEvent event) = 0;

  // Engine thread; must not block. Whether its reader is so far behind that
  // nothing more should be computed for it. The request's sequences then keep
  // their memory and get no rows. Whoever stops being full calls
  // Engine::Wake().
  virtual bool Full() const { return false; }
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_TOKEN_SINK_H_

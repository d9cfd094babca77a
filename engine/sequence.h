#ifndef KVASIR_ENGINE_SEQUENCE_H_
#define KVASIR_ENGINE_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/lease.h"
#include "engine/inbox.h"
#include "engine/model/sampling_params.h"
#include "engine/model/tokenizer.h"
#include "engine/request.h"
#include "engine/served_version.h"
#include "engine/token_sink.h"

namespace kvasir {

// Moments of a sequence's life, in steady time; InfinitePast if not yet.
struct SequenceTimes {
  absl::Duration submitted;
  absl::Duration first_scheduled = -absl::InfiniteDuration();
  absl::Duration first_token = -absl::InfiniteDuration();
  absl::Duration last_token = -absl::InfiniteDuration();
};

// What one committed step meant for a sequence's accounts.
struct ComputedTokens {
  int64_t prompt = 0;      // prompt tokens computed for the first time
  int64_t recomputed = 0;  // tokens computed again after a preemption
};

// Where one request has got to: its tokens, its hold on the cache and what it
// has consumed. Decides when the request ends by itself; who calls it and what
// else ends a request is the engine loop's affair.
//
// Engine thread only. The lease is held while the sequence runs, and not while
// it waits. Ids grow in order of arrival.
class Sequence {
 public:
  // The request has a version; its tokenizer decodes. `max_context` bounds
  // prompt and output together.
  Sequence(SequenceId id, Submission submission, int64_t max_context);

  SequenceId id() const { return id_; }
  const Request& request() const { return submission_.request; }
  const ServedVersion& version() const { return *request().version; }
  const CancelFlag& cancel() const { return *submission_.cancel; }

  // Prompt and generated tokens.
  absl::Span<const TokenId> known_tokens() const { return tokens_; }
  int64_t known_count() const { return static_cast<int64_t>(tokens_.size()); }
  // What the draw of the next token depends on beside its logits.
  DrawContext draw_context() const {
    return {.tokens = tokens_, .prompt_tokens = usage_.prompt_tokens};
  }
  int64_t computed_count() const { return lease_.token_count(); }
  bool running() const { return lease_.held(); }
  // More than the newest token has yet to be computed.
  bool prefills() const { return known_count() - computed_count() > 1; }
  bool preempted() const { return usage_.preemption_count > 0; }

  // Most tokens of prompt and output that it can come to.
  int64_t most_tokens() const;
  // The context has become smaller before it began.
  void LimitContext(int64_t max_context) {
    max_context_ = std::min(max_context_, max_context);
  }

  // Tokens ever computed or found, before a preemption or since: what a lease
  // computes below this is recomputed.
  int64_t high_water() const { return high_water_; }

  Lease& lease() { return lease_; }
  const Lease& lease() const { return lease_; }

  // Starts or resumes with a lease that may hold cached tokens already. Returns
  // how many prompt tokens this spares the request for the first time.
  int64_t Start(Lease lease);
  // Gives the lease up, to wait for another.
  void Preempt();
  // Gives the lease up for good.
  void DropLease() { lease_ = Lease(); }

  // The lease has found more tokens in the cache. Returns as Start() does.
  int64_t NoteExtended() { return RaiseHighWater(); }
  // A step that computed `count` tokens has been committed.
  ComputedTokens NoteComputed(int64_t count);
  // The sequence is part of the step that begins now. True the first time.
  bool NoteScheduled(absl::Duration now);

  // Appends a sampled token. `delta` is what the client gets for it; `reason`
  // is set if the sequence ends with it. An end or stop token is a token like
  // any other: counted, and part of the ids.
  struct Appended {
    DeltaEvent delta;
    std::optional<FinishReason> reason;
  };
  Appended Append(TokenId token, absl::Duration now);

  // The last event for a sequence that ends with an OK status. Flushes the
  // decoder, so call it once.
  FinishedEvent Finish(FinishReason reason, absl::Duration now);
  // The last event for one that ends otherwise.
  FinishedEvent Fail(absl::Status status, absl::Duration now);

  // Whether its reader was behind when this turn began.
  bool paused() const { return paused_; }
  void NotePaused() { paused_ = submission_.sink->Full(); }

  // Hands an event out. If nobody takes it, the request counts as cancelled by
  // its client from now on.
  void Push(TokenEvent event);

  const Usage& usage() const { return usage_; }
  const SequenceTimes& times() const { return times_; }

 private:
  std::optional<FinishReason> ReasonToEnd(TokenId token) const;
  int64_t RaiseHighWater();
  Timings MakeTimings(absl::Duration now) const;

  // Fixed after construction.
  const SequenceId id_;
  const Submission submission_;

  // Progress.
  int64_t max_context_;
  std::vector<TokenId> tokens_;
  Lease lease_;
  TextDecoder decoder_;
  bool paused_ = false;
  int64_t high_water_ = 0;
  Usage usage_;
  SequenceTimes times_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_SEQUENCE_H_

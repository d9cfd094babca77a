#ifndef KVASIR_ENGINE_SEQUENCE_H_
#define KVASIR_ENGINE_SEQUENCE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/lease.h"
#include "engine/model/tokenizer.h"
#include "engine/request.h"
#include "engine/request_group.h"
#include "engine/served_version.h"
#include "engine/stop_matcher.h"
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
  int64_t repeated = 0;    // and those that a further sequence computes, too
  int64_t recomputed = 0;  // tokens computed again after a preemption
};

// So that nobody starves, whatever the others' priorities.
inline constexpr int32_t kMaxOvertaken = 128;

// How far one of a request's sequences has got: its tokens, its hold on the
// cache and what it has consumed. Decides when it ends by itself; who calls it
// and what else ends it is the engine loop's affair.
//
// Engine thread only. The lease is held while the sequence runs, and not while
// it waits; one that has never run is small, whatever its request. Ids grow in
// order of arrival.
class Sequence {
 public:
  // The request has a version; its tokenizer decodes. `max_context` bounds
  // prompt and output together.
  Sequence(SequenceId id, std::shared_ptr<RequestGroup> group, int32_t index,
           int64_t max_context);
  ~Sequence();

  SequenceId id() const { return id_; }
  int32_t index() const { return index_; }
  RequestGroup& group() const { return *group_; }
  const Request& request() const { return group_->request(); }
  const ServedVersion& version() const { return *request().version; }
  const CancelFlag& cancel() const { return *group_->submission.cancel; }
  const SamplingParams& sampling() const { return request().sampling; }
  // Tokens that may not be drawn now, since one of them would end it too early.
  absl::Span<const TokenId> withheld() const;

  // Prompt and generated tokens.
  absl::Span<const TokenId> known_tokens() const {
    return begun() ? tokens_ : request().prompt;
  }
  int64_t known_count() const {
    return static_cast<int64_t>(known_tokens().size());
  }
  int64_t computed_count() const { return lease_.token_count(); }
  bool running() const { return lease_.held(); }
  // More than the newest token has yet to be computed.
  bool prefills() const { return known_count() - computed_count() > 1; }
  bool preempted() const { return usage_.preemption_count > 0; }

  // The first sequence of its request, from which this one can take blocks over
  // as long as that has some; null if there is none.
  const Sequence* donor() const;
  // Leading tokens that sequences of one request share.
  int64_t SharedTokens(int32_t block_tokens) const {
    return (usage_.prompt_tokens - 1) / block_tokens * block_tokens;
  }

  // Whether log-probabilities of its prompt are still owed. Then look-ups may
  // find no more than `findable_tokens()`, so that the others are computed.
  bool scores() const { return next_scored_ < score_end_; }
  absl::Span<const TokenId> findable_tokens() const {
    return known_tokens().first(
        static_cast<size_t>(scores() ? next_scored_ : known_count()));
  }
  // Of rows that begin at this place, those whose successors are to be scored:
  // [begin, end) counted from the first row.
  struct RowRange {
    int64_t begin = 0;
    int64_t end = 0;
  };
  RowRange RowsToScore(int64_t first_position, int64_t count) const;
  // Rows that it may compute before the first that is to be scored.
  int64_t RowsBeforeScores() const;

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

  // Tells the client that the request begins, if nobody has yet.
  void PushAccepted();
  // Log-probabilities of the next prompt tokens have been computed.
  void PushScores(std::vector<PositionLogprobs> positions);
  // A step has computed a part of the prompt; tells the client if it wants it.
  void PushProgress(absl::Duration now);

  // Appends a sampled token. `delta` is what the client gets for it; `reason`
  // is set if the sequence ends with it. An end or stop token is a token like
  // any other: counted, and part of the ids.
  struct Appended {
    DeltaEvent delta;
    std::optional<FinishReason> reason;
  };
  Appended Append(TokenId token, std::optional<PositionLogprobs> logprobs,
                  absl::Duration now);

  // The last event for a sequence that ends with an OK status. Flushes the
  // decoder, so call it once.
  FinishedEvent Finish(FinishReason reason, absl::Duration now);
  // The last event for one that ends otherwise.
  FinishedEvent Fail(absl::Status status, absl::Duration now);

  // What it goes by, before the order of arrival: its request's priority. One
  // that has waited while kMaxOvertaken others went past it precedes them all.
  int32_t precedence() const {
    return overtaken_ < kMaxOvertaken ? request().priority
                                      : std::numeric_limits<int32_t>::min();
  }
  void NoteOvertaken() { ++overtaken_; }

  // Whether its reader was behind when this turn began.
  bool paused() const { return paused_; }
  void NotePaused() { paused_ = group_->submission.sink->Full(); }

  // Hands an event out. If nobody takes it, the request counts as cancelled by
  // its client from now on.
  void Push(TokenEvent event);

  const Usage& usage() const { return usage_; }
  const SequenceTimes& times() const { return times_; }

 private:
  bool begun() const { return stops_.has_value(); }
  std::optional<FinishReason> ReasonToEnd(TokenId token) const;
  int64_t RaiseHighWater();
  Timings MakeTimings(absl::Duration now) const;
  FinishedEvent MakeEnd(absl::Duration now);

  // Fixed after construction.
  const SequenceId id_;
  const int32_t index_;
  const std::shared_ptr<RequestGroup> group_;
  const int64_t score_end_;

  // Progress.
  int64_t max_context_;
  std::vector<TokenId> tokens_;  // once it has begun
  Lease lease_;
  TextDecoder decoder_;
  std::optional<StopMatcher> stops_;  // likewise
  std::optional<size_t> matched_stop_;
  int64_t next_scored_ = 0;    // prompt token
  int64_t told_progress_ = 0;  // tokens
  bool paused_ = false;
  int32_t overtaken_ = 0;
  int64_t high_water_ = 0;
  Usage usage_;
  SequenceTimes times_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_SEQUENCE_H_

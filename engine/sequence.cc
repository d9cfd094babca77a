#include "engine/sequence.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

bool Happened(absl::Duration moment) {
  return moment != -absl::InfiniteDuration();
}

// One of a request's sequences scores the prompt for all.
int64_t ScoreEnd(const Request& request, int32_t index) {
  if (index > 0 || !request.output.prompt_logprobs.has_value()) return 0;
  return static_cast<int64_t>(request.prompt.size());
}

}  // namespace

Sequence::Sequence(SequenceId id, std::shared_ptr<RequestGroup> group,
                   int32_t index, int64_t max_context)
    : id_(id),
      index_(index),
      group_(std::move(group)),
      score_end_(ScoreEnd(request(), index)),
      max_context_(max_context),
      decoder_(&version().tokenizer(), request().skip_special_tokens),
      next_scored_(
          std::max<int64_t>(request().output.prompt_logprob_start, 1)) {
  times_.submitted = group_->submission.submitted;
  usage_.prompt_tokens = known_count();
  if (index_ == 0) group_->first = this;
}

Sequence::~Sequence() {
  if (group_->first == this) group_->first = nullptr;
}

absl::Span<const TokenId> Sequence::withheld() const {
  if (usage_.completion_tokens >= request().stopping.min_tokens) return {};
  return group_->enders;
}

const Sequence* Sequence::donor() const {
  return group_->first == this ? nullptr : group_->first;
}

Sequence::RowRange Sequence::RowsToScore(int64_t first_position,
                                         int64_t count) const {
  if (!scores()) return {};
  // The row of one token tells how likely the next one is.
  const int64_t begin = std::max<int64_t>(next_scored_ - 1 - first_position, 0);
  const int64_t end = std::min(score_end_ - 1 - first_position, count);
  return begin < end ? RowRange{begin, end} : RowRange{};
}

int64_t Sequence::RowsBeforeScores() const {
  return std::max<int64_t>(next_scored_ - 1 - computed_count(), 0);
}

int64_t Sequence::most_tokens() const {
  const int64_t max_tokens = request().stopping.max_tokens;
  if (max_tokens == 0) return max_context_;
  return std::min(max_context_, usage_.prompt_tokens + max_tokens);
}

int64_t Sequence::Start(Lease lease) {
  KV_CHECK(!running() && lease.held());
  if (!begun()) {
    tokens_ = request().prompt;
    if (!group_->stop_texts.has_value()) {
      group_->stop_texts.emplace(request().stopping.strings);
    }
    stops_.emplace(&*group_->stop_texts, request().stopping.include_stop);
  }
  lease_ = std::move(lease);
  return RaiseHighWater();
}

void Sequence::Preempt() {
  KV_CHECK(running());
  DropLease();
  ++usage_.preemption_count;
}

// What the lease holds beyond the high water it has found, not computed.
int64_t Sequence::RaiseHighWater() {
  const int64_t held = computed_count();
  if (held <= high_water_) return 0;
  const int64_t spared = std::min(held, usage_.prompt_tokens) -
                         std::min(high_water_, usage_.prompt_tokens);
  high_water_ = held;
  // What the others take over from the first is the same prompt.
  if (index_ > 0) return 0;
  usage_.cached_tokens += spared;
  group_->cached_tokens = usage_.cached_tokens;
  return spared;
}

ComputedTokens Sequence::NoteComputed(int64_t count) {
  const int64_t end = computed_count();
  const int64_t begin = end - count;
  ComputedTokens computed;
  computed.recomputed =
      std::max<int64_t>(std::min(end, high_water_) - begin, 0);
  (index_ == 0 ? computed.prompt : computed.repeated) = std::max<int64_t>(
      std::min(end, usage_.prompt_tokens) - std::max(begin, high_water_), 0);
  usage_.recomputed_tokens += computed.recomputed;
  high_water_ = std::max(high_water_, end);
  return computed;
}

bool Sequence::NoteScheduled(absl::Duration now) {
  if (Happened(times_.first_scheduled)) return false;
  times_.first_scheduled = now;
  return true;
}

void Sequence::PushAccepted() {
  if (std::exchange(group_->accepted, true)) return;
  Push(AcceptedEvent{usage_.prompt_tokens, group_->cached_tokens,
                     version().label()});
  const OutputWish& wish = request().output;
  if (wish.prompt_logprobs.has_value() && wish.prompt_logprob_start == 0) {
    Push(PromptLogprobsEvent{{PositionLogprobs{}}});
  }
}

void Sequence::PushScores(std::vector<PositionLogprobs> positions) {
  if (positions.empty()) return;
  next_scored_ += static_cast<int64_t>(positions.size());
  Push(PromptLogprobsEvent{std::move(positions)});
}

void Sequence::PushProgress(absl::Duration now) {
  if (!request().output.progress || index_ > 0 ||
      computed_count() <= told_progress_) {
    return;
  }
  told_progress_ = computed_count();
  Push(ProgressEvent{.done_tokens = told_progress_,
                     .total_tokens = usage_.prompt_tokens,
                     .elapsed = now - times_.first_scheduled});
}

Sequence::Appended Sequence::Append(TokenId token,
                                    std::optional<PositionLogprobs> logprobs,
                                    absl::Duration now) {
  KV_CHECK(begun());
  if (!Happened(times_.first_token)) times_.first_token = now;
  times_.last_token = now;
  tokens_.push_back(token);
  ++usage_.completion_tokens;
  StopMatcher::Step text =
      stops_->Push(decoder_.Push(token),
                   usage_.completion_tokens >= request().stopping.min_tokens);
  matched_stop_ = text.matched;
  Appended appended;
  appended.delta.index = index_;
  appended.delta.token_ids = {token};
  appended.delta.text = std::move(text.text);
  if (logprobs.has_value()) {
    appended.delta.logprobs.push_back(*std::move(logprobs));
  }
  appended.reason = ReasonToEnd(token);
  return appended;
}

void Sequence::Push(TokenEvent event) {
  const Submission& submission = group_->submission;
  if (submission.sink->Push(std::move(event))) return;
  submission.cancel->Request(CancelSource::kClient, "nobody reads the stream");
}

std::optional<FinishReason> Sequence::ReasonToEnd(TokenId token) const {
  const StoppingParams& stopping = request().stopping;
  if (matched_stop_.has_value()) return FinishReason::kStopString;
  if (usage_.completion_tokens > stopping.min_tokens) {
    if (!stopping.ignore_eos && version().tokenizer().IsEnd(token)) {
      return FinishReason::kEos;
    }
    if (absl::c_linear_search(stopping.token_ids, token)) {
      return FinishReason::kStopToken;
    }
  }
  if (usage_.completion_tokens == stopping.max_tokens) {
    return FinishReason::kLength;
  }
  if (known_count() >= max_context_) return FinishReason::kContextFull;
  return std::nullopt;
}

FinishedEvent Sequence::Finish(FinishReason reason, absl::Duration now) {
  FinishedEvent event = MakeEnd(now);
  event.reason = reason;
  if (reason == FinishReason::kEos || reason == FinishReason::kStopToken) {
    event.matched_token = tokens_.back();
  } else if (reason == FinishReason::kStopString) {
    event.matched_text = request().stopping.strings[*matched_stop_];
  }
  return event;
}

FinishedEvent Sequence::Fail(absl::Status status, absl::Duration now) {
  KV_CHECK(!status.ok());
  FinishedEvent event = MakeEnd(now);
  event.status = std::move(status);
  return event;
}

FinishedEvent Sequence::MakeEnd(absl::Duration now) {
  FinishedEvent event;
  event.index = index_;
  event.seed = sampling().seed + static_cast<uint64_t>(index_);
  if (begun() && !matched_stop_.has_value()) {
    event.tail_text = stops_->Push(decoder_.Finish(), /*may_stop=*/false).text;
    event.tail_text += stops_->Finish();
  }
  event.usage = usage_;
  event.usage.cached_tokens = group_->cached_tokens;
  event.timings = MakeTimings(now);
  return event;
}

Timings Sequence::MakeTimings(absl::Duration now) const {
  Timings timings;
  timings.total = now - times_.submitted;
  if (!Happened(times_.first_scheduled)) {
    timings.queue = timings.total;
    return timings;
  }
  timings.queue = times_.first_scheduled - times_.submitted;
  if (!Happened(times_.first_token)) {
    timings.prefill = now - times_.first_scheduled;
    return timings;
  }
  timings.prefill = times_.first_token - times_.first_scheduled;
  timings.first_token = times_.first_token - times_.submitted;
  timings.decode = times_.last_token - times_.first_token;
  return timings;
}

}  // namespace kvasir

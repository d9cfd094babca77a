#include "engine/sequence.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

bool Happened(absl::Duration moment) {
  return moment != -absl::InfiniteDuration();
}

}  // namespace

Sequence::Sequence(SequenceId id, Submission submission, int64_t max_context)
    : id_(id),
      submission_(std::move(submission)),
      max_context_(max_context),
      tokens_(request().prompt),
      decoder_(&version().tokenizer(), request().skip_special_tokens) {
  times_.submitted = submission_.submitted;
  usage_.prompt_tokens = known_count();
}

int64_t Sequence::most_tokens() const {
  const int64_t max_tokens = request().stopping.max_tokens;
  if (max_tokens == 0) return max_context_;
  return std::min(max_context_, usage_.prompt_tokens + max_tokens);
}

int64_t Sequence::Start(Lease lease) {
  KV_CHECK(!running() && lease.held());
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
  usage_.cached_tokens += spared;
  high_water_ = held;
  return spared;
}

ComputedTokens Sequence::NoteComputed(int64_t count) {
  const int64_t end = computed_count();
  const int64_t begin = end - count;
  ComputedTokens computed;
  computed.recomputed =
      std::max<int64_t>(std::min(end, high_water_) - begin, 0);
  computed.prompt = std::max<int64_t>(
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

Sequence::Appended Sequence::Append(TokenId token, absl::Duration now) {
  if (!Happened(times_.first_token)) times_.first_token = now;
  times_.last_token = now;
  tokens_.push_back(token);
  ++usage_.completion_tokens;
  Appended appended;
  appended.delta.token_ids = {token};
  appended.delta.text = decoder_.Push(token);
  appended.reason = ReasonToEnd(token);
  return appended;
}

void Sequence::Push(TokenEvent event) {
  if (submission_.sink->Push(std::move(event))) return;
  submission_.cancel->Request(CancelSource::kClient, "nobody reads the stream");
}

std::optional<FinishReason> Sequence::ReasonToEnd(TokenId token) const {
  const StoppingParams& stopping = request().stopping;
  if (!stopping.ignore_eos && version().tokenizer().IsEnd(token)) {
    return FinishReason::kEos;
  }
  if (absl::c_linear_search(stopping.token_ids, token)) {
    return FinishReason::kStopToken;
  }
  if (usage_.completion_tokens == stopping.max_tokens) {
    return FinishReason::kLength;
  }
  if (known_count() >= max_context_) return FinishReason::kContextFull;
  return std::nullopt;
}

FinishedEvent Sequence::Finish(FinishReason reason, absl::Duration now) {
  FinishedEvent event;
  event.reason = reason;
  if (reason == FinishReason::kEos || reason == FinishReason::kStopToken) {
    event.matched_token = tokens_.back();
  }
  event.tail_text = decoder_.Finish();
  event.usage = usage_;
  event.timings = MakeTimings(now);
  return event;
}

FinishedEvent Sequence::Fail(absl::Status status, absl::Duration now) {
  KV_CHECK(!status.ok());
  FinishedEvent event;
  event.status = std::move(status);
  event.tail_text = decoder_.Finish();
  event.usage = usage_;
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

#include "server/generate_stream.h"

#include <utility>
#include <variant>

#include "cache/base/check.h"
#include "server/event_codec.h"

namespace kvasir {

GenerateStream::Settings GenerateStream::SettingsOf(const GenerateCall& call) {
  return {.request_id = call.request.id,
          .seed = call.request.sampling.seed,
          .stream = call.stream,
          .return_text = call.return_text,
          .return_token_ids = call.return_token_ids,
          .stream_interval = call.stream_interval,
          .usage_every_chunk = call.usage_every_chunk,
          .timings = call.timings,
          .deadline_is_max_time = call.deadline_is_max_time};
}

GenerateStream::GenerateStream(Settings settings)
    : settings_(std::move(settings)) {}

std::vector<v1::GenerateResponse> GenerateStream::Take(TokenEvent event) {
  KV_CHECK(!end_.has_value()) << "an event after the last one";
  Messages out;
  if (auto* accepted = std::get_if<AcceptedEvent>(&event)) {
    TakeAccepted(*accepted, out);
  } else if (auto* delta = std::get_if<DeltaEvent>(&event)) {
    TakeDelta(std::move(*delta), out);
  } else {
    TakeFinished(std::get<FinishedEvent>(std::move(event)), out);
  }
  return out;
}

v1::GenerateResponse GenerateStream::Message() const {
  v1::GenerateResponse message;
  message.set_request_id(settings_.request_id);
  return message;
}

void GenerateStream::TakeAccepted(const AcceptedEvent& event, Messages& out) {
  cached_tokens_ = event.cached_tokens;
  usage_.prompt_tokens = event.prompt_tokens;
  usage_.cached_tokens = event.cached_tokens;
  if (!settings_.stream) return;
  v1::GenerateResponse message = Message();
  *message.mutable_accepted() = EncodeAccepted(event, settings_.seed);
  out.push_back(std::move(message));
}

void GenerateStream::TakeDelta(DeltaEvent event, Messages& out) {
  usage_.completion_tokens += static_cast<int64_t>(event.token_ids.size());
  token_ids_.insert(token_ids_.end(), event.token_ids.begin(),
                    event.token_ids.end());
  text_ += event.text;
  const bool due =
      static_cast<int64_t>(token_ids_.size()) >= settings_.stream_interval;
  if (settings_.stream && due) FlushDelta(out);
}

void GenerateStream::FlushDelta(Messages& out) {
  if (token_ids_.empty() && text_.empty()) return;
  v1::GenerateResponse message = Message();
  v1::TokenDelta& delta = *message.mutable_delta();
  if (settings_.return_text) delta.set_text(text_);
  if (settings_.return_token_ids) {
    delta.mutable_token_ids()->Add(token_ids_.begin(), token_ids_.end());
  }
  if (settings_.usage_every_chunk) *delta.mutable_usage() = EncodeUsage(usage_);
  token_ids_.clear();
  text_.clear();
  out.push_back(std::move(message));
}

void GenerateStream::TakeFinished(FinishedEvent event, Messages& out) {
  usage_ = event.usage;
  if (cached_tokens_ >= 0) cached_tokens_ = event.usage.cached_tokens;
  const bool timed_out =
      settings_.deadline_is_max_time && absl::IsDeadlineExceeded(event.status);
  if (!event.status.ok() && !timed_out) {
    end_ = std::move(event.status);
    return;
  }
  text_ += event.tail_text;
  if (settings_.stream) FlushDelta(out);
  AddFinished(
      event,
      timed_out ? v1::FINISH_REASON_TIME_LIMIT : EncodeReason(event.reason),
      out);
  end_ = absl::OkStatus();
}

void GenerateStream::AddFinished(const FinishedEvent& event,
                                 v1::FinishReason reason, Messages& out) {
  v1::GenerateResponse message = Message();
  v1::Finished& finished = *message.mutable_finished();
  finished.set_reason(reason);
  if (event.matched_token >= 0) {
    finished.set_matched_token_id(static_cast<uint32_t>(event.matched_token));
  }
  *finished.mutable_usage() = EncodeUsage(event.usage);
  if (settings_.timings) {
    *finished.mutable_timings() = EncodeTimings(event.timings, event.usage);
  }
  if (!settings_.stream) {
    if (settings_.return_text) finished.set_text(text_);
    if (settings_.return_token_ids) {
      finished.mutable_token_ids()->Add(token_ids_.begin(), token_ids_.end());
    }
  }
  finished.set_preemption_count(event.usage.preemption_count);
  finished.set_seed(settings_.seed);
  out.push_back(std::move(message));
}

}  // namespace kvasir

#include "server/generate_stream.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "cache/base/check.h"
#include "engine/model/tokenizer.h"
#include "engine/model/utf8.h"
#include "engine/served_version.h"
#include "server/event_codec.h"

namespace kvasir {

GenerateStream::Settings GenerateStream::SettingsOf(const GenerateCall& call) {
  const Request& request = call.request;
  Settings settings{.request_id = request.id,
                    .seed = request.sampling.seed,
                    .sequence_count = request.sequence_count,
                    .stream = call.stream,
                    .return_text = call.return_text,
                    .return_token_ids = call.return_token_ids,
                    .stream_interval = call.stream_interval,
                    .usage_every_chunk = call.usage_every_chunk,
                    .timings = call.timings,
                    .truncated_tokens = call.truncated_tokens,
                    .cache_version = request.version->label()};
  const bool scores = request.output.logprobs.has_value() ||
                      request.output.prompt_logprobs.has_value();
  if (scores) settings.version = request.version;
  if (call.echo) {
    if (call.return_token_ids) settings.echoed_ids = request.prompt;
    if (call.return_text) {
      settings.echoed_text =
          DecodeText(request.version->tokenizer(), request.prompt,
                     request.skip_special_tokens);
    }
  }
  return settings;
}

GenerateStream::GenerateStream(Settings settings)
    : settings_(std::move(settings)),
      parts_(static_cast<size_t>(settings_.sequence_count)),
      open_sequences_(settings_.sequence_count) {}

std::vector<GenerateStream::Outgoing> GenerateStream::Take(TokenEvent event) {
  KV_CHECK(!end_.has_value()) << "an event after the last one";
  Messages out;
  if (const auto* accepted = std::get_if<AcceptedEvent>(&event)) {
    TakeAccepted(*accepted, out);
  } else if (const auto* progress = std::get_if<ProgressEvent>(&event)) {
    TakeProgress(*progress, out);
  } else if (const auto* scores = std::get_if<PromptLogprobsEvent>(&event)) {
    TakeScores(*scores, out);
  } else if (const auto* delta = std::get_if<DeltaEvent>(&event)) {
    TakeDelta(*delta, out);
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
  for (Part& part : parts_) {
    part.usage.prompt_tokens = event.prompt_tokens;
    part.usage.cached_tokens = event.cached_tokens;
  }
  if (settings_.stream) {
    v1::GenerateResponse message = Message();
    *message.mutable_accepted() = EncodeAccepted(event, settings_.seed);
    message.mutable_accepted()->set_truncated_tokens(
        Narrow(settings_.truncated_tokens));
    out.push_back(std::move(message));
  }
  Echo(out);
}

void GenerateStream::TakeProgress(const ProgressEvent& event, Messages& out) {
  v1::GenerateResponse message = Message();
  v1::PrefillProgress& progress = *message.mutable_progress();
  progress.set_done_tokens(Narrow(event.done_tokens));
  progress.set_total_tokens(Narrow(event.total_tokens));
  *progress.mutable_elapsed() = EncodeDuration(event.elapsed);
  out.push_back(std::move(message));
}

// The prompt is one, so that the first sequence tells of it.
void GenerateStream::TakeScores(const PromptLogprobsEvent& event,
                                Messages& out) {
  Part& part = parts_[0];
  for (const PositionLogprobs& position : event.positions) {
    part.prompt_logprobs.push_back(Encode(position));
    Gather(0, part.prompt_logprobs.back().ByteSizeLong(), out);
  }
  if (settings_.stream) FlushDelta(0, out);
}

void GenerateStream::TakeDelta(const DeltaEvent& event, Messages& out) {
  Part& part = parts_[static_cast<size_t>(event.index)];
  part.usage.completion_tokens += static_cast<int64_t>(event.token_ids.size());
  part.token_ids.insert(part.token_ids.end(), event.token_ids.begin(),
                        event.token_ids.end());
  part.text += event.text;
  size_t bytes = event.text.size() + kTokenIdBytes * event.token_ids.size();
  for (const PositionLogprobs& position : event.logprobs) {
    part.logprobs.push_back(Encode(position));
    bytes += part.logprobs.back().ByteSizeLong();
  }
  const bool due =
      settings_.stream &&
      static_cast<int64_t>(part.token_ids.size()) >= settings_.stream_interval;
  Gather(event.index, bytes, out);
  if (due) FlushDelta(event.index, out);
}

// A short prompt is gathered like output where there is no stream; any other
// one is told in deltas of its own.
void GenerateStream::Echo(Messages& out) {
  const size_t bytes = settings_.echoed_text.size() +
                       kTokenIdBytes * settings_.echoed_ids.size();
  if (bytes == 0) return;
  if (!settings_.stream && bytes * parts_.size() < kMaxGatheredBytes) {
    for (int32_t i = 0; i < settings_.sequence_count; ++i) {
      Part& part = parts_[static_cast<size_t>(i)];
      part.token_ids = settings_.echoed_ids;
      part.text = settings_.echoed_text;
      Gather(i, bytes, out);
    }
    return;
  }
  PromptEcho::Prompt prompt{.request_id = settings_.request_id,
                            .sequence_count = settings_.sequence_count,
                            .ids = settings_.echoed_ids,
                            .text = settings_.echoed_text};
  if (settings_.usage_every_chunk) prompt.usage = EncodeUsage(parts_[0].usage);
  out.push_back(PromptEcho(std::move(prompt)));
}

// The largest part goes first, so that there are few messages.
void GenerateStream::Gather(int32_t index, size_t bytes, Messages& out) {
  parts_[static_cast<size_t>(index)].bytes += bytes;
  gathered_bytes_ += bytes;
  while (gathered_bytes_ >= kMaxGatheredBytes) {
    const auto largest = std::max_element(
        parts_.begin(), parts_.end(),
        [](const Part& a, const Part& b) { return a.bytes < b.bytes; });
    FlushDelta(static_cast<int32_t>(largest - parts_.begin()), out);
  }
}

void GenerateStream::FlushDelta(int32_t index, Messages& out) {
  Part& part = parts_[static_cast<size_t>(index)];
  if (part.token_ids.empty() && part.text.empty() &&
      part.prompt_logprobs.empty()) {
    return;
  }
  v1::GenerateResponse message = Message();
  v1::TokenDelta& delta = *message.mutable_delta();
  delta.set_index(index);
  if (settings_.return_text) delta.set_text(part.text);
  if (settings_.return_token_ids) {
    delta.mutable_token_ids()->Add(part.token_ids.begin(),
                                   part.token_ids.end());
  }
  for (v1::PositionLogprobs& position : part.logprobs) {
    *delta.add_logprobs() = std::move(position);
  }
  for (v1::PositionLogprobs& position : part.prompt_logprobs) {
    *delta.add_prompt_logprobs() = std::move(position);
  }
  if (settings_.usage_every_chunk) {
    *delta.mutable_usage() = EncodeUsage(part.usage);
  }
  gathered_bytes_ -= part.bytes;
  part = {.usage = part.usage};
  out.push_back(std::move(message));
}

void GenerateStream::TakeFinished(FinishedEvent event, Messages& out) {
  if (cached_tokens_ >= 0) cached_tokens_ = event.usage.cached_tokens;
  if (!event.status.ok()) {
    end_ = std::move(event.status);
    return;
  }
  // max_time passed while it waited for its turn.
  if (cached_tokens_ < 0) {
    TakeAccepted({.prompt_tokens = event.usage.prompt_tokens,
                  .cached_tokens = 0,
                  .cache_version = settings_.cache_version},
                 out);
  }
  Part& part = parts_[static_cast<size_t>(event.index)];
  part.usage = event.usage;
  part.text += event.tail_text;
  if (settings_.stream) FlushDelta(event.index, out);
  AddFinished(event, out);
  if (--open_sequences_ == 0) end_ = absl::OkStatus();
}

void GenerateStream::AddFinished(const FinishedEvent& event, Messages& out) {
  v1::GenerateResponse message = Message();
  v1::Finished& finished = *message.mutable_finished();
  finished.set_index(event.index);
  finished.set_reason(EncodeReason(event.reason));
  if (event.matched_token >= 0) {
    finished.set_matched_token_id(static_cast<uint32_t>(event.matched_token));
  } else if (!event.matched_text.empty()) {
    finished.set_matched_text(event.matched_text);
  }
  *finished.mutable_usage() = EncodeUsage(event.usage);
  if (settings_.timings) {
    *finished.mutable_timings() = EncodeTimings(event.timings, event.usage);
  }
  Part& part = parts_[static_cast<size_t>(event.index)];
  if (settings_.return_text) finished.set_text(part.text);
  if (settings_.return_token_ids) {
    finished.mutable_token_ids()->Add(part.token_ids.begin(),
                                      part.token_ids.end());
  }
  for (v1::PositionLogprobs& position : part.logprobs) {
    *finished.add_logprobs() = std::move(position);
  }
  for (v1::PositionLogprobs& position : part.prompt_logprobs) {
    *finished.add_prompt_logprobs() = std::move(position);
  }
  gathered_bytes_ -= part.bytes;
  part = {};
  finished.set_preemption_count(event.usage.preemption_count);
  finished.set_seed(event.seed);
  finished.set_truncated_tokens(Narrow(settings_.truncated_tokens));
  out.push_back(std::move(message));
}

v1::PositionLogprobs GenerateStream::Encode(
    const PositionLogprobs& position) const {
  const Tokenizer& tokenizer = settings_.version->tokenizer();
  v1::PositionLogprobs wire;
  const auto encode = [&](const TokenLogprob& token, v1::Logprob& to) {
    to.set_token_id(static_cast<uint32_t>(token.id));
    to.set_text(DecodeText(tokenizer, absl::MakeConstSpan(&token.id, 1),
                           /*skip_special=*/false));
    to.set_raw_bytes(std::string(tokenizer.TokenBytes(token.id)));
    to.set_logprob(token.logprob);
    to.set_rank(token.rank);
  };
  if (position.chosen.has_value()) {
    encode(*position.chosen, *wire.mutable_chosen());
  }
  for (const TokenLogprob& token : position.top) encode(token, *wire.add_top());
  return wire;
}

}  // namespace kvasir

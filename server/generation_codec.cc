#include "server/generation_codec.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "server/field_fault.h"
#include "server/text.h"

namespace kvasir {
namespace {

absl::Status CheckId(std::string_view field, uint32_t id, int32_t vocab_size) {
  if (id < static_cast<uint32_t>(vocab_size)) return absl::OkStatus();
  return FieldFault(field, absl::StrCat("a token id in [0, ", vocab_size, ")"),
                    id);
}

absl::Status CheckCount(std::string_view field, int64_t most,
                        std::string_view what, int64_t found) {
  if (found <= most) return absl::OkStatus();
  return FieldFault(field, absl::StrCat("at most ", most, " ", View(what)),
                    found);
}

// Absent: no log-probabilities are wanted.
absl::StatusOr<std::optional<LogprobWish>> DecodeLogprobs(
    std::string_view field, bool wanted, int32_t count,
    const std::vector<TokenId>& ids) {
  if (!wanted) return std::nullopt;
  if (count < 0 || count > kMaxLogprobs) {
    return FieldFault(field, absl::StrCat("0 to ", kMaxLogprobs), count);
  }
  return LogprobWish{.top_count = count, .ids = ids};
}

absl::Status DecodeLogprobWishes(const v1::OutputOptions& wire,
                                 int32_t vocab_size, OutputWish& wish) {
  ASSIGN_OR_RETURN(
      const std::vector<TokenId> ids,
      DecodeIds("output.logprob_token_ids", wire.logprob_token_ids(),
                vocab_size, kMaxLogprobIds));
  ASSIGN_OR_RETURN(wish.logprobs,
                   DecodeLogprobs("output.logprobs", wire.has_logprobs(),
                                  wire.logprobs(), ids));
  ASSIGN_OR_RETURN(
      wish.prompt_logprobs,
      DecodeLogprobs("output.prompt_logprobs", wire.has_prompt_logprobs(),
                     wire.prompt_logprobs(), ids));
  if (!ids.empty() && !wish.logprobs && !wish.prompt_logprobs) {
    return FieldFault("output.logprob_token_ids",
                      "output.logprobs or output.prompt_logprobs beside it",
                      "neither");
  }
  if (!wire.has_prompt_logprob_start()) return absl::OkStatus();
  if (!wish.prompt_logprobs) {
    return FieldFault("output.prompt_logprob_start",
                      "output.prompt_logprobs beside it", "none");
  }
  if (wire.prompt_logprob_start() < 0) {
    return FieldFault("output.prompt_logprob_start", "0 or more",
                      wire.prompt_logprob_start());
  }
  wish.prompt_logprob_start = wire.prompt_logprob_start();
  return absl::OkStatus();
}

// What says how a stream comes says nothing without one.
absl::Status CheckStreamOnly(const v1::OutputOptions& wire) {
  for (const auto& [field, set] :
       {std::pair{"output.stream_interval", wire.stream_interval() != 0},
        std::pair{"output.usage_every_chunk", wire.usage_every_chunk()},
        std::pair{"output.progress", wire.progress()}}) {
    if (set) return FieldFault(field, "stream beside it", "stream = false");
  }
  return absl::OkStatus();
}

absl::Status DecodeTruncation(const v1::OutputOptions& wire,
                              GenerateCall& call) {
  switch (wire.truncate_side()) {
    case v1::TRUNCATE_SIDE_UNSPECIFIED:
    case v1::TRUNCATE_SIDE_LEFT:
      break;
    case v1::TRUNCATE_SIDE_RIGHT:
      call.truncation.from_right = true;
      break;
    default:
      return FieldFault("output.truncate_side", "LEFT or RIGHT",
                        static_cast<int>(wire.truncate_side()));
  }
  if (!wire.has_truncate_prompt_tokens()) {
    if (wire.truncate_side() == v1::TRUNCATE_SIDE_UNSPECIFIED) {
      return absl::OkStatus();
    }
    return FieldFault("output.truncate_side",
                      "output.truncate_prompt_tokens beside it", "none");
  }
  const int32_t most = wire.truncate_prompt_tokens();
  if (most < 1 && most != -1) {
    return FieldFault("output.truncate_prompt_tokens",
                      "at least 1, or -1 for what the context has room for",
                      most);
  }
  call.truncation.most_tokens = most;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TokenId>> DecodeIds(
    std::string_view field,
    const google::protobuf::RepeatedField<uint32_t>& wire, int32_t vocab_size,
    int limit) {
  if (limit > 0) RETURN_IF_ERROR(CheckCount(field, limit, "ids", wire.size()));
  std::vector<TokenId> ids;
  ids.reserve(static_cast<size_t>(wire.size()));
  for (int i = 0; i < wire.size(); ++i) {
    if (wire[i] >= static_cast<uint32_t>(vocab_size)) {
      return CheckId(absl::StrCat(View(field), "[", i, "]"), wire[i],
                     vocab_size);
    }
    ids.push_back(static_cast<TokenId>(wire[i]));
  }
  return ids;
}

absl::StatusOr<SamplingParams> DecodeSampling(const v1::SamplingParams& wire,
                                              uint64_t random_seed,
                                              int32_t vocab_size) {
  SamplingParams params;
  if (wire.has_temperature()) params.temperature = wire.temperature();
  if (wire.has_top_p()) params.top_p = wire.top_p();
  if (wire.has_min_p()) params.min_p = wire.min_p();
  if (wire.has_typical_p()) params.typical_p = wire.typical_p();
  if (wire.has_top_k()) params.top_k = wire.top_k();
  if (wire.has_frequency_penalty()) {
    params.frequency_penalty = wire.frequency_penalty();
  }
  if (wire.has_presence_penalty()) {
    params.presence_penalty = wire.presence_penalty();
  }
  if (wire.has_repetition_penalty()) {
    params.repetition_penalty = wire.repetition_penalty();
  }
  if (wire.has_penalty_window()) params.penalty_window = wire.penalty_window();
  params.seed = wire.has_seed() ? wire.seed() : random_seed;
  RETURN_IF_ERROR(CheckCount("sampling.logit_bias", kMaxLogitBias, "entries",
                             static_cast<int64_t>(wire.logit_bias_size())));
  for (const auto& [id, bias] : wire.logit_bias()) {
    RETURN_IF_ERROR(CheckId("sampling.logit_bias", id, vocab_size));
    params.logit_bias.push_back({static_cast<TokenId>(id), bias});
  }
  // A map has no order; what is computed must not depend on one.
  std::sort(params.logit_bias.begin(), params.logit_bias.end(),
            [](const LogitBias& a, const LogitBias& b) { return a.id < b.id; });
  ASSIGN_OR_RETURN(params.allowed_ids,
                   DecodeIds("sampling.allowed_token_ids",
                             wire.allowed_token_ids(), vocab_size, vocab_size));
  ASSIGN_OR_RETURN(params.banned_ids,
                   DecodeIds("sampling.banned_token_ids",
                             wire.banned_token_ids(), vocab_size, vocab_size));
  RETURN_IF_ERROR(CheckSamplingParams(params));
  return params;
}

absl::StatusOr<int32_t> DecodeSequenceCount(const v1::SamplingParams& wire) {
  if (!wire.has_n()) return 1;
  if (wire.n() >= 1 && wire.n() <= kMaxRequestSequences) return wire.n();
  return FieldFault("sampling.n", absl::StrCat("1 to ", kMaxRequestSequences),
                    wire.n());
}

absl::StatusOr<StoppingParams> DecodeStopping(const v1::StoppingParams& wire,
                                              int32_t vocab_size) {
  StoppingParams params;
  if (wire.has_max_tokens()) {
    if (wire.max_tokens() < 1) {
      return FieldFault("stopping.max_tokens", "at least 1", wire.max_tokens());
    }
    params.max_tokens = wire.max_tokens();
  }
  if (wire.has_min_tokens()) {
    const bool too_many =
        wire.has_max_tokens() && wire.min_tokens() > wire.max_tokens();
    if (wire.min_tokens() < 0 || too_many) {
      return FieldFault("stopping.min_tokens",
                        "0 or more and at most stopping.max_tokens",
                        wire.min_tokens());
    }
    params.min_tokens = wire.min_tokens();
  }
  ASSIGN_OR_RETURN(params.token_ids,
                   DecodeIds("stopping.token_ids", wire.token_ids(), vocab_size,
                             kMaxStopTokens));
  // Before they are copied; the engine looks closer.
  RETURN_IF_ERROR(CheckCount("stopping.strings", kMaxStopStrings, "texts",
                             wire.strings_size()));
  for (const std::string& text : wire.strings()) {
    if (text.size() <= kMaxStopBytes) continue;
    return FieldFault("stopping.strings",
                      absl::StrCat("at most ", kMaxStopBytes, " bytes each"),
                      text.size());
  }
  params.strings.assign(wire.strings().begin(), wire.strings().end());
  params.ignore_eos = wire.ignore_eos();
  params.include_stop = wire.include_stop();
  return params;
}

absl::Status DecodeOutput(const v1::OutputOptions& wire, int32_t vocab_size,
                          GenerateCall& call) {
  if (wire.stream_interval() < 0 ||
      wire.stream_interval() > kMaxStreamInterval) {
    return FieldFault("output.stream_interval",
                      absl::StrCat("0 to ", kMaxStreamInterval),
                      wire.stream_interval());
  }
  call.stream_interval = std::max(1, wire.stream_interval());
  call.return_text = !wire.has_return_text() || wire.return_text();
  call.return_token_ids = wire.return_token_ids() || !call.return_text;
  call.usage_every_chunk = wire.usage_every_chunk();
  call.timings = wire.timings();
  call.echo = wire.echo();
  Request& request = call.request;
  request.skip_special_tokens =
      !wire.has_skip_special_tokens() || wire.skip_special_tokens();
  request.output.progress = wire.progress();
  if (!call.stream) RETURN_IF_ERROR(CheckStreamOnly(wire));
  RETURN_IF_ERROR(DecodeLogprobWishes(wire, vocab_size, request.output));
  return DecodeTruncation(wire, call);
}

}  // namespace kvasir

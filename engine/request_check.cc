#include "engine/request_check.h"

#include <cstddef>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "engine/model/sampling_params.h"
#include "engine/model/token_set.h"
#include "engine/request.h"
#include "engine/stop_matcher.h"

namespace kvasir {
namespace {

// What a field holds at `place`, an index or the key of a map.
absl::Status CheckId(absl::string_view field, int64_t place, TokenId id,
                     const RequestLimits& limits) {
  const int32_t limit = limits.token_limit;
  if (id < 0 || id >= limit) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, "[", place, "]: wanted a token id in [0, ", limit,
                     "), found ", id));
  }
  if (limits.tokens == nullptr || limits.tokens->Contains(id)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, "[", place, "]: wanted the id of a token, found ", id,
                   ", which the vocabulary leaves unused"));
}

absl::Status CheckIds(absl::string_view field, absl::Span<const TokenId> ids,
                      const RequestLimits& limits) {
  for (size_t i = 0; i < ids.size(); ++i) {
    RETURN_IF_ERROR(CheckId(field, static_cast<int64_t>(i), ids[i], limits));
  }
  return absl::OkStatus();
}

absl::Status CheckSampling(const SamplingParams& sampling,
                           const RequestLimits& limits) {
  RETURN_IF_ERROR(CheckSamplingParams(sampling));
  for (const LogitBias& entry : sampling.logit_bias) {
    RETURN_IF_ERROR(CheckId("sampling.logit_bias", entry.id, entry.id, limits));
  }
  RETURN_IF_ERROR(
      CheckIds("sampling.allowed_token_ids", sampling.allowed_ids, limits));
  return CheckIds("sampling.banned_token_ids", sampling.banned_ids, limits);
}

absl::Status CheckInRange(absl::string_view field, int64_t value, int64_t least,
                          int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": wanted ", least, " to ", most, ", found ", value));
}

absl::Status CheckStopping(const StoppingParams& stopping,
                           const RequestLimits& limits) {
  RETURN_IF_ERROR(CheckIds("stopping.token_ids", stopping.token_ids, limits));
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  RETURN_IF_ERROR(
      CheckInRange("stopping.max_tokens", stopping.max_tokens, 0, kAny));
  RETURN_IF_ERROR(
      CheckInRange("stopping.min_tokens", stopping.min_tokens, 0,
                   stopping.max_tokens > 0 ? stopping.max_tokens : kAny));
  return CheckStopStrings(stopping.strings);
}

absl::Status CheckOutput(const Request& request, const RequestLimits& limits) {
  const OutputWish& wish = request.output;
  for (const auto& logprobs : {wish.logprobs, wish.prompt_logprobs}) {
    if (!logprobs.has_value()) continue;
    RETURN_IF_ERROR(
        CheckIds("output.logprob_token_ids", logprobs->ids, limits));
  }
  if (!wish.prompt_logprobs.has_value()) return absl::OkStatus();
  return CheckInRange("output.prompt_logprob_start", wish.prompt_logprob_start,
                      0, static_cast<int64_t>(request.prompt.size()) - 1);
}

}  // namespace

absl::Status CheckPromptLength(int64_t length, const RequestLimits& limits) {
  if (length == 0) {
    return absl::InvalidArgumentError(
        "prompt: wanted at least 1 token, found 0");
  }
  if (length >= limits.model_context) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt: wanted at most ", limits.model_context - 1,
                     " tokens (a context of ", limits.model_context,
                     " less one to generate), found ", length));
  }
  if (length >= limits.cache_tokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("prompt: wanted at most ", limits.cache_tokens - 1,
                     " tokens (a KV cache of ", limits.cache_tokens,
                     " less one to generate), found ", length));
  }
  return absl::OkStatus();
}

absl::Status CheckPrompt(absl::Span<const TokenId> prompt,
                         const RequestLimits& limits) {
  const int64_t length = static_cast<int64_t>(prompt.size());
  if (length == 0 || length >= limits.LongestContext()) {
    RETURN_IF_ERROR(CheckPromptLength(length, limits));
  }
  return CheckIds("prompt.token_ids", prompt, limits);
}

absl::Status CheckRequest(const Request& request, const RequestLimits& limits) {
  RETURN_IF_ERROR(CheckPrompt(request.prompt, limits));
  RETURN_IF_ERROR(CheckStopping(request.stopping, limits));
  RETURN_IF_ERROR(CheckOutput(request, limits));
  RETURN_IF_ERROR(CheckInRange("sampling.n", request.sequence_count, 1,
                               kMaxRequestSequences));
  return CheckSampling(request.sampling, limits);
}

}  // namespace kvasir

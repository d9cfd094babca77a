#include "engine/request_check.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "engine/model/sampling_params.h"
#include "engine/model/token_set.h"
#include "engine/request.h"

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
  RETURN_IF_ERROR(
      CheckIds("stopping.token_ids", request.stopping.token_ids, limits));
  if (request.stopping.max_tokens < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("stopping.max_tokens: wanted at least 0, found ",
                     request.stopping.max_tokens));
  }
  return CheckSampling(request.sampling, limits);
}

}  // namespace kvasir

#include "engine/request_check.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "engine/model/sampler.h"
#include "engine/model/token_set.h"
#include "engine/request.h"

namespace kvasir {
namespace {

absl::Status CheckIds(absl::string_view field, absl::Span<const TokenId> ids,
                      const RequestLimits& limits) {
  const int32_t limit = limits.token_limit;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < limit) {
      if (limits.tokens == nullptr || limits.tokens->Contains(ids[i])) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(field, "[", i, "]: wanted the id of a token, found ",
                       ids[i], ", which the vocabulary leaves unused"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(field, "[", i, "]: wanted a token id in [0, ", limit,
                     "), found ", ids[i]));
  }
  return absl::OkStatus();
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
  return CheckSamplingParams(request.sampling);
}

}  // namespace kvasir

#ifndef KVASIR_ENGINE_REQUEST_CHECK_H_
#define KVASIR_ENGINE_REQUEST_CHECK_H_

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"

namespace kvasir {

class TokenSet;
struct Request;

// What a loaded model and its cache allow a request. Plain value; any thread.
struct RequestLimits {
  // Ids in [0, token_limit) have an embedding and a logit, and those of
  // `tokens` (null: all of them) a token. Outlives this object.
  int32_t token_limit = 0;
  const TokenSet* tokens = nullptr;
  // The model's positions, or fewer if the operator said so.
  int64_t model_context = 0;
  // See CachePromise.
  int64_t cache_tokens = 0;
  int64_t pinned_tokens = 0;

  // Most tokens of prompt and output together: the one number that clients are
  // told, requests are checked against and the engine ends sequences at. The
  // last token needs no place in the cache, but nor can it be followed.
  int64_t EffectiveContext() const {
    return std::min(model_context, cache_tokens);
  }

  // The same for a request that begins with all that is pinned.
  int64_t LongestContext() const {
    return std::min(model_context, cache_tokens + pinned_tokens);
  }
};

// The part of CheckRequest() that looks at the prompt.
absl::Status CheckPrompt(absl::Span<const TokenId> prompt,
                         const RequestLimits& limits);

// And the part that looks at its length alone, for a prompt that begins with
// nothing that is pinned.
absl::Status CheckPromptLength(int64_t length, const RequestLimits& limits);

// OK if the engine can serve `request` to its end, provided that the prompt
// begins with as much of what is pinned as it needs to: only the engine thread
// can know. Otherwise INVALID_ARGUMENT with the field's name, what was wanted
// and what there was; or RESOURCE_EXHAUSTED with both numbers if the prompt is
// within the model's context but can never fit in the cache. A prompt must
// leave room for one token of output.
absl::Status CheckRequest(const Request& request, const RequestLimits& limits);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_REQUEST_CHECK_H_

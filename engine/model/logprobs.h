#ifndef KVASIR_ENGINE_MODEL_LOGPROBS_H_
#define KVASIR_ENGINE_MODEL_LOGPROBS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"

namespace kvasir {

class TokenSet;

// How likely the model finds one token at one position.
struct TokenLogprob {
  TokenId id = -1;
  float logprob = 0;  // natural; at most 0
  int32_t rank = 0;   // 1: the likeliest; of equals the smaller id is first
  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct PositionLogprobs {
  std::optional<TokenLogprob> chosen;  // the token that is there
  std::vector<TokenLogprob> top;       // likeliest first
};

// What `top` holds: the `top_count` likeliest tokens and those of `ids`, each
// once.
struct LogprobWish {
  int32_t top_count = 0;
  std::vector<TokenId> ids = {};
};

// Log-probabilities of the model: the softmax of its logits as they are, before
// temperature, bias, penalty or filter, so that they do not depend on how a
// token is drawn (FIELD_CASES SAM-3).
//
// The softmax is over the whole of `logits` (finite numbers), and ranks count
// them all; but only ids of `tokens` (null: all) are listed in `top`. `chosen`
// is below the width, or negative for a position without a token. All values
// are finite, and rounded downwards, so that no set of them comes to more than
// 1.
PositionLogprobs ModelLogprobs(absl::Span<const float> logits, TokenId chosen,
                               const LogprobWish& wish, const TokenSet* tokens);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_LOGPROBS_H_

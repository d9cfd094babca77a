#ifndef KVASIR_ENGINE_MODEL_SAMPLING_PARAMS_H_
#define KVASIR_ENGINE_MODEL_SAMPLING_PARAMS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"

namespace kvasir {

class TokenSet;

inline constexpr size_t kMaxLogitBias = 1024;
inline constexpr size_t kMaxAllowedIds = 4096;
inline constexpr size_t kMaxBannedIds = 4096;

// Added to the logit of one token.
struct LogitBias {
  TokenId id = 0;
  float bias = 0;  // [-100, 100]
  friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

// How a token is drawn from logits. Defaults sample the model's distribution.
// Plain value; CheckSamplingParams() knows what is legal.
struct SamplingParams {
  float temperature = 1.0f;  // 0: the most likely token (greedy)
  int32_t top_k = 0;         // 0 or more than the vocabulary: off
  float top_p = 1.0f;        // (0, 1]; 1: off
  float min_p = 0.0f;        // [0, 1]; 0: off
  float typical_p = 1.0f;    // (0, 1]; 1: off
  uint64_t seed = 0;

  // Taken off a logit for each time that the token has been generated, and once
  // if it has been generated at all; [-2, 2].
  float frequency_penalty = 0;
  float presence_penalty = 0;
  // Of a token in prompt or output a positive logit is divided and a negative
  // one multiplied by this (Keskar et al., "CTRL", 2019, section 4.1); (0, 2]
  // as other servers take it, 1: off.
  float repetition_penalty = 1;
  // All three look at the last so many tokens of prompt and output; 0: all.
  int32_t penalty_window = 0;

  std::vector<LogitBias> logit_bias = {};  // each id once
  std::vector<TokenId> allowed_ids = {};   // only these; empty: all
  std::vector<TokenId> banned_ids = {};    // not these

  // The engine's to set, not the client's: what DrawableTokens() has made of
  // the two lists, and all that a draw knows of them. Null: every id.
  std::shared_ptr<const TokenSet> drawable = nullptr;

  bool greedy() const { return temperature == 0 || top_k == 1; }
  // Whether logits are changed before anything is drawn from them.
  bool adjusts_logits() const {
    return !logit_bias.empty() || frequency_penalty != 0 ||
           presence_penalty != 0 || repetition_penalty != 1;
  }
};

// What a draw depends on beside logits and parameters. The spans are the
// caller's.
struct DrawContext {
  // The sequence so far, prompt then output. Its size is the new token's
  // position, which keys the draw.
  absl::Span<const TokenId> tokens = {};
  int64_t prompt_tokens = 0;
  // Not drawn this time: the end tokens of a generation that may not end yet.
  absl::Span<const TokenId> withheld = {};
  // Added to the seed: the sequence's index in its request.
  int32_t stream = 0;
};

// INVALID_ARGUMENT naming the field, its legal range and the value found; NaN
// and infinities are refused. Whether ids are tokens is not looked at.
absl::Status CheckSamplingParams(const SamplingParams& params);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_SAMPLING_PARAMS_H_

#ifndef KVASIR_ENGINE_MODEL_SAMPLER_H_
#define KVASIR_ENGINE_MODEL_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"

namespace kvasir {

class TokenSet;

// How a token is drawn from logits. Defaults sample the model's distribution.
struct SamplingParams {
  float temperature = 1.0f;  // 0: the most likely token (greedy)
  int32_t top_k = 0;         // 0 or more than the vocabulary: off
  float top_p = 1.0f;        // (0, 1]; 1: off
  float min_p = 0.0f;        // [0, 1]; 0: off
  uint64_t seed = 0;
  // The engine's to set, not the client's: what is a token of the model. Null:
  // every id. Outlives the parameters.
  const TokenSet* drawable = nullptr;
};

// INVALID_ARGUMENT naming the field, its legal range and the value found; NaN
// and infinities are refused.
absl::Status CheckSamplingParams(const SamplingParams& params);

// Draws the token that follows. A pure function: randomness comes from a
// counter-based generator (Philox4x32-10, Salmon et al. 2011) keyed by the seed
// and `position`, the index of the new token in its sequence, so that neither
// batch nor preemption changes a draw (contract C2).
//
// Order of filters: temperature, top-k, top-p, min-p. Ties go to the smaller
// id. Only ids below `sampleable_count` that are drawable are drawn, whatever
// the logits of the others (ids without a token); there is one. `scratch` is
// working memory kept between calls.
TokenId SampleToken(absl::Span<const float> logits,
                    const SamplingParams& params, int64_t position,
                    int32_t sampleable_count, std::vector<TokenId>& scratch);

// 64 random bits for (seed, position, draw).
uint64_t CounterRandom(uint64_t seed, uint64_t position, uint64_t draw);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_SAMPLER_H_

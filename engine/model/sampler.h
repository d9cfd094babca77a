#ifndef KVASIR_ENGINE_MODEL_SAMPLER_H_
#define KVASIR_ENGINE_MODEL_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "engine/model/logit_adjustment.h"
#include "engine/model/sampling_params.h"

namespace kvasir {

// Working memory of SampleToken(), kept between calls.
struct SamplerScratch {
  std::vector<TokenId> ids;
  AdjustScratch adjust;
};

// Draws the token that follows. A pure function of logits, parameters and
// context: randomness is CounterRandom() of the seed and the new token's
// position, so that neither batch nor preemption changes a draw (contract C2).
//
// Bias and penalties change the logits (logit_adjustment.h). Then only ids
// below `sampleable_count` that are drawable and not withheld count, whatever
// the logits of the others; there is one. Greedy takes the highest logit of
// theirs. Otherwise they are cut down in the order temperature, top-k, typical,
// top-p, min-p: that of llama.cpp's default chain, but with the temperature
// before the filters, as Hugging Face's and vLLM's samplers have it. Ties go to
// the smaller id.
//
// `logits` are finite numbers, and then every step is one of finite numbers.
TokenId SampleToken(absl::Span<const float> logits,
                    const SamplingParams& params, const DrawContext& context,
                    int32_t sampleable_count, SamplerScratch& scratch);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_SAMPLER_H_

#ifndef KVASIR_ENGINE_MODEL_LOGIT_ADJUSTMENT_H_
#define KVASIR_ENGINE_MODEL_LOGIT_ADJUSTMENT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "engine/model/sampling_params.h"

namespace kvasir {

// Working memory of AdjustLogits(), kept between calls.
struct AdjustScratch {
  std::vector<float> logits;
  // By id: 0 if not in the window, otherwise 1 more than how often it has been
  // generated. All 0 between calls.
  std::vector<int32_t> counts;
  std::vector<TokenId> seen;  // ids whose count is not 0
};

// `logits` with bias and penalties applied: in `scratch`, or `logits` itself
// if the parameters adjust none, which then costs nothing. First the bias, then
// the repetition penalty, then frequency and presence, the order in which
// llama.cpp and vLLM apply them. The results are finite numbers whatever the
// parameters, since they end at float's range. Ids without a logit count for
// nothing.
absl::Span<const float> AdjustLogits(absl::Span<const float> logits,
                                     const SamplingParams& params,
                                     const DrawContext& context,
                                     AdjustScratch& scratch);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_LOGIT_ADJUSTMENT_H_

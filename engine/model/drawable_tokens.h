#ifndef KVASIR_ENGINE_MODEL_DRAWABLE_TOKENS_H_
#define KVASIR_ENGINE_MODEL_DRAWABLE_TOKENS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "engine/model/sampling_params.h"
#include "engine/model/token_set.h"

namespace kvasir {

// What the allowed and banned ids of `params` leave of a model's `tokens`
// (null: all ids below `count`); made once per request, for
// SamplingParams::drawable. Without such ids that is `tokens` itself.
//
// `withheld` are the tokens that may not be drawn at first, because they would
// end the output before its time; empty if there is no such time.
// INVALID_ARGUMENT naming the field if nothing is left to draw, with them or
// without. Lists may name ids that are no tokens.
absl::StatusOr<std::shared_ptr<const TokenSet>> DrawableTokens(
    std::shared_ptr<const TokenSet> tokens, int32_t count,
    const SamplingParams& params, absl::Span<const TokenId> withheld);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_DRAWABLE_TOKENS_H_

#include "engine/model/logit_adjustment.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"

namespace kvasir {
namespace {

float ToFinite(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kMost, kMost));
}

bool HasLogit(TokenId id, absl::Span<const float> logits) {
  return id >= 0 && static_cast<size_t>(id) < logits.size();
}

bool Penalises(const SamplingParams& params) {
  return params.frequency_penalty != 0 || params.presence_penalty != 0 ||
         params.repetition_penalty != 1;
}

void CountWindow(const SamplingParams& params, const DrawContext& context,
                 AdjustScratch& scratch) {
  scratch.counts.resize(std::max(scratch.counts.size(), scratch.logits.size()));
  scratch.seen.clear();
  const size_t size = context.tokens.size();
  const auto window = static_cast<size_t>(params.penalty_window);
  const size_t first = window == 0 ? 0 : size - std::min(size, window);
  for (size_t i = first; i < size; ++i) {
    const TokenId id = context.tokens[i];
    if (!HasLogit(id, scratch.logits)) continue;
    int32_t& count = scratch.counts[static_cast<size_t>(id)];
    if (count == 0) {
      scratch.seen.push_back(id);
      count = 1;
    }
    if (static_cast<int64_t>(i) >= context.prompt_tokens) ++count;
  }
}

float Penalise(double logit, int32_t generated, const SamplingParams& params) {
  const double repetition = params.repetition_penalty;
  logit = logit > 0 ? logit / repetition : logit * repetition;
  if (generated > 0) {
    logit -= generated * double{params.frequency_penalty};
    logit -= params.presence_penalty;
  }
  return ToFinite(logit);
}

}  // namespace

absl::Span<const float> AdjustLogits(absl::Span<const float> logits,
                                     const SamplingParams& params,
                                     const DrawContext& context,
                                     AdjustScratch& scratch) {
  if (!params.adjusts_logits()) return logits;
  scratch.logits.assign(logits.begin(), logits.end());
  for (const LogitBias& entry : params.logit_bias) {
    if (!HasLogit(entry.id, logits)) continue;
    float& logit = scratch.logits[static_cast<size_t>(entry.id)];
    logit = ToFinite(double{logit} + entry.bias);
  }
  if (!Penalises(params)) return scratch.logits;
  CountWindow(params, context, scratch);
  for (const TokenId id : scratch.seen) {
    float& logit = scratch.logits[static_cast<size_t>(id)];
    int32_t& count = scratch.counts[static_cast<size_t>(id)];
    logit = Penalise(logit, count - 1, params);
    count = 0;
  }
  return scratch.logits;
}

}  // namespace kvasir

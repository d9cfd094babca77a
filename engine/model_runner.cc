#include "engine/model_runner.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

bool AllFinite(absl::Span<const float> values) {
  // x - x is 0 for a finite x and NaN otherwise; NaN stays in the sums, which
  // are several so that they need not wait for each other.
  std::array<float, 16> sums = {};
  size_t i = 0;
  for (; i + sums.size() <= values.size(); i += sums.size()) {
    for (size_t k = 0; k < sums.size(); ++k) {
      sums[k] += values[i + k] - values[i + k];
    }
  }
  for (; i < values.size(); ++i) sums[0] += values[i] - values[i];
  return absl::c_all_of(sums, [](float sum) { return sum == 0; });
}

}  // namespace

ModelRunner::ModelRunner(Transformer* transformer, Options options)
    : transformer_(transformer), options_(std::move(options)) {
  KV_CHECK(options_.sampleable_count > 0);
}

absl::StatusOr<std::vector<TokenId>> ModelRunner::Run(
    absl::Span<const StepRows> step) {
  GatherBatch(step);
  ASSIGN_OR_RETURN(const Activations logits,
                   transformer_->Forward(options_.layout,
                                         {tokens_, sequences_, logit_rows_}));
  std::vector<TokenId> sampled(step.size(), kNoTokenWanted);
  int64_t row = 0;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i].sampling == nullptr) continue;
    const absl::Span<const float> values(logits.Row(row++),
                                         static_cast<size_t>(logits.columns));
    const int64_t position =
        step[i].first_position + static_cast<int64_t>(step[i].tokens.size());
    KV_CHECK(static_cast<int64_t>(step[i].draw.tokens.size()) == position)
        << step[i].draw.tokens.size() << " tokens before position " << position;
    if (options_.observer) options_.observer(step[i].id, position, values);
    if (!AllFinite(values)) {
      sampled[i] = kLogitsNotFinite;
      continue;
    }
    sampled[i] = SampleToken(values, *step[i].sampling, step[i].draw,
                             options_.sampleable_count, sampler_scratch_);
  }
  return sampled;
}

void ModelRunner::GatherBatch(absl::Span<const StepRows> step) {
  tokens_.clear();
  sequences_.clear();
  logit_rows_.clear();
  for (const StepRows& rows : step) {
    sequences_.push_back({static_cast<int64_t>(tokens_.size()),
                          static_cast<int64_t>(rows.tokens.size()),
                          rows.first_position, rows.table});
    tokens_.insert(tokens_.end(), rows.tokens.begin(), rows.tokens.end());
    if (rows.sampling != nullptr) {
      logit_rows_.push_back(static_cast<int32_t>(tokens_.size()) - 1);
    }
  }
}

}  // namespace kvasir

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

absl::StatusOr<std::vector<StepResult>> ModelRunner::Run(
    absl::Span<const StepRows> step) {
  GatherBatch(step);
  ASSIGN_OR_RETURN(const Activations logits,
                   transformer_->Forward(options_.layout,
                                         {tokens_, sequences_, logit_rows_}));
  std::vector<StepResult> results;
  int64_t row = 0;
  for (const StepRows& rows : step) {
    results.push_back(ReadLogits(rows, logits, row));
    row += rows.scored_end - rows.scored_begin;
    if (rows.sampling != nullptr) ++row;
  }
  return results;
}

// `first_row`: of the logits of these rows, which are those that are scored and
// then that of the token to come.
StepResult ModelRunner::ReadLogits(const StepRows& rows,
                                   const Activations& logits,
                                   int64_t first_row) {
  const auto values = [&](int64_t row) {
    return absl::MakeConstSpan(logits.Row(row),
                               static_cast<size_t>(logits.columns));
  };
  StepResult result;
  int64_t row = first_row;
  for (int64_t i = rows.scored_begin; i < rows.scored_end; ++i, ++row) {
    if (!AllFinite(values(row))) return {.token = kLogitsNotFinite};
    const TokenId next = rows.draw.tokens[rows.first_position + i + 1];
    result.scores.push_back(
        ModelLogprobs(values(row), next, *rows.scores, options_.tokens));
  }
  if (rows.sampling == nullptr) return result;
  const int64_t position =
      rows.first_position + static_cast<int64_t>(rows.tokens.size());
  if (options_.observer) options_.observer(rows.id, position, values(row));
  if (!AllFinite(values(row))) return {.token = kLogitsNotFinite};
  result.token = SampleToken(values(row), *rows.sampling, rows.draw,
                             options_.sampleable_count, sampler_scratch_);
  if (rows.logprobs != nullptr) {
    result.logprobs = ModelLogprobs(values(row), result.token, *rows.logprobs,
                                    options_.tokens);
  }
  return result;
}

void ModelRunner::GatherBatch(absl::Span<const StepRows> step) {
  tokens_.clear();
  sequences_.clear();
  logit_rows_.clear();
  for (const StepRows& rows : step) {
    const auto first = static_cast<int32_t>(tokens_.size());
    sequences_.push_back({first, static_cast<int64_t>(rows.tokens.size()),
                          rows.first_position, rows.table});
    tokens_.insert(tokens_.end(), rows.tokens.begin(), rows.tokens.end());
    for (int64_t i = rows.scored_begin; i < rows.scored_end; ++i) {
      logit_rows_.push_back(first + static_cast<int32_t>(i));
    }
    if (rows.sampling != nullptr) {
      logit_rows_.push_back(static_cast<int32_t>(tokens_.size()) - 1);
    }
  }
}

}  // namespace kvasir

#ifndef KVASIR_ENGINE_STEP_RUNNER_H_
#define KVASIR_ENGINE_STEP_RUNNER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "engine/model/logprobs.h"
#include "engine/model/sampling_params.h"

namespace kvasir {

// One sequence's share of a step, ready to be computed. Spans, table and
// parameters are the caller's and live through Run().
struct StepRows {
  SequenceId id;
  absl::Span<const TokenId> tokens;  // at consecutive positions ...
  int64_t first_position = 0;        // ... from here on
  BlockTableView table;              // covers them
  // Set if the token after the last one is wanted, and what else that depends
  // on; the tokens that are known, these among them.
  const SamplingParams* sampling = nullptr;
  DrawContext draw;
  // Set if log-probabilities of that token are wanted.
  const LogprobWish* logprobs = nullptr;
  // Set if those of the known tokens that follow these rows are wanted: rows
  // from `scored_begin` on, up to `scored_end`.
  const LogprobWish* scores = nullptr;
  int64_t scored_begin = 0;
  int64_t scored_end = 0;
};

// Instead of a sampled token: none was wanted, or the logits are not all finite
// numbers, so that no draw from them would mean anything.
inline constexpr TokenId kNoTokenWanted = -1;
inline constexpr TokenId kLogitsNotFinite = -2;

// What a step gives one sequence.
struct StepResult {
  TokenId token = kNoTokenWanted;  // or what stands for it
  std::optional<PositionLogprobs> logprobs;
  std::vector<PositionLogprobs> scores;  // one per scored row
};

// Computes a step: the plan's rows, on a reservation's tables, to sampled
// tokens. An interface, so that everything around it is tested without a model.
//
// Engine thread only.
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // One entry per sequence of the step. On an error the step has not happened:
  // the caller drops the reservation.
  virtual absl::StatusOr<std::vector<StepResult>> Run(
      absl::Span<const StepRows> step) = 0;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_STEP_RUNNER_H_

#ifndef KVASIR_ENGINE_MODEL_RUNNER_H_
#define KVASIR_ENGINE_MODEL_RUNNER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/model/sampler.h"
#include "engine/model/transformer.h"

namespace kvasir {

// One sequence's share of a step, ready to be computed. Spans, table and
// parameters are the caller's and live through Run().
struct StepRows {
  SequenceId id;
  absl::Span<const TokenId> tokens;  // at consecutive positions ...
  int64_t first_position = 0;        // ... from here on
  BlockTableView table;              // covers them
  // Set if the token after the last one is wanted.
  const SamplingParams* sampling = nullptr;
  // For that: the sequence up to the last of `tokens`.
  DrawContext draw = {};
};

// Instead of a sampled token: none was wanted, or the logits are not all finite
// numbers, so that no draw from them would mean anything.
inline constexpr TokenId kNoTokenWanted = -1;
inline constexpr TokenId kLogitsNotFinite = -2;

// Computes a step: the plan's rows, on a reservation's tables, to sampled
// tokens. An interface, so that everything around it is tested without a model.
//
// Engine thread only.
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // One entry per sequence of the step: the token that follows, or one of the
  // two above. On an error the step has not happened: the caller drops
  // the reservation.
  virtual absl::StatusOr<std::vector<TokenId>> Run(
      absl::Span<const StepRows> step) = 0;
};

// Sees the logits of every position that a token is sampled for: the sequence,
// the new token's position and the row. For tests of contract C2.
using LogitsObserver =
    std::function<void(SequenceId, int64_t, absl::Span<const float>)>;

// The real runner: one forward pass over all rows, then one draw per sequence
// that wants a token.
class ModelRunner final : public StepRunner {
 public:
  struct Options {
    KvLayout layout;
    // Ids below this may be sampled: those with a token, an embedding and a
    // logit (FIELD_CASES LOAD-4).
    int32_t sampleable_count = 0;
    LogitsObserver observer = {};  // may be empty
  };

  // `transformer` outlives this object.
  ModelRunner(Transformer* transformer, Options options);

  absl::StatusOr<std::vector<TokenId>> Run(
      absl::Span<const StepRows> step) override;

 private:
  void GatherBatch(absl::Span<const StepRows> step);

  Transformer* const transformer_;
  const Options options_;

  // Working memory, kept between steps.
  std::vector<TokenId> tokens_;
  std::vector<SequenceRows> sequences_;
  std::vector<int32_t> logit_rows_;
  SamplerScratch sampler_scratch_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_RUNNER_H_

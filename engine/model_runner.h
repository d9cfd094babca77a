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
#include "engine/step_runner.h"

namespace kvasir {

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
    // The model's tokens; null: all ids are. Lists of likely ones name no
    // others. Outlives this object.
    const TokenSet* tokens = nullptr;
    LogitsObserver observer = {};  // may be empty
  };

  // `transformer` outlives this object.
  ModelRunner(Transformer* transformer, Options options);

  absl::StatusOr<std::vector<StepResult>> Run(
      absl::Span<const StepRows> step) override;

 private:
  void GatherBatch(absl::Span<const StepRows> step);
  StepResult ReadLogits(const StepRows& rows, const Activations& logits,
                        int64_t first_row);

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

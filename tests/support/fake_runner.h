#ifndef KVASIR_TESTS_SUPPORT_FAKE_RUNNER_H_
#define KVASIR_TESTS_SUPPORT_FAKE_RUNNER_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/kv_layout.h"
#include "engine/model/sampling_params.h"
#include "engine/step_runner.h"

namespace kvasir {

// A layout with room for one id and one position per token.
constexpr KvLayout FakeLayout(int32_t block_tokens) {
  return {.layer_count = 1,
          .kv_head_count = 1,
          .head_dim = 2,
          .block_tokens = block_tokens,
          .type = KvType::kF32};
}

// A model of a kind: as "keys and values" it writes each token's id and
// position into the blocks, and the next token is a hash over all ids of the
// sequence *as it reads them back from the blocks*. So any error in leases,
// tables, sharing or rollback changes its output or fails a position check.
// Both depend on the weights, which are a number: a block of another version
// fails the check too.
//
// Ids it generates are the 256 byte tokens of the tiny vocabulary, never an end
// token.
class FakeRunner final : public StepRunner {
 public:
  explicit FakeRunner(const KvLayout& layout, int32_t weights = 0)
      : layout_(layout), weights_(weights) {}

  absl::StatusOr<std::vector<StepResult>> Run(
      absl::Span<const StepRows> step) override;

  // The next step fails with this, after it has written into its blocks.
  void FailNextStep(absl::Status status) { failure_ = std::move(status); }

  // Those of these rows fail, likewise; with nothing, none do any more.
  using Fails = std::function<bool(absl::Span<const StepRows>)>;
  void FailSteps(Fails fails) { fails_ = std::move(fails); }

  // From now on this sequence's logits are no numbers.
  void SpoilLogitsOf(SequenceId id) { spoilt_ = id; }

  // Called at the start of each step, on the engine's thread.
  void OnStep(std::function<void()> hook) { on_step_ = std::move(hook); }

  // One entry per step that succeeded: rows of each sequence in it.
  struct Entry {
    SequenceId id;
    int64_t first_position = 0;
    int64_t count = 0;
    int64_t scored = 0;
  };
  const std::vector<std::vector<Entry>>& steps() const { return steps_; }
  int64_t computed_rows() const { return computed_rows_; }

 private:
  int32_t Mark(int64_t position) const;
  void Write(const StepRows& rows) const;
  TokenId Next(const StepRows& rows) const;
  // Scores name the token and the place that they are of.
  static void Score(const StepRows& rows, StepResult& result);

  const KvLayout layout_;
  const int32_t weights_;
  absl::Status failure_;
  Fails fails_;
  std::function<void()> on_step_;
  SequenceId spoilt_;
  std::vector<std::vector<Entry>> steps_;
  int64_t computed_rows_ = 0;
};

// What FakeRunner generates after `prompt`: the answer of a solo, cold run.
std::vector<TokenId> FakeAnswer(std::vector<TokenId> prompt, int64_t count,
                                const SamplingParams& sampling,
                                int32_t weights = 0);

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_FAKE_RUNNER_H_

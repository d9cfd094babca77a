#ifndef KVASIR_ENGINE_HOOKED_RUNNER_H_
#define KVASIR_ENGINE_HOOKED_RUNNER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/step_runner.h"
#include "engine/test_hooks.h"

namespace kvasir {

// A runner that does what another one does, and what the hooks say. Engine
// thread only. With a script it remembers every sequence it has seen, so it is
// for tests alone.
class HookedRunner final : public StepRunner {
 public:
  HookedRunner(std::shared_ptr<StepRunner> inner, EngineTestHooks hooks);

  // INTERNAL for a step that the hooks make fail; `inner` does not see it.
  absl::StatusOr<std::vector<StepResult>> Run(
      absl::Span<const StepRows> step) override;

 private:
  const std::shared_ptr<StepRunner> inner_;
  const EngineTestHooks hooks_;
  int64_t steps_ = 0;
  // Position of the first token that a sequence generated.
  absl::flat_hash_map<SequenceId, int64_t> first_generated_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_HOOKED_RUNNER_H_

#include "engine/hooked_runner.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"

namespace kvasir {

HookedRunner::HookedRunner(std::shared_ptr<StepRunner> inner,
                           EngineTestHooks hooks)
    : inner_(std::move(inner)), hooks_(std::move(hooks)) {}

absl::StatusOr<std::vector<StepResult>> HookedRunner::Run(
    absl::Span<const StepRows> step) {
  ++steps_;
  absl::SleepFor(hooks_.step_delay);
  if (hooks_.first_failing_step > 0 && steps_ >= hooks_.first_failing_step &&
      steps_ < hooks_.first_failing_step + hooks_.failing_steps) {
    return absl::InternalError(
        absl::StrCat("step ", steps_, " fails because a test wants it to"));
  }
  ASSIGN_OR_RETURN(std::vector<StepResult> results, inner_->Run(step));
  if (hooks_.script.empty()) return results;
  for (size_t i = 0; i < step.size(); ++i) {
    if (step[i].sampling == nullptr) continue;
    const int64_t position =
        step[i].first_position + static_cast<int64_t>(step[i].tokens.size());
    const auto [first, unused] =
        first_generated_.try_emplace(step[i].id, position);
    const size_t index = static_cast<size_t>(position - first->second);
    if (index >= hooks_.script.size()) continue;
    results[i].token = hooks_.script[index];
    // They are of the token that the script has replaced.
    results[i].logprobs.reset();
  }
  return results;
}

}  // namespace kvasir

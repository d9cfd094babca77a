#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "server/config_option.h"
#include "server/config_values.h"

namespace kvasir {
#if KVASIR_TEST_HOOKS
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

absl::Status SetLoadDelay(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.test_hooks.load_delay,
                   ParseDuration(text));
  return absl::OkStatus();
}

absl::Status SetStepDelay(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.test_hooks.step_delay,
                   ParseDuration(text));
  return absl::OkStatus();
}

absl::Status SetScript(ConfigTarget target, const std::string& text) {
  for (const absl::string_view id : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(const int64_t value,
                     ParseCount({id.data(), id.size()}, 0, kMaxInt32));
    target.config.engine.test_hooks.script.push_back(
        static_cast<TokenId>(value));
  }
  return absl::OkStatus();
}

absl::Status SetSystemRoot(ConfigTarget target, const std::string& text) {
  target.config.sizing.system_root = text;
  return absl::OkStatus();
}

absl::Status SetFailingStep(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.test_hooks.first_failing_step,
                   ParseCount(text, 0, kMaxInt32));
  return absl::OkStatus();
}

absl::Status SetFailingSteps(ConfigTarget target, const std::string& text) {
  ASSIGN_OR_RETURN(target.config.engine.test_hooks.failing_steps,
                   ParseCount(text, 1, kMaxInt32));
  return absl::OkStatus();
}

const ConfigOption kOptions[] = {
    {"test.load_delay", "--test-load-delay", "TIME", "0",
     "Test hook: loading takes this much longer", SetLoadDelay},
    {"test.step_delay", "--test-step-delay", "TIME", "0",
     "Test hook: each step takes this much longer", SetStepDelay},
    {"test.script", "--test-script", "IDS", "",
     "Test hook: token ids, with commas, that are generated", SetScript},
    {"test.failing_step", "--test-failing-step", "NUMBER", "0",
     "Test hook: the step, from 1, that fails; 0: none", SetFailingStep},
    {"test.failing_steps", "--test-failing-steps", "COUNT", "1",
     "Test hook: how many fail from there on", SetFailingSteps},
    {"test.system_root", "--test-system-root", "FOLDER", "",
     "Test hook: where /proc and /sys are, for memory limits", SetSystemRoot},
};

}  // namespace

absl::Span<const ConfigOption> HookConfigOptions() { return kOptions; }

#else

absl::Span<const ConfigOption> HookConfigOptions() { return {}; }

#endif

}  // namespace kvasir

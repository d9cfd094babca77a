#ifndef KVASIR_ENGINE_TEST_HOOKS_H_
#define KVASIR_ENGINE_TEST_HOOKS_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"

#include "cache/base/strong_id.h"

namespace kvasir {

// Rare events that tests force on an engine. Part of EngineOptions only in
// builds with KVASIR_TEST_HOOKS. Plain value.
struct EngineTestHooks {
  // The k-th token that a sequence generates is script[k], if there is one,
  // instead of the sampled one.
  std::vector<TokenId> script = {};
  // Each step takes this much longer.
  absl::Duration step_delay = {};
  // This step, counting from 1, and the `failing_steps - 1` after it fail.
  int64_t first_failing_step = 0;  // 0: none
  int64_t failing_steps = 1;
  // Loading the model takes this much longer.
  absl::Duration load_delay = {};
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_TEST_HOOKS_H_

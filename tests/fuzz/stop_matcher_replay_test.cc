#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

#include "tests/fuzz/replay.h"
#include "tests/fuzz/stop_matcher_input.h"

namespace kvasir {
namespace {

TEST(StopMatcherReplay, KeptInputsEqualTheTwin) {
  size_t sent = 0;
  const int count =
      ReplayCorpus("stop_matcher", [&](const std::vector<uint8_t>& bytes) {
        sent += RunStopMatcherInput(bytes);
      });
  EXPECT_GE(count, 10);
  EXPECT_GT(sent, 0u);
}

}  // namespace
}  // namespace kvasir

#include <cstdint>
#include <map>
#include <vector>

#include "gtest/gtest.h"

#include "tests/fuzz/replay.h"
#include "tests/fuzz/request_input.h"

namespace kvasir {
namespace {

TEST(RequestReplay, KeptInputsBreakNoPromise) {
  std::map<absl::StatusCode, int> codes;
  const int count =
      ReplayCorpus("request", [&](const std::vector<uint8_t>& bytes) {
        ++codes[RunRequestInput(bytes).code()];
      });
  EXPECT_GE(count, 20);
  // Some come through, some do not.
  EXPECT_GT(codes[absl::StatusCode::kOk], 5);
  EXPECT_GT(codes[absl::StatusCode::kInvalidArgument], 5);
  EXPECT_GT(codes[absl::StatusCode::kUnimplemented], 0);
}

}  // namespace
}  // namespace kvasir

#ifndef KVASIR_TESTS_SUPPORT_WARMUP_TESTING_H_
#define KVASIR_TESTS_SUPPORT_WARMUP_TESTING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/loop_harness.h"
#include "tests/support/recording_warm.h"

namespace kvasir {

inline constexpr int64_t kBlock = 16;
inline constexpr int64_t kChunk = 32;

// A warm-up beside an engine that runs, a turn at a time.
class WarmupTest : public ::testing::Test {
 protected:
  explicit WarmupTest(int64_t blocks = 64)
      : engine_({.blocks = blocks,
                 .most_blocks = 256,
                 .limits = {.token_budget = 40, .prefill_chunk = kChunk}}) {}

  static WarmPrefix Prefix(uint64_t seed, int64_t length,
                           std::string salt = "") {
    return {.tokens = RandomPrompt(seed, length), .salt = std::move(salt)};
  }

  std::shared_ptr<RecordingWarm> Warm(std::vector<WarmPrefix> prefixes,
                                      int32_t parallelism = 1,
                                      VersionId version = {}) {
    auto sink = std::make_shared<RecordingWarm>();
    WarmOrder order;
    order.version = version.valid() ? engine_.versions().Share(version)
                                    : *engine_.directory().Resolve("", "");
    order.prefixes = std::move(prefixes);
    order.parallelism = parallelism;
    order.sink = sink;
    EXPECT_TRUE(CheckWarmOrder(order).ok());
    EXPECT_TRUE(engine_.inbox().Post(std::move(order)).ok());
    return sink;
  }

  void TurnUntilEnded(const RecordingWarm& warm) {
    for (int i = 0; i < 2000 && !warm.status.has_value(); ++i) engine_.Turn();
    ASSERT_TRUE(warm.status.has_value());
  }

  std::shared_ptr<RecordingSink> SubmitSalted(uint64_t seed, int64_t length,
                                              const std::string& salt) {
    Request request = engine_.MakeRequest(RandomPrompt(seed, length), 4);
    request.cache.salt = salt;
    return engine_.Submit(request);
  }

  void ExpectNothingLeft() {
    EXPECT_FALSE(engine_.Turn()) << "nothing is left to do";
    EXPECT_EQ(engine_.Blocks().pinned, 0);
    engine_.Flush();
    EXPECT_EQ(engine_.UsedBlocks(), 0) << "C4";
  }

  LoopHarness engine_;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_WARMUP_TESTING_H_

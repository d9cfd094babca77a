#include <cstdint>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "engine/engine_loop.h"
#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

// How many steps the sinks take until all have ended.
int64_t StepsUntilAllEnd(
    LoopHarness& engine,
    const std::vector<std::shared_ptr<RecordingSink>>& all) {
  const size_t before = engine.runner().steps().size();
  for (int turn = 0; turn < 10000; ++turn) {
    bool ended = true;
    for (const auto& sink : all) ended &= sink->finished.has_value();
    if (ended) break;
    engine.Turn();
  }
  return static_cast<int64_t>(engine.runner().steps().size() - before);
}

std::vector<std::shared_ptr<RecordingSink>> SubmitFeeders(LoopHarness& engine) {
  std::vector<std::shared_ptr<RecordingSink>> feeders;
  for (uint64_t i = 0; i < 12; ++i) {
    feeders.push_back(engine.Submit(RandomPrompt(100 + i, 300 + 60 * i), 1));
  }
  return feeders;
}

// FIELD_CASES SCHED-2, in steps instead of seconds: beside a queue of long
// prompts a stream gets a token in each step, so that no gap is longer than one
// step of the token budget, and the last of the prompts waits at most twice as
// long as it would without the stream.
TEST(PrefillFairness, AStreamFlowsBesideLongPromptsAndTheyBesideIt) {
  const LoopHarness::Options options{
      .blocks = 2000, .limits = {.token_budget = 128, .prefill_chunk = 128}};
  LoopHarness alone(options);
  const int64_t without = StepsUntilAllEnd(alone, SubmitFeeders(alone));

  LoopHarness engine(options);
  const auto stream = engine.Submit(RandomPrompt(1, 20), 2000);
  while (stream->ids.empty()) engine.Turn();
  const size_t begin = engine.runner().steps().size();
  const size_t tokens = stream->ids.size();
  const auto feeders = SubmitFeeders(engine);
  const int64_t with = StepsUntilAllEnd(engine, feeders);
  for (const auto& feeder : feeders) EXPECT_TRUE(feeder->ok());
  EXPECT_LE(with, 2 * without);
  EXPECT_EQ(stream->ids.size() - tokens, static_cast<size_t>(with))
      << "a token in each step";
  for (size_t i = begin; i < engine.runner().steps().size(); ++i) {
    int64_t rows = 0;
    for (const FakeRunner::Entry& entry : engine.runner().steps()[i]) {
      rows += entry.count;
    }
    EXPECT_LE(rows, 128) << "no step is longer than the budget";
  }
}

}  // namespace
}  // namespace kvasir

#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine_loop.h"
#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;

const SamplingParams kGreedy = {.temperature = 0};

class PriorityTest : public ::testing::Test {
 protected:
  std::shared_ptr<RecordingSink> Submit(LoopHarness& engine, int32_t priority,
                                        uint64_t seed, int64_t max_tokens) {
    Request request = engine.MakeRequest(RandomPrompt(seed, 20), max_tokens);
    request.priority = priority;
    sinks_.push_back(engine.Submit(std::move(request)));
    return sinks_.back();
  }

  // Turns until idle; which of the sinks ended, in that order.
  std::vector<size_t> OrderOfEnds(LoopHarness& engine) {
    std::vector<size_t> order;
    std::vector<bool> seen(sinks_.size(), false);
    for (bool more = true; more;) {
      more = engine.Turn();
      for (size_t i = 0; i < sinks_.size(); ++i) {
        if (seen[i] || !sinks_[i]->finished.has_value()) continue;
        seen[i] = true;
        order.push_back(i);
      }
    }
    return order;
  }

  std::vector<std::shared_ptr<RecordingSink>> sinks_;
};

TEST_F(PriorityTest, DecidesWhoIsNext) {
  LoopHarness engine({.limits = {.max_sequences = 1}});
  Submit(engine, 0, 1, 8);
  engine.Turn();
  Submit(engine, 5, 2, 3);
  Submit(engine, 0, 3, 3);
  Submit(engine, -7, 4, 3);
  Submit(engine, 0, 5, 3);
  EXPECT_THAT(OrderOfEnds(engine), ElementsAre(0, 3, 2, 4, 1));
}

// Memory is the other thing that there is too little of: the least important
// gives it back, though it came first, and says the same in the end.
TEST_F(PriorityTest, DecidesWhoLosesItsMemory) {
  LoopHarness engine({.blocks = 7});
  const auto low = Submit(engine, 1, 1, 60);
  engine.Turn();
  const auto high = Submit(engine, 0, 2, 60);
  EXPECT_THAT(OrderOfEnds(engine), ElementsAre(1, 0));
  EXPECT_EQ(high->finished->usage.preemption_count, 0);
  EXPECT_GT(low->finished->usage.preemption_count, 0);
  EXPECT_EQ(low->ids, FakeAnswer(RandomPrompt(1, 20), 60, kGreedy));
  EXPECT_EQ(high->ids, FakeAnswer(RandomPrompt(2, 20), 60, kGreedy));
}

// DESIGN §5: no request starves. So many may go past one, then it is its turn.
TEST_F(PriorityTest, NobodyStarves) {
  LoopHarness engine({.limits = {.max_sequences = 1}});
  Submit(engine, 0, 1, 2);
  engine.Turn();
  const auto low = Submit(engine, 9, 2, 2);
  int64_t went_past = 0;
  for (uint64_t seed = 3; !low->accepted.has_value(); ++seed) {
    ASSERT_LT(seed, 1000u);
    // There are always two that are more important.
    Submit(engine, 0, seed, 2);
    engine.Turn();
  }
  for (const auto& sink : sinks_) went_past += sink->accepted.has_value();
  EXPECT_LE(went_past, kMaxOvertaken + 2) << "itself and the first among them";
  EXPECT_GT(went_past, kMaxOvertaken / 4) << "priority means something";
  engine.RunUntilIdle();
}

// Nor does one that runs already while more important prompts take the whole
// budget of each step.
TEST_F(PriorityTest, APromptThatIsBeingComputedIsFinished) {
  LoopHarness engine(
      {.blocks = 500, .limits = {.token_budget = 16, .prefill_chunk = 16}});
  Request request = engine.MakeRequest(RandomPrompt(1, 64), 1);
  request.priority = 9;
  const auto low = engine.Submit(std::move(request));
  engine.Turn();
  int64_t turns = 0;
  for (uint64_t seed = 2; !low->finished.has_value(); ++seed) {
    ASSERT_LT(++turns, 20 * kMaxOvertaken) << "it starves";
    Submit(engine, 0, seed, 1);
    engine.Turn();
  }
  EXPECT_TRUE(low->ok());
  engine.RunUntilIdle();
}

}  // namespace
}  // namespace kvasir

#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "engine/engine_loop.h"
#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

// A client of several sequences that counts their ends alone.
class FullSink final : public TokenSink {
 public:
  bool Push(TokenEvent event) override {
    ends += std::holds_alternative<FinishedEvent>(event);
    return true;
  }
  bool Full() const override { return full; }

  bool full = false;
  int ends = 0;
};

const SamplingParams kGreedy = {.temperature = 0};

// FIELD_CASES SRV-2: what a slow client has not read is not computed on, and
// once it reads it gets what it would have got.
TEST(PausedReader, StandsStillAndGoesOnWithTheSameAnswer) {
  LoopHarness engine({});
  const std::vector<TokenId> prompt = RandomPrompt(1, 40);
  const auto slow = engine.Submit(prompt, 20);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(engine.Turn());
  const std::vector<TokenId> before = slow->ids;
  ASSERT_FALSE(before.empty());
  const int64_t held = engine.UsedBlocks();
  slow->full = true;
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(engine.Turn()) << "nothing to do";
  EXPECT_EQ(slow->ids, before);
  EXPECT_EQ(engine.UsedBlocks(), held);
  EXPECT_EQ(engine.Stats().requests_paused, 1);
  slow->full = false;
  engine.RunUntilIdle();
  EXPECT_EQ(slow->ids, FakeAnswer(prompt, 20, kGreedy));
  EXPECT_EQ(engine.Stats().requests_paused, 0);
}

// The others go on, and get theirs.
TEST(PausedReader, SlowsNobodyElse) {
  LoopHarness engine({});
  const auto slow = engine.Submit(RandomPrompt(1, 40), 20);
  ASSERT_TRUE(engine.Turn());
  slow->full = true;
  const std::vector<TokenId> prompt = RandomPrompt(2, 40);
  const auto quick = engine.Submit(prompt, 20);
  for (int i = 0; i < 25; ++i) engine.Turn();
  ASSERT_TRUE(quick->ok());
  EXPECT_EQ(quick->ids, FakeAnswer(prompt, 20, kGreedy));
  EXPECT_FALSE(slow->finished.has_value());
  slow->full = false;
  engine.RunUntilIdle();
  EXPECT_TRUE(slow->ok());
}

// A client that comes with the same prompt must not wait for one that stands
// still in the middle of it.
TEST(PausedReader, NobodyWaitsForItsPrefix) {
  LoopHarness engine({.limits = {.token_budget = 16, .prefill_chunk = 16}});
  const std::vector<TokenId> prompt = RandomPrompt(1, 100);
  const auto slow = engine.Submit(prompt, 4);
  ASSERT_TRUE(engine.Turn());
  slow->full = true;
  const auto quick = engine.Submit(prompt, 4);
  for (int i = 0; i < 20; ++i) engine.Turn();
  EXPECT_TRUE(quick->ok());
  slow->full = false;
  engine.RunUntilIdle();
  EXPECT_EQ(slow->ids, quick->ids);
}

// Memory is for those who read: the younger one loses it, and starts again when
// it is its turn.
TEST(PausedReader, LosesItsMemoryToAnOlderOne) {
  LoopHarness engine({.blocks = 6});
  const std::vector<TokenId> first = RandomPrompt(1, 20);
  const std::vector<TokenId> second = RandomPrompt(2, 20);
  const auto quick = engine.Submit(first, 60);
  const auto slow = engine.Submit(second, 40);
  for (int i = 0; i < 8; ++i) engine.Turn();
  slow->full = true;
  for (int i = 0; i < 80; ++i) engine.Turn();
  ASSERT_TRUE(quick->ok());
  EXPECT_EQ(quick->ids, FakeAnswer(first, 60, kGreedy));
  slow->full = false;
  engine.RunUntilIdle();
  EXPECT_EQ(slow->ids, FakeAnswer(second, 40, kGreedy));
  EXPECT_GT(slow->finished->usage.preemption_count, 0);
}

// Whoever waits gets its memory, and it goes on later with the same answer: one
// client that does not read must not stop the others.
TEST(PausedReader, GivesItsRoomToWhoeverWaits) {
  LoopHarness engine({.blocks = 5});
  const std::vector<TokenId> prompt = RandomPrompt(1, 40);
  const auto slow = engine.Submit(prompt, 20);
  for (int i = 0; i < 4; ++i) engine.Turn();
  slow->full = true;
  const auto waiting = engine.Submit(RandomPrompt(2, 40), 4);
  for (int i = 0; i < 8; ++i) engine.Turn();
  EXPECT_TRUE(waiting->ok());
  EXPECT_FALSE(slow->finished.has_value());
  EXPECT_EQ(engine.Stats().requests_waiting, 1);
  EXPECT_EQ(engine.Stats().requests_paused, 1);
  EXPECT_FALSE(engine.Turn()) << "nothing to do until it reads";
  EXPECT_TRUE(engine.Stats().waits_for_readers) << "which is no stall";
  slow->full = false;
  engine.Turn();
  EXPECT_FALSE(engine.Stats().waits_for_readers);
  engine.RunUntilIdle();
  EXPECT_EQ(slow->ids, FakeAnswer(prompt, 20, kGreedy));
}

// The same of its places among those that may run: n sequences that nobody
// reads hold up none.
TEST(PausedReader, GivesItsPlacesToWhoeverWaits) {
  LoopHarness engine({.limits = {.max_sequences = 4}});
  Request request = engine.MakeRequest(RandomPrompt(1, 40), 20);
  request.sequence_count = 9;
  const auto slow = std::make_shared<FullSink>();
  ASSERT_TRUE(engine.TrySubmit(std::move(request), slow).ok());
  for (int i = 0; i < 4; ++i) engine.Turn();
  slow->full = true;
  const auto quick = engine.Submit(RandomPrompt(2, 40), 4);
  for (int i = 0; i < 8; ++i) engine.Turn();
  EXPECT_TRUE(quick->ok());
  slow->full = false;
  engine.RunUntilIdle();
  EXPECT_EQ(slow->ends, 9);
  engine.Flush();
  EXPECT_EQ(engine.UsedBlocks(), 0);
}

// The engine sleeps, and yet sees that its time is over, also once it was set
// aside.
TEST(PausedReader, EndsAtItsDeadline) {
  for (const bool somebody_waits : {false, true}) {
    LoopHarness engine({.blocks = 5});
    Request request = engine.MakeRequest(RandomPrompt(1, 40), 20);
    request.deadline = engine.clock().Now() + absl::Seconds(1);
    const auto slow = engine.Submit(request);
    ASSERT_TRUE(engine.Turn());
    slow->full = true;
    if (somebody_waits) engine.Submit(RandomPrompt(2, 40), 4);
    for (int i = 0; i < 8; ++i) engine.Turn();
    EXPECT_FALSE(engine.Turn());
    EXPECT_FALSE(slow->finished.has_value());
    engine.clock().Advance(absl::Seconds(2));
    engine.RunUntilIdle();
    EXPECT_EQ(slow->code(), absl::StatusCode::kDeadlineExceeded);
    engine.Flush();
    EXPECT_EQ(engine.UsedBlocks(), 0);
  }
}

// A request with several sequences has one reader; whoever compares the counts
// must not take it for an engine that hangs.
TEST(PausedReader, IsCountedAsOneRequest) {
  LoopHarness engine({});
  Request request = engine.MakeRequest(RandomPrompt(1, 40), 20);
  request.sequence_count = 3;
  const auto slow = std::make_shared<FullSink>();
  ASSERT_TRUE(engine.TrySubmit(std::move(request), slow).ok());
  for (int i = 0; i < 4; ++i) engine.Turn();
  slow->full = true;
  EXPECT_FALSE(engine.Turn());
  EXPECT_EQ(engine.Stats().requests_running, 1);
  EXPECT_EQ(engine.Stats().requests_paused, 1);
  slow->full = false;
  engine.RunUntilIdle();
  EXPECT_EQ(slow->ends, 3);
}

}  // namespace
}  // namespace kvasir

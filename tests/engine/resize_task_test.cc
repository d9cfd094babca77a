// Resize of the cache under an engine that runs (contract C6, STYLE §9).

#include "engine/resize_task.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr ResizeStrategy kStrategies[] = {
    ResizeStrategy::kWait, ResizeStrategy::kEvict, ResizeStrategy::kPreempt};

class RecordingResize final : public ResizeSink {
 public:
  bool OnProgress(const ResizeReport& report) override {
    EXPECT_FALSE(status.has_value());
    last = report;
    ++slices;
    return slices != call_off_after;
  }
  void OnEnd(const absl::Status& end, const ResizeReport& report) override {
    EXPECT_FALSE(status.has_value()) << "told twice";
    status = end;
    last = report;
  }
  bool ok() const { return status.has_value() && status->ok(); }

  std::optional<absl::Status> status;
  ResizeReport last;
  int slices = 0;
  int call_off_after = -1;
};

class ResizeTaskTest : public ::testing::Test {
 protected:
  explicit ResizeTaskTest(int64_t blocks = 64)
      : engine_({.blocks = blocks,
                 .most_blocks = 256,
                 .limits = {.token_budget = 32}}) {}

  std::shared_ptr<RecordingResize> Resize(
      int64_t blocks, ResizeStrategy strategy = ResizeStrategy::kEvict,
      bool dry_run = false) {
    auto sink = std::make_shared<RecordingResize>();
    const absl::Status posted =
        engine_.inbox().Post(ResizeOrder{blocks, strategy, dry_run, sink});
    EXPECT_TRUE(posted.ok()) << posted;
    return sink;
  }

  void TurnUntilDone(const RecordingResize& resize) {
    for (int i = 0; i < 1000 && !resize.status.has_value(); ++i) engine_.Turn();
    ASSERT_TRUE(resize.status.has_value());
  }

  int64_t TotalBlocks() const { return engine_.Blocks().total(); }

  LoopHarness engine_;
};

TEST_F(ResizeTaskTest, AnIdleCacheTakesAnySize) {
  for (const int64_t blocks : {10, 256, 1, 64}) {
    const auto resize = Resize(blocks);
    TurnUntilDone(*resize);
    EXPECT_TRUE(resize->ok()) << *resize->status;
    EXPECT_EQ(TotalBlocks(), blocks);
    EXPECT_EQ(engine_.limits().cache_tokens, blocks * 16);
    EXPECT_FALSE(engine_.Turn()) << "nothing is left to do";
  }
  const auto resize = Resize(257);
  TurnUntilDone(*resize);
  EXPECT_EQ(resize->status->code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(TotalBlocks(), 64);
}

// CTX-2, MEM-2: advertised, admitted and kept is one number at every moment.
TEST_F(ResizeTaskTest, RequestsAreCheckedAgainstTheSizeThatIsComing) {
  const auto running = engine_.Submit(RandomPrompt(1, 700), 100);
  engine_.Turn();
  const auto resize = Resize(20, ResizeStrategy::kWait);
  engine_.Turn();
  EXPECT_EQ(TotalBlocks(), 64) << "the running request needs 50";
  EXPECT_EQ(engine_.limits().EffectiveContext(), 320) << "but no new one may";
  const absl::Status refused =
      engine_.TrySubmit(engine_.MakeRequest(RandomPrompt(2, 330), 1),
                        std::make_shared<RecordingSink>());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("320"));
  const auto fits = engine_.Submit(RandomPrompt(3, 300), 40);
  engine_.RunUntilIdle();
  TurnUntilDone(*resize);
  EXPECT_TRUE(resize->ok());
  EXPECT_TRUE(running->ok()) << "C6";
  EXPECT_EQ(running->ids,
            FakeAnswer(RandomPrompt(1, 700), 100, {.temperature = 0}));
  EXPECT_TRUE(fits->ok());
  EXPECT_EQ(fits->ids.size(), 20u) << "its context ends at 320";

  const auto grown = Resize(100);
  TurnUntilDone(*grown);
  EXPECT_EQ(engine_.limits().EffectiveContext(), 1600);
  const auto large = engine_.Submit(RandomPrompt(4, 1500), 10);
  engine_.RunUntilIdle();
  EXPECT_TRUE(large->ok());
}

TEST_F(ResizeTaskTest, NoStrategyFailsOrChangesARequestThatFits) {
  for (const ResizeStrategy strategy : kStrategies) {
    SCOPED_TRACE(static_cast<int>(strategy));
    LoopHarness fresh({.blocks = 64, .most_blocks = 256});
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (uint64_t i = 0; i < 4; ++i) {
      sinks.push_back(fresh.Submit(RandomPrompt(i, 150), 40));
    }
    for (int i = 0; i < 10; ++i) fresh.Turn();
    const auto resize = std::make_shared<RecordingResize>();
    ASSERT_TRUE(
        fresh.inbox().Post(ResizeOrder{16, strategy, false, resize}).ok());
    int64_t turns = 0;
    while (!resize->status.has_value() && turns++ < 1000) fresh.Turn();
    EXPECT_TRUE(resize->ok());
    EXPECT_EQ(resize->last.preempted_count > 0,
              strategy == ResizeStrategy::kPreempt);
    EXPECT_EQ(fresh.Blocks().total(), 16);
    fresh.RunUntilIdle();
    for (uint64_t i = 0; i < 4; ++i) {
      EXPECT_TRUE(sinks[i]->ok()) << i;
      EXPECT_EQ(sinks[i]->ids,
                FakeAnswer(RandomPrompt(i, 150), 40, {.temperature = 0}));
    }
    fresh.Flush();
    EXPECT_EQ(fresh.UsedBlocks(), 0);
  }
}

// Preempting gives the memory back although a request would run for long;
// waiting does not disturb it.
TEST_F(ResizeTaskTest, StrategiesDifferInWhatTheyWaitFor) {
  const auto endless = engine_.Submit(RandomPrompt(1, 400), 500);
  for (int i = 0; i < 20; ++i) engine_.Turn();
  { const auto other = engine_.Submit(RandomPrompt(9, 200), 1); }
  for (int i = 0; i < 10; ++i) engine_.Turn();
  const int64_t cached = engine_.Blocks().cached;
  ASSERT_GT(cached, 10);

  auto resize = Resize(20, ResizeStrategy::kWait);
  for (int i = 0; i < 20; ++i) engine_.Turn();
  EXPECT_FALSE(resize->status.has_value());
  EXPECT_EQ(engine_.Blocks().cached, cached) << "nothing is given up yet";
  EXPECT_GT(resize->last.waiting_blocks, 0);
  resize->call_off_after = resize->slices + 1;
  engine_.Turn();
  EXPECT_EQ(resize->status->code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine_.limits().cache_tokens, 64 * 16);

  resize = Resize(20, ResizeStrategy::kEvict);
  for (int i = 0; i < 20; ++i) engine_.Turn();
  EXPECT_FALSE(resize->status.has_value());
  EXPECT_LE(engine_.Blocks().cached, 3) << "but for the room of a step";
  EXPECT_LT(TotalBlocks(), 64) << "and its memory";
  EXPECT_EQ(engine_.Stats().preemptions, 0);
  resize->call_off_after = resize->slices + 1;
  engine_.Turn();

  resize = Resize(20, ResizeStrategy::kPreempt);
  TurnUntilDone(*resize);
  EXPECT_TRUE(resize->ok());
  EXPECT_EQ(TotalBlocks(), 20);
  EXPECT_EQ(resize->last.preempted_count, 1);
  engine_.RunUntilIdle();
  EXPECT_EQ(endless->code(), absl::StatusCode::kResourceExhausted)
      << "900 tokens can never fit any more";
}

TEST_F(ResizeTaskTest, ADryRunTellsAndChangesNothing) {
  const auto first = engine_.Submit(RandomPrompt(1, 200), 100);
  const auto second = engine_.Submit(RandomPrompt(2, 200), 100);
  const auto done = engine_.Submit(RandomPrompt(3, 160), 1);
  for (int i = 0; i < 40; ++i) engine_.Turn();
  const BlockCounts before = engine_.Blocks();
  const TierSnapshot tier = engine_.cache().Snapshot().tiers.at(0);
  // Tails may lie apart, but need not.
  const int64_t held = tier.bytes.tokens + tier.bytes.fragmentation;
  const int64_t pinned =
      (held + tier.block_bytes - 1) / tier.block_bytes - before.cached;
  EXPECT_LE(pinned, before.pinned);
  const auto resize = Resize(20, ResizeStrategy::kPreempt, true);
  engine_.Turn();
  EXPECT_TRUE(resize->ok());
  EXPECT_EQ(resize->last.waiting_blocks, pinned - 20);
  EXPECT_EQ(resize->last.evicted_blocks, before.cached);
  EXPECT_EQ(resize->last.preempted_count, 1);
  EXPECT_EQ(resize->last.block_count, 64);
  EXPECT_EQ(TotalBlocks(), 64);
  EXPECT_EQ(engine_.limits().cache_tokens, 64 * 16);
}

// Somebody decides by it whether requests are going to suffer.
TEST_F(ResizeTaskTest, ADryRunCountsOnNothingThatIsPinned) {
  const auto done = engine_.Submit(RandomPrompt(1, 30 * 16), 1);
  engine_.RunUntilIdle();
  const auto found = engine_.cache().FindPrefix(
      {.version = VersionId(0), .tokens = RandomPrompt(1, 30 * 16)});
  ASSERT_TRUE(
      engine_.cache().PinPrefix(found->key, absl::InfiniteDuration()).ok());
  const auto running = engine_.Submit(RandomPrompt(2, 10 * 16), 32);
  while (engine_.Blocks().pinned < 10) ASSERT_TRUE(engine_.Turn());
  const auto resize = Resize(35, ResizeStrategy::kPreempt, true);
  engine_.Turn();
  ASSERT_TRUE(resize->ok());
  EXPECT_GE(resize->last.waiting_blocks, 5);
  EXPECT_EQ(resize->last.evicted_blocks, 0);
  EXPECT_EQ(resize->last.preempted_count, 1);
  engine_.RunUntilIdle();
  EXPECT_TRUE(running->ok());
}

// Whoever is told that the size is reached must find it wherever it looks.
TEST_F(ResizeTaskTest, NumbersArePublishedBeforeTheEndIsTold) {
  class Asking final : public ResizeSink {
   public:
    explicit Asking(LoopHarness* engine) : engine_(engine) {}
    bool OnProgress(const ResizeReport& report) override { return true; }
    void OnEnd(const absl::Status& status,
               const ResizeReport& report) override {
      tokens = engine_->limits().cache_tokens;
      blocks = engine_->published().cache.tiers.at(0).blocks.total();
    }
    int64_t tokens = 0;
    int64_t blocks = 0;

   private:
    LoopHarness* engine_;
  };
  for (const int64_t target : {20, 100}) {
    const auto sink = std::make_shared<Asking>(&engine_);
    ASSERT_TRUE(
        engine_.inbox()
            .Post(ResizeOrder{target, ResizeStrategy::kEvict, false, sink})
            .ok());
    for (int i = 0; i < 100; ++i) engine_.Turn();
    EXPECT_EQ(sink->blocks, target);
    EXPECT_EQ(sink->tokens, target * 16);
  }
}

TEST_F(ResizeTaskTest, OneAtATimeAndNeverForgotten) {
  const auto running = engine_.Submit(RandomPrompt(1, 700), 100);
  engine_.Turn();
  const auto resize = Resize(20, ResizeStrategy::kWait);
  engine_.Turn();
  const auto second = Resize(30);
  engine_.Turn();
  EXPECT_EQ(second->status->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second->status->message()), HasSubstr("20 blocks"));
  EXPECT_FALSE(resize->status.has_value());
  engine_.inbox().Stop();
  engine_.loop().Run();
  EXPECT_EQ(resize->status->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(running->code(), absl::StatusCode::kUnavailable);
}

// Who resizes on its own account has looked at the cache a moment ago: what an
// operator has done since must stand.
TEST_F(ResizeTaskTest, AnOrderForASizeIsVoidForAnother) {
  const auto stale = std::make_shared<RecordingResize>();
  ResizeOrder order{.target_blocks = 32, .sink = stale};
  order.from_blocks = 63;
  ASSERT_TRUE(engine_.inbox().Post(order).ok());
  TurnUntilDone(*stale);
  EXPECT_EQ(stale->status->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(stale->status->message()),
              ::testing::AllOf(HasSubstr("63"), HasSubstr("64")));
  EXPECT_EQ(TotalBlocks(), 64);
  const auto fresh = std::make_shared<RecordingResize>();
  order.from_blocks = 64;
  order.sink = fresh;
  ASSERT_TRUE(engine_.inbox().Post(order).ok());
  TurnUntilDone(*fresh);
  EXPECT_TRUE(fresh->ok());
  EXPECT_EQ(TotalBlocks(), 32);
}

// Weights that were refused in the end had cost the cache what it held.
TEST_F(ResizeTaskTest, AllOrNothingEvictsNothingForASizeOutOfReach) {
  engine_.Submit(RandomPrompt(1, 20 * 16), 1);
  engine_.RunUntilIdle();
  const auto running = engine_.Submit(RandomPrompt(2, 10 * 16), 320);
  for (int turn = 0; turn < 20; ++turn) engine_.Turn();
  const auto resize = [this](int64_t blocks) {
    auto sink = std::make_shared<RecordingResize>();
    ResizeOrder order{.target_blocks = blocks, .sink = sink};
    order.all_or_nothing = true;
    EXPECT_TRUE(engine_.inbox().Post(std::move(order)).ok());
    TurnUntilDone(*sink);
    return sink;
  };
  const int64_t cached = engine_.Blocks().cached;
  ASSERT_GE(cached, 20);
  const auto beneath = resize(8);
  EXPECT_EQ(beneath->status->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(beneath->status->message()),
              ::testing::AllOf(HasSubstr("wanted 8 blocks, found 64"),
                               HasSubstr("are needed now")));
  // What it holds would fit, what it may come to would not.
  const auto close = resize(25);
  EXPECT_EQ(close->status->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(TotalBlocks(), 64);
  EXPECT_EQ(engine_.Blocks().cached, cached);
  EXPECT_TRUE(resize(31)->ok());
  EXPECT_EQ(TotalBlocks(), 31);
  engine_.RunUntilIdle();
  EXPECT_TRUE(running->ok());
}

// A pinned system prompt in use is one run of blocks, not two.
TEST_F(ResizeTaskTest, PinnedPrefixesInUseAreCountedOnce) {
  const auto shared = RandomPrompt(3, 20 * 16);
  engine_.Submit(shared, 1);
  engine_.RunUntilIdle();
  const auto version = *engine_.directory().Resolve("", "");
  const auto found =
      engine_.cache().FindPrefix({.version = version->id(), .tokens = shared});
  ASSERT_TRUE(found.ok());
  ASSERT_TRUE(
      engine_.cache().PinPrefix(found->key, absl::InfiniteDuration()).ok());
  auto prompt = shared;
  for (const TokenId id : RandomPrompt(4, 30)) prompt.push_back(id);
  const auto running = engine_.Submit(prompt, 60);
  for (int turn = 0; turn < 5; ++turn) engine_.Turn();
  const auto resize = Resize(32, ResizeStrategy::kPreempt);
  TurnUntilDone(*resize);
  EXPECT_TRUE(resize->ok()) << *resize->status;
  EXPECT_EQ(resize->last.preempted_count, 0);
  engine_.RunUntilIdle();
  EXPECT_TRUE(running->ok());
  EXPECT_EQ(engine_.Stats().preemptions, 0);
}

TEST_F(ResizeTaskTest, AnOperatorTakesThePlaceOfWhatResizesByItself) {
  const auto running = engine_.Submit(RandomPrompt(1, 700), 100);
  engine_.Turn();
  const auto automatic = std::make_shared<RecordingResize>();
  ResizeOrder order{.target_blocks = 20, .sink = automatic};
  order.from_blocks = 64;
  ASSERT_TRUE(engine_.inbox().Post(order).ok());
  engine_.Turn();
  EXPECT_TRUE(automatic->last.waits);
  const auto look = Resize(10, ResizeStrategy::kEvict, true);
  engine_.Turn();
  EXPECT_EQ(look->status->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(automatic->status.has_value()) << "to look does not take over";
  const auto operators = Resize(100);
  TurnUntilDone(*operators);
  EXPECT_TRUE(operators->ok()) << *operators->status;
  EXPECT_EQ(automatic->status->code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(TotalBlocks(), 100);
  order.sink = std::make_shared<RecordingResize>();
  order.from_blocks = 100;
  const auto long_one = Resize(20, ResizeStrategy::kWait);
  ASSERT_TRUE(engine_.inbox().Post(order).ok());
  engine_.Turn();
  EXPECT_FALSE(long_one->status.has_value()) << "but not the other way round";
  engine_.RunUntilIdle();
  EXPECT_TRUE(running->ok());
  TurnUntilDone(*long_one);
  EXPECT_TRUE(long_one->ok());
}

// Up and down, at any moment of many requests' lives: answers are those of a
// cold run alone, nobody fails, nothing leaks.
TEST(ResizeSoakTest, RandomSizesUnderRandomLoad) {
  const uint32_t first_seed = std::random_device()();
  for (uint32_t seed = first_seed; seed < first_seed + 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const auto pick = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    LoopHarness engine({.blocks = 40,
                        .most_blocks = 80,
                        .limits = {.token_budget = 64, .prefill_chunk = 32}});
    struct Call {
      std::vector<TokenId> prompt;
      int64_t count;
      std::shared_ptr<RecordingSink> sink;
    };
    std::vector<Call> calls;
    std::shared_ptr<RecordingResize> resize;
    int64_t resizes = 0;
    for (int turn = 0; turn < 1500; ++turn) {
      if (pick(0, 9) == 0) {
        std::vector<TokenId> prompt = RandomPrompt(pick(0, 3), pick(40, 120));
        const std::vector<TokenId> tail = RandomPrompt(pick(0, 1000), 20);
        std::copy(tail.begin(), tail.end(), prompt.end() - 20);
        const int64_t count = pick(1, 60);
        calls.push_back({prompt, count, engine.Submit(prompt, count)});
      }
      if ((resize == nullptr || resize->status.has_value()) &&
          pick(0, 19) == 0) {
        resize = std::make_shared<RecordingResize>();
        if (pick(0, 3) == 0) resize->call_off_after = pick(1, 5);
        // 180 tokens of the largest call fit in 12 blocks.
        ASSERT_TRUE(engine.inbox()
                        .Post(ResizeOrder{pick(12, 80), kStrategies[pick(0, 2)],
                                          false, resize})
                        .ok());
        ++resizes;
      }
      engine.Turn();
    }
    engine.RunUntilIdle();
    for (int i = 0; i < 100; ++i) engine.Turn();
    EXPECT_TRUE(resize == nullptr || resize->status.has_value());
    EXPECT_GT(resizes, 5);
    for (const Call& call : calls) {
      ASSERT_TRUE(call.sink->ok()) << call.sink->finished->status;
      ASSERT_EQ(call.sink->ids,
                FakeAnswer(call.prompt, call.count, {.temperature = 0}));
    }
    engine.Flush();
    EXPECT_EQ(engine.UsedBlocks(), 0);
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace kvasir

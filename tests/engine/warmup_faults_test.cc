// A warm-up that fails, in an engine that breaks or ends: what it may cost
// requests, which is nothing.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/warmup.h"
#include "tests/support/warmup_testing.h"

namespace kvasir {
namespace {

using ::testing::HasSubstr;

// Steps that contain one of these tokens fail; no prompt of the tests has it.
constexpr TokenId kPoison = 1;

bool Poisoned(absl::Span<const StepRows> step) {
  for (const StepRows& rows : step) {
    if (absl::c_linear_search(rows.tokens, kPoison)) return true;
  }
  return false;
}

// An operator's prompts must not take the service down, nor cost a request its
// answer: the step that they fail is given again without them.
TEST_F(WarmupTest, PoisonousPrefixesHarmNoRequest) {
  engine_.runner().FailSteps(Poisoned);
  std::vector<WarmPrefix> poison;
  for (uint64_t i = 0; i < 3 * kMaxFailedSteps; ++i) {
    poison.push_back(Prefix(i, 64));
    poison.back().tokens[20] = kPoison;
  }
  const auto request = engine_.Submit(RandomPrompt(100, 20), 60);
  engine_.Turn();
  const auto beside = Warm(poison);
  TurnUntilEnded(*beside);
  EXPECT_FALSE(request->finished.has_value()) << "both were there";
  engine_.RunUntilIdle();
  EXPECT_EQ(request->ids,
            FakeAnswer(RandomPrompt(100, 20), 60, {.temperature = 0}));
  const auto alone = Warm(poison);
  TurnUntilEnded(*alone);
  for (const auto& warm : {beside, alone}) {
    EXPECT_EQ(warm->code(), absl::StatusCode::kInternal);
    for (const WarmedPrefix& prefix : warm->prefixes) {
      EXPECT_EQ(prefix.status.code(), absl::StatusCode::kInternal);
    }
  }
  EXPECT_TRUE(engine_.Stats().healthy);
  EXPECT_EQ(engine_.Stats().failed, 0);
  const auto warm = Warm({Prefix(1, 96)});
  TurnUntilEnded(*warm);
  EXPECT_TRUE(warm->ok());
  ExpectNothingLeft();
}

// One of sixty-four prompts cost all the others their place.
TEST_F(WarmupTest, OnlyAPrefixThatFailsAloneIsGivenUp) {
  engine_.runner().FailSteps(Poisoned);
  std::vector<WarmPrefix> prefixes;
  for (uint64_t i = 0; i < 8; ++i) prefixes.push_back(Prefix(i, kBlock));
  prefixes[1].tokens[5] = kPoison;
  prefixes[6].tokens[15] = kPoison;
  const auto warm = Warm(prefixes, kMaxWarmParallelism);
  TurnUntilEnded(*warm);
  EXPECT_EQ(warm->code(), absl::StatusCode::kInternal);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    EXPECT_EQ(warm->prefixes[i].status.ok(), i != 1 && i != 6) << i;
    EXPECT_EQ(warm->prefixes[i].resident_tokens, i != 1 && i != 6 ? kBlock : 0);
  }
  bool shared = false;
  for (const auto& step : engine_.runner().steps()) shared |= step.size() > 1;
  EXPECT_TRUE(shared) << "those that never failed go on together";
  EXPECT_TRUE(engine_.Stats().healthy);
  ExpectNothingLeft();
}

// Steps of another version lay between, so that a broken one burnt all prompts
// before the requests that would have told so got a step without them.
TEST_F(WarmupTest, ABrokenVersionTakesItsRequestsBeforeTheOrder) {
  engine_.AddVersion("tiny@1", 1, /*activate=*/false);
  const auto version = *engine_.directory().Resolve("", "tiny@1");
  const auto other = engine_.Submit(RandomPrompt(1, 20), 600);
  Request request = engine_.MakeRequest(RandomPrompt(2, 20), 600);
  request.version = version;
  const auto broken = engine_.Submit(std::move(request));
  for (int turn = 0; turn < 6; ++turn) engine_.Turn();
  engine_.runner(1).FailSteps([](absl::Span<const StepRows>) { return true; });
  std::vector<WarmPrefix> prefixes;
  for (uint64_t i = 0; i < 10; ++i) prefixes.push_back(Prefix(i, kChunk));
  const auto warm = Warm(prefixes, 1, version->id());
  for (int turn = 0; turn < 100 && !broken->finished.has_value(); ++turn) {
    engine_.Turn();
  }
  EXPECT_EQ(broken->code(), absl::StatusCode::kInternal);
  EXPECT_LE(warm->last.done_count, 2);
  EXPECT_FALSE(other->finished.has_value());
  engine_.runner(1).FailSteps(nullptr);
  TurnUntilEnded(*warm);
  engine_.RunUntilIdle();
  EXPECT_TRUE(other->ok());
}

// A daemon that holds its readiness for a warm-up has no requests that would
// notice.
TEST_F(WarmupTest, ABrokenEngineIsNoticedByAWarmUpAlone) {
  engine_.runner().FailSteps([](absl::Span<const StepRows>) { return true; });
  std::vector<WarmPrefix> prefixes;
  for (uint64_t i = 0; i < kMaxFailedSteps - 1; ++i) {
    prefixes.push_back(Prefix(i, 64));
  }
  const auto few = Warm(prefixes);
  TurnUntilEnded(*few);
  EXPECT_TRUE(engine_.Stats().healthy) << "a hiccup";
  const auto last = Warm({Prefix(9, 64), Prefix(10, 64)});
  TurnUntilEnded(*last);
  EXPECT_FALSE(engine_.Stats().healthy);
  EXPECT_EQ(last->prefixes[1].status.code(), absl::StatusCode::kUnavailable);
}

// Nor may a warm-up hide it from those that do.
TEST_F(WarmupTest, ABrokenEngineIsNoticedBesideAWarmUp) {
  std::vector<std::shared_ptr<RecordingSink>> requests;
  for (uint64_t i = 0; i < kMaxFailedSteps; ++i) {
    requests.push_back(engine_.Submit(RandomPrompt(i, 20), 600));
    engine_.Turn();
  }
  const auto warm = Warm({Prefix(20, 640), Prefix(21, 640)});
  engine_.Turn();
  engine_.runner().FailSteps([](absl::Span<const StepRows>) { return true; });
  for (int i = 0; i < 50 && engine_.Stats().healthy; ++i) {
    // A client tries again.
    engine_.Submit(RandomPrompt(30, 20), 3);
    engine_.Turn();
  }
  EXPECT_FALSE(engine_.Stats().healthy);
  for (const auto& request : requests) {
    EXPECT_EQ(request->code(), absl::StatusCode::kInternal);
  }
  EXPECT_TRUE(warm->status.has_value());
}

// C10: who stops the daemon does not wait for what nobody will ask for.
TEST_F(WarmupTest, ADrainCallsOffAllOrdersAndNoRequest) {
  std::vector<std::shared_ptr<RecordingWarm>> orders;
  for (uint64_t i = 0; i < 3; ++i) orders.push_back(Warm({Prefix(i, 200)}));
  const auto request = engine_.Submit(RandomPrompt(9, 20), 30);
  engine_.Turn();
  orders.push_back(Warm({Prefix(7, 200)}));
  engine_.inbox().Close(absl::UnavailableError("draining"));
  EXPECT_TRUE(engine_.inbox().WaitForMail(absl::ZeroDuration()))
      << "an engine that sleeps has to hear of it";
  engine_.Turn();
  for (const auto& order : orders) {
    EXPECT_EQ(order->code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(order->status->message(), "draining");
  }
  WarmOrder late;
  late.version = *engine_.directory().Resolve("", "");
  late.prefixes = {Prefix(1, 64)};
  late.sink = std::make_shared<RecordingWarm>();
  EXPECT_EQ(engine_.inbox().Post(std::move(late)).message(), "draining");
  engine_.RunUntilIdle();
  EXPECT_EQ(request->ids,
            FakeAnswer(RandomPrompt(9, 20), 30, {.temperature = 0}));
  ExpectNothingLeft();
}

// A stalled step must not let orders pile up before it.
TEST_F(WarmupTest, OrdersThatTheEngineHasNotSeenAreBounded) {
  for (size_t i = 0; i < kMaxWarmOrders; ++i) Warm({Prefix(i, 64)});
  WarmOrder order;
  order.sink = std::make_shared<RecordingWarm>();
  const absl::Status full = engine_.inbox().Post(std::move(order));
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("warm orders: 8 wait"));
}

}  // namespace
}  // namespace kvasir

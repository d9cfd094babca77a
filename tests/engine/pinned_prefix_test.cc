// Requests that begin with a pinned prefix, in a cache that it fills for the
// most part. Operators pin long system prompts for exactly those requests.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/loop_harness.h"
#include "tests/support/recording_warm.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBlock = 16;
constexpr int64_t kBlocks = 64;
constexpr int64_t kPinned = 40;  // blocks of the pinned prefix

class PinnedPrefixTest : public ::testing::Test {
 protected:
  PinnedPrefixTest() : engine_({.blocks = kBlocks, .block_tokens = kBlock}) {
    EXPECT_TRUE(Run(prefix_, 1)->ok());
    const auto found = engine_.cache().FindPrefix(
        {.version = engine_.versions().ActiveVersion("tiny"),
         .tokens = prefix_});
    EXPECT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(
        engine_.cache().PinPrefix(found->key, absl::InfiniteDuration()).ok());
    engine_.Turn();
  }

  std::shared_ptr<RecordingSink> Run(const std::vector<TokenId>& prompt,
                                     int64_t max_tokens) {
    auto sink = engine_.Submit(prompt, max_tokens);
    engine_.RunUntilIdle();
    return sink;
  }

  // The first `shared` blocks of the prefix and then others.
  std::vector<TokenId> Prompt(int64_t shared, int64_t tokens) const {
    std::vector<TokenId> prompt = RandomPrompt(99, tokens);
    std::copy_n(prefix_.begin(), shared * kBlock, prompt.begin());
    return prompt;
  }

  LoopHarness engine_;
  const std::vector<TokenId> prefix_ = RandomPrompt(1, kPinned* kBlock);
};

TEST_F(PinnedPrefixTest, OthersAreToldWhatItLeaves) {
  EXPECT_EQ(engine_.limits().EffectiveContext(), (kBlocks - kPinned) * kBlock);
  EXPECT_EQ(engine_.limits().LongestContext(), kBlocks * kBlock);
}

TEST_F(PinnedPrefixTest, WhoBeginsWithItHasTheWholeCache) {
  const std::vector<TokenId> prompt = Prompt(kPinned, kPinned * kBlock + 5);
  const auto sink = Run(prompt, 0);
  ASSERT_TRUE(sink->ok()) << sink->finished->status;
  EXPECT_EQ(sink->finished->reason, FinishReason::kContextFull);
  EXPECT_EQ(sink->finished->usage.cached_tokens, kPinned * kBlock);
  const int64_t length = kBlocks * kBlock - std::ssize(prompt);
  EXPECT_EQ(sink->ids, FakeAnswer(prompt, length, {.temperature = 0}));
}

TEST_F(PinnedPrefixTest, APartOfItCountsForItself) {
  constexpr int64_t kShared = 20;
  const std::vector<TokenId> prompt = Prompt(kShared, 30 * kBlock);
  const auto sink = Run(prompt, 0);
  ASSERT_TRUE(sink->ok()) << sink->finished->status;
  EXPECT_EQ(sink->finished->usage.prompt_tokens +
                sink->finished->usage.completion_tokens,
            (kBlocks - kPinned + kShared) * kBlock);
}

TEST_F(PinnedPrefixTest, WhoDoesNotIsRefusedAtOnceAndHoldsNobodyUp) {
  const auto running =
      engine_.Submit(Prompt(kPinned, kPinned * kBlock + 5), 50);
  engine_.Turn();
  const auto refused = engine_.Submit(Prompt(0, 30 * kBlock), 1);
  const auto next = engine_.Submit(Prompt(0, kBlock), 1);
  engine_.Turn();
  ASSERT_TRUE(refused->finished.has_value());
  const absl::Status& status = refused->finished->status;
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("383"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("found 480"));
  EXPECT_EQ(engine_.inbox().rejections().never_fits, 1);
  EXPECT_FALSE(running->finished.has_value());
  engine_.RunUntilIdle();
  EXPECT_TRUE(running->ok());
  EXPECT_TRUE(next->ok());
}

// A list of prompts is warmed again at every start and after every rollout.
TEST_F(PinnedPrefixTest, ItsContinuationsCanBeWarmed) {
  const auto warm = std::make_shared<RecordingWarm>();
  WarmOrder order;
  order.version = *engine_.directory().Resolve("", "");
  order.prefixes = {{.tokens = Prompt(kPinned, 50 * kBlock)},
                    {.tokens = Prompt(0, 30 * kBlock)}};
  order.sink = warm;
  ASSERT_TRUE(engine_.inbox().Post(std::move(order)).ok());
  for (int i = 0; i < 100 && !warm->status.has_value(); ++i) engine_.Turn();
  ASSERT_EQ(warm->prefixes.size(), 2u);
  EXPECT_TRUE(warm->prefixes[0].status.ok()) << warm->prefixes[0].status;
  EXPECT_EQ(warm->prefixes[0].resident_tokens, 50 * kBlock);
  EXPECT_TRUE(absl::IsResourceExhausted(warm->prefixes[1].status));
}

// Its stream has begun: a pin must not take the room that it comes back to.
TEST_F(PinnedPrefixTest, APinLeavesRoomForWhoIsPreempted) {
  ASSERT_TRUE(engine_.cache().Flush().freed_blocks > 0);
  engine_.Turn();
  EXPECT_EQ(engine_.limits().EffectiveContext(), kBlocks * kBlock);
  const std::vector<TokenId> first = RandomPrompt(5, 20 * kBlock);
  const auto old = engine_.Submit(first, 14 * kBlock);
  const auto young = engine_.Submit(RandomPrompt(6, 30 * kBlock), 20 * kBlock);
  while (engine_.Stats().preemptions == 0) ASSERT_TRUE(engine_.Turn());
  ASSERT_FALSE(old->finished.has_value());
  absl::Status pinned;
  ASSERT_TRUE(
      engine_.inbox()
          .Post([&](KvCache& cache, VersionKeeper& versions) {
            const auto found = cache.FindPrefix(
                {.version = versions.ActiveVersion("tiny"), .tokens = first});
            pinned =
                cache.PinPrefix(found->key, absl::InfiniteDuration()).status();
          })
          .ok());
  engine_.RunUntilIdle();
  EXPECT_TRUE(absl::IsResourceExhausted(pinned)) << pinned;
  EXPECT_TRUE(old->ok());
  EXPECT_TRUE(young->ok()) << young->finished->status;
}

// Preempted, it has to come back.
TEST_F(PinnedPrefixTest, TwoThatFillTheRestTakeTurns) {
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  std::vector<std::vector<TokenId>> prompts;
  for (int64_t i = 0; i < 3; ++i) {
    prompts.push_back(Prompt(kPinned, kPinned * kBlock + 5 + i));
    sinks.push_back(engine_.Submit(prompts.back(), 20 * kBlock));
  }
  engine_.RunUntilIdle();
  for (size_t i = 0; i < sinks.size(); ++i) {
    ASSERT_TRUE(sinks[i]->ok()) << sinks[i]->finished->status;
    EXPECT_EQ(sinks[i]->ids,
              FakeAnswer(prompts[i], 20 * kBlock, {.temperature = 0}));
  }
  EXPECT_GT(engine_.Stats().preemptions, 0);
}

}  // namespace
}  // namespace kvasir

#include "engine/canary.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

const SamplingParams kGreedy{.temperature = 0};

// Flips a bit of a cached block, as failing memory would.
void Spoil(LoopHarness& engine, const std::vector<TokenId>& prompt,
           int64_t block) {
  std::vector<TokenId> tokens = prompt;
  tokens.push_back(0);
  const auto version = *engine.directory().Resolve("", "");
  const auto lease = engine.cache().OpenLease(
      {.version = version->id(), .tokens = tokens, .resumed = true});
  ASSERT_TRUE(lease.ok());
  ASSERT_GT(lease->block_count(), block);
  *lease->Table().Block(block) ^= std::byte{1};
}

int64_t Resident(LoopHarness& engine, const std::vector<TokenId>& prompt) {
  const auto version = *engine.directory().Resolve("", "");
  const auto found =
      engine.cache().FindPrefix({.version = version->id(), .tokens = prompt});
  return found.ok() ? found->block_count : 0;
}

// Serves a prompt of 7 blocks twice; the second time is a sampled hit, of a
// prefix whose block `spoilt` is wrong, if it is not negative.
std::vector<TokenId> ServeTwice(LoopHarness& engine, int64_t spoilt = -1) {
  const auto prompt = RandomPrompt(1, 7 * 16 + 3);
  const auto right = FakeAnswer(prompt, 2, kGreedy);
  const auto first = engine.Submit(prompt, 2);
  engine.RunUntilIdle();
  EXPECT_EQ(first->ids, right);
  if (spoilt >= 0) Spoil(engine, prompt, spoilt);
  const auto second = engine.Submit(prompt, 2);
  engine.RunUntilIdle();
  EXPECT_EQ(second->ids == right, spoilt < 0);
  return prompt;
}

void TurnUntilChecked(LoopHarness& engine) {
  for (int turn = 0; turn < 100 && engine.Turn(); ++turn) {
  }
}

TEST(Canary, RecomputesAHitWhenTheEngineIsIdle) {
  LoopHarness engine({.hits_per_sample = 1, .limits = {.prefill_chunk = 20}});
  ServeTwice(engine);
  const EngineStats before = engine.Stats();
  TurnUntilChecked(engine);
  const EngineStats after = engine.Stats();
  EXPECT_EQ(after.canary.equal_blocks, 7);
  EXPECT_EQ(after.canary.mismatched_blocks, 0);
  // Contract C3: it is nobody's request.
  EXPECT_EQ(after.cache.counters.lookup_tokens,
            before.cache.counters.lookup_tokens);
  EXPECT_EQ(after.cache.counters.hit_tokens, before.cache.counters.hit_tokens);
  EXPECT_EQ(after.prompt_tokens_computed, before.prompt_tokens_computed);
  EXPECT_EQ(after.cache.counters.recomputed_tokens, 0);
  EXPECT_EQ(engine.Blocks().pinned, 0) << "it holds nothing when it is done";
  EXPECT_EQ(engine.Blocks().cached, 7);
}

TEST(Canary, AWrongBlockGoesWithAllThatIsFoundThroughIt) {
  LoopHarness engine({.hits_per_sample = 1});
  const auto prompt = ServeTwice(engine, 4);
  TurnUntilChecked(engine);
  const EngineStats stats = engine.Stats();
  EXPECT_EQ(stats.canary.mismatched_blocks, 1);
  EXPECT_EQ(stats.canary.equal_blocks, 4);
  EXPECT_EQ(Resident(engine, prompt), 4);
  EXPECT_EQ(stats.cache.counters.evicted[EvictionCause::kCanary], 3);
  // Nobody computes with it any more.
  const auto sink = engine.Submit(prompt, 2);
  engine.RunUntilIdle();
  EXPECT_EQ(sink->accepted->cached_tokens, 4 * 16);
  EXPECT_EQ(sink->ids, FakeAnswer(prompt, 2, kGreedy));
}

TEST(Canary, WhatARequestHoldsIsForgottenToo) {
  LoopHarness engine({.hits_per_sample = 1, .limits = {.prefill_chunk = 16}});
  const auto prompt = ServeTwice(engine, 0);
  const auto version = *engine.directory().Resolve("", "");
  {
    const auto held = engine.cache().OpenLease(
        {.version = version->id(), .tokens = prompt, .resumed = true});
    ASSERT_TRUE(held.ok());
    TurnUntilChecked(engine);
    EXPECT_EQ(Resident(engine, prompt), 0);
    EXPECT_EQ(engine.Blocks().pinned, 7) << "until its holder goes";
  }
  engine.Turn();
  EXPECT_EQ(engine.UsedBlocks(), 0);
}

TEST(Canary, GivesWayToARequest) {
  LoopHarness engine(
      {.blocks = 16, .hits_per_sample = 1, .limits = {.prefill_chunk = 16}});
  const auto prompt = ServeTwice(engine);
  engine.Turn();
  engine.Turn();
  EXPECT_GT(engine.Blocks().pinned, 0) << "it is at work";
  const auto long_prompt = RandomPrompt(2, 200);
  const auto sink = engine.Submit(long_prompt, 2);
  engine.Turn();
  engine.RunUntilIdle();
  EXPECT_EQ(sink->ids, FakeAnswer(long_prompt, 2, kGreedy));
  EXPECT_EQ(engine.Stats().canary.skipped_prefixes, 1);
  EXPECT_EQ(engine.Blocks().pinned, 0);
}

// Pins take room that a check counted on: an operator must not end the daemon
// by making one.
TEST(Canary, GivesWayToAnOperator) {
  LoopHarness engine(
      {.blocks = 40, .hits_per_sample = 1, .limits = {.prefill_chunk = 16}});
  const auto other = RandomPrompt(5, 20 * 16 + 1);
  engine.Submit(other, 1);
  engine.RunUntilIdle();
  const auto prompt = ServeTwice(engine);
  engine.Turn();
  EXPECT_GT(engine.Blocks().pinned, 0) << "it is at work";
  const auto version = *engine.directory().Resolve("", "");
  ASSERT_TRUE(
      engine.inbox()
          .Post([&](KvCache& cache, VersionKeeper&) {
            const auto found =
                cache.FindPrefix({.version = version->id(), .tokens = other});
            ASSERT_TRUE(found.ok());
            EXPECT_TRUE(
                cache.PinPrefix(found->key, absl::InfiniteDuration()).ok());
          })
          .ok());
  TurnUntilChecked(engine);
  EXPECT_EQ(engine.Stats().canary.skipped_prefixes, 1);
  EXPECT_EQ(engine.Blocks().pinned, 0);
}

TEST(Canary, LooksAtTheShareOfHitsThatItWasTold) {
  LoopHarness engine({.hits_per_sample = 3});
  const auto prompt = RandomPrompt(1, 33);
  for (int request = 0; request < 10; ++request) {
    engine.Submit(prompt, 1);
    engine.RunUntilIdle();
    TurnUntilChecked(engine);
  }
  EXPECT_EQ(engine.Stats().canary.equal_blocks, 3 * 2) << "of nine hits";
}

TEST(Canary, AHitThatIsGoneIsNoWork) {
  LoopHarness engine({.hits_per_sample = 1});
  const auto prompt = RandomPrompt(1, 40);
  for (int i = 0; i < 2; ++i) engine.Submit(prompt, 1);
  for (int i = 0; i < 3; ++i) engine.Turn();
  engine.cache().Flush();
  TurnUntilChecked(engine);
  EXPECT_EQ(engine.Stats().canary.equal_blocks, 0);
  EXPECT_EQ(engine.UsedBlocks(), 0);
}

TEST(Canary, AStepThatFailsIsNoVerdict) {
  LoopHarness engine({.hits_per_sample = 1, .limits = {.prefill_chunk = 16}});
  const auto prompt = ServeTwice(engine);
  engine.runner().FailNextStep(absl::InternalError("on purpose"));
  TurnUntilChecked(engine);
  const EngineStats stats = engine.Stats();
  EXPECT_EQ(stats.canary.skipped_prefixes, 1);
  EXPECT_EQ(stats.canary.mismatched_blocks, 0);
  EXPECT_EQ(Resident(engine, prompt), 7);
  EXPECT_TRUE(stats.healthy);
}

}  // namespace
}  // namespace kvasir

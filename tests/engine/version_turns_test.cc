// Several versions under one engine loop: who is computed where, and what a
// change of the active one does to those who run.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

const SamplingParams kGreedy{.temperature = 0};

std::vector<TokenId> Answer(const std::vector<TokenId>& prompt, int64_t count,
                            int32_t weights) {
  return FakeAnswer(prompt, count, kGreedy, weights);
}

// Contract C5, field case PFX-1: who began in a version ends in it; who comes
// after gets the new one, from nothing.
TEST(VersionTurns, ARunningRequestEndsInTheVersionItBeganIn) {
  LoopHarness engine({});
  const auto prompt = RandomPrompt(1, 70);
  const auto before = engine.Submit(prompt, 40);
  for (int turn = 0; turn < 5; ++turn) engine.Turn();
  engine.AddVersion("tiny@1", 1);
  const auto after = engine.Submit(prompt, 40);
  engine.RunUntilIdle();
  EXPECT_EQ(before->ids, Answer(prompt, 40, 0));
  EXPECT_EQ(before->accepted->cache_version, "tiny@0");
  EXPECT_EQ(after->ids, Answer(prompt, 40, 1));
  EXPECT_EQ(after->accepted->cache_version, "tiny@1");
  EXPECT_EQ(after->accepted->cached_tokens, 0);
  const auto again = engine.Submit(prompt, 4);
  engine.RunUntilIdle();
  EXPECT_EQ(again->accepted->cached_tokens, 64);
}

TEST(VersionTurns, ARequestThatChoseBeforeIsServedAfter) {
  // It was tokenised for that version; a roll-out must not fail it.
  LoopHarness engine({});
  const auto prompt = RandomPrompt(1, 20);
  Request request = engine.MakeRequest(prompt, 5);
  request.version = *engine.directory().Resolve("", "");
  engine.AddVersion("tiny@1", 1);
  ASSERT_TRUE(engine.versions().Delete("", "tiny@0").ok());
  const auto sink = engine.Submit(std::move(request));
  engine.RunUntilIdle();
  EXPECT_TRUE(sink->ok());
  EXPECT_EQ(sink->ids, Answer(prompt, 5, 0));
  engine.Turn();
  EXPECT_EQ(engine.directory().List().size(), 1u) << "and then it may go";
  EXPECT_EQ(engine.cache().Snapshot().versions[0].state, "retired");
}

TEST(VersionTurns, APreemptedRequestResumesInItsVersion) {
  LoopHarness engine({.blocks = 12});
  const auto a = RandomPrompt(1, 60);
  const auto b = RandomPrompt(2, 60);
  const auto first = engine.Submit(a, 60);
  const auto second = engine.Submit(b, 60);
  engine.Turn();
  engine.AddVersion("tiny@1", 1);
  engine.RunUntilIdle();
  EXPECT_GT(engine.Stats().preemptions, 0);
  EXPECT_EQ(first->ids, Answer(a, 60, 0));
  EXPECT_EQ(second->ids, Answer(b, 60, 0));
}

TEST(VersionTurns, VersionsWithWorkTakeTurns) {
  // A step holds rows of one version; none of three waits longer than the
  // others take.
  LoopHarness engine({});
  engine.AddVersion("tiny@1", 1, /*activate=*/false);
  engine.AddVersion("tiny@2", 2, /*activate=*/false);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const std::string label : {"tiny@0", "tiny@1", "tiny@2"}) {
    Request request = engine.MakeRequest(RandomPrompt(1, 20), 30);
    request.version = *engine.directory().Resolve("", label);
    sinks.push_back(engine.Submit(std::move(request)));
  }
  for (int turn = 0; turn < 30; ++turn) {
    engine.Turn();
    const auto [least, most] =
        std::minmax({sinks[0]->deltas, sinks[1]->deltas, sinks[2]->deltas});
    EXPECT_LE(most - least, 1) << turn;
  }
  engine.RunUntilIdle();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->ok());
}

TEST(VersionTurns, RequestsOfTwoVersionsShareNoPrefix) {
  // They arrive together with one prompt: the second must not wait for blocks
  // that will never be its own.
  LoopHarness engine({});
  engine.AddVersion("tiny@1", 1, /*activate=*/false);
  const auto prompt = RandomPrompt(1, 100);
  const auto first = engine.Submit(prompt, 3);
  Request request = engine.MakeRequest(prompt, 3);
  request.version = *engine.directory().Resolve("", "tiny@1");
  const auto second = engine.Submit(std::move(request));
  engine.RunUntilIdle();
  EXPECT_EQ(first->ids, Answer(prompt, 3, 0));
  EXPECT_EQ(second->ids, Answer(prompt, 3, 1));
  EXPECT_EQ(second->accepted->cached_tokens, 0);
}

TEST(VersionTurns, AnAliasComputesTheSameFromNothing) {
  // PFX-2: the same weights under another label.
  LoopHarness engine({});
  const auto prompt = RandomPrompt(1, 70);
  const auto first = engine.Submit(prompt, 3);
  engine.RunUntilIdle();
  engine.AddVersion("x", 0);
  const auto alias = engine.Submit(prompt, 3);
  engine.RunUntilIdle();
  EXPECT_EQ(alias->ids, first->ids);
  EXPECT_EQ(alias->accepted->cached_tokens, 0);
}

// Three versions resident, a thousand activations and rollbacks under load:
// every answer is wholly of one version, a cold run's of that version, and the
// first request after a rollback finds at least 95 % of its prefix.
TEST(VersionTurns, AThousandMovesUnderLoad) {
  const uint32_t seed = std::random_device()();
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  const auto draw = [&](int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random);
  };
  LoopHarness engine({.blocks = 8192});
  engine.AddVersion("tiny@1", 1, false);
  engine.AddVersion("tiny@2", 2, false);
  const auto shared = RandomPrompt(7, 400);
  struct Call {
    std::vector<TokenId> prompt;
    int64_t count;
    std::shared_ptr<RecordingSink> sink;
  };
  std::vector<Call> calls;
  const auto submit = [&](std::vector<TokenId> prompt, int64_t count) {
    calls.push_back({prompt, count, engine.Submit(prompt, count)});
    return calls.back().sink;
  };
  std::set<std::string> served;
  int64_t rollbacks = 0;
  for (int move = 0; move < 1000; ++move) {
    const std::string label = absl::StrCat("tiny@", draw(3));
    const auto rolled_back = draw(2) == 0
                                 ? engine.versions().RollBack("")
                                 : engine.versions().Activate("", label);
    const std::string active = (*engine.directory().Resolve("", ""))->label();
    std::vector<TokenId> prompt = shared;
    for (const TokenId id : RandomPrompt(move, 8)) prompt.push_back(id);
    const auto probe = submit(prompt, 2);
    if (draw(2) == 0) submit(RandomPrompt(move, 1 + draw(60)), 1 + draw(30));
    for (int turn = draw(6); turn > 0; --turn) engine.Turn();
    // Now and then, all have ended before the next move.
    if (move % 20 == 19) engine.RunUntilIdle();
    if (probe->accepted.has_value() && served.count(active) > 0 &&
        rolled_back.ok()) {
      EXPECT_GE(probe->accepted->cached_tokens, 380) << move;
      ++rollbacks;
    }
    if (probe->ok()) served.insert(active);
  }
  engine.RunUntilIdle();
  EXPECT_GT(rollbacks, 300);
  for (const Call& call : calls) {
    ASSERT_TRUE(call.sink->ok()) << static_cast<int>(call.sink->code());
    const std::string& label = call.sink->accepted->cache_version;
    ASSERT_EQ(call.sink->ids,
              Answer(call.prompt, call.count, label.back() - '0'));
  }
}

}  // namespace
}  // namespace kvasir

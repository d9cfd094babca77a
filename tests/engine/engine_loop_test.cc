#include "engine/engine_loop.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int32_t kBlock = 16;

// The whole way of one request, in the order in which a client sees it.
TEST(EngineLoop, OneRequestIsAcceptedStreamedAndFinished) {
  LoopHarness engine({});
  const std::vector<TokenId> prompt = RandomPrompt(1, 20);
  const auto sink = engine.Submit(prompt, 5);
  engine.RunUntilIdle();
  ASSERT_TRUE(sink->ok());
  EXPECT_EQ(sink->accepted->prompt_tokens, 20);
  EXPECT_EQ(sink->accepted->cached_tokens, 0);
  EXPECT_EQ(sink->accepted->cache_version, "tiny@0");
  EXPECT_EQ(sink->ids, FakeAnswer(prompt, 5, {.temperature = 0}));
  EXPECT_EQ(sink->deltas, 5);
  EXPECT_EQ(sink->finished->reason, FinishReason::kLength);
  EXPECT_EQ(sink->finished->matched_token, -1);
  EXPECT_EQ(sink->finished->usage.prompt_tokens, 20);
  EXPECT_EQ(sink->finished->usage.completion_tokens, 5);
}

// Operators pin and warm what this table shows.
TEST(EngineLoop, HotPrefixesArePublished) {
  LoopHarness engine({});
  const std::vector<TokenId> prompt = RandomPrompt(1, 70);
  for (int i = 0; i < 5; ++i) {
    engine.Submit(prompt, 1);
    engine.RunUntilIdle();
  }
  engine.clock().Advance(kHotTableInterval);
  const EngineStats stats = engine.Stats();
  ASSERT_EQ(stats.hot_prefixes.size(), 1u);
  EXPECT_EQ(stats.hot_prefixes[0].hits, 4);
  EXPECT_EQ(stats.hot_prefixes[0].tokens, 64);
  EXPECT_EQ(stats.hot_prefixes[0].id.size(), 64u);
  EXPECT_EQ(stats.hot_prefixes[0].salt_hash, "");
}

// Contract C9: what was streamed, what a buffered reply holds and what the ids
// decode to are one text, also when a character is cut in two by the end.
TEST(EngineLoop, JoinedTextIsTheDecodedIds) {
  LoopHarness engine({});
  for (int64_t tokens = 1; tokens <= 40; ++tokens) {
    const auto sink = engine.Submit(RandomPrompt(tokens, 10), tokens);
    engine.RunUntilIdle();
    EXPECT_EQ(sink->text, DecodeText(TinyTokenizer(), sink->ids, true));
  }
}

// A client counts on the reason and on the token that is named; the end token
// is part of the ids and of the count, as it is elsewhere in this field.
TEST(EngineLoop, EndTokenEndsUnlessIgnored) {
  LoopHarness engine({.hooks = {.script = {10, 11, 2, 12, 0, 13}}});
  Request request = engine.MakeRequest(RandomPrompt(1, 20), 50);
  request.stopping.ignore_eos = false;
  const auto ended = engine.Submit(request);
  request.id = "ignoring";
  request.stopping.ignore_eos = true;
  request.stopping.max_tokens = 6;
  const auto ignored = engine.Submit(request);
  engine.RunUntilIdle();
  EXPECT_THAT(ended->ids, ElementsAre(10, 11, 2));
  EXPECT_EQ(ended->finished->reason, FinishReason::kEos);
  EXPECT_EQ(ended->finished->matched_token, 2);
  EXPECT_EQ(ended->finished->usage.completion_tokens, 3);
  EXPECT_EQ(ended->text, DecodeText(TinyTokenizer(), {{10, 11}}, true));
  EXPECT_THAT(ignored->ids, ElementsAre(10, 11, 2, 12, 0, 13));
  EXPECT_EQ(ignored->finished->reason, FinishReason::kLength);
}

// A request's own stop tokens work beside the model's and whatever ignore_eos
// says, since it speaks of the model's.
TEST(EngineLoop, StopTokensEndAndAreNamed) {
  LoopHarness engine({.hooks = {.script = {10, 11, 12}}});
  Request request = engine.MakeRequest(RandomPrompt(1, 20), 50);
  request.stopping.token_ids = {77, 11};
  const auto sink = engine.Submit(request);
  engine.RunUntilIdle();
  EXPECT_THAT(sink->ids, ElementsAre(10, 11));
  EXPECT_EQ(sink->finished->reason, FinishReason::kStopToken);
  EXPECT_EQ(sink->finished->matched_token, 11);
}

// FIELD_CASES CTX-2: limit of admission and limit of the engine are one number.
TEST(EngineLoop, PromptPlusOutputFillTheContextExactly) {
  for (const int64_t prompt_length : {31, 40, 47}) {
    LoopHarness engine({.blocks = 3, .block_tokens = kBlock});
    ASSERT_EQ(engine.limits().EffectiveContext(), 48);
    const auto open_ended = engine.Submit(RandomPrompt(1, prompt_length), 0);
    engine.RunUntilIdle();
    ASSERT_TRUE(open_ended->ok());
    EXPECT_EQ(open_ended->finished->reason, FinishReason::kContextFull);
    EXPECT_EQ(open_ended->ids,
              FakeAnswer(RandomPrompt(1, prompt_length), 48 - prompt_length,
                         {.temperature = 0}));
  }
}

// FIELD_CASES PFX-3: a full hit still has to compute one token, or there are no
// logits to sample from.
TEST(EngineLoop, ExactMultiplesHitAllButTheLastToken) {
  for (const int64_t length : {1, kBlock - 1, kBlock, kBlock + 1,
                               3 * kBlock - 1, 3 * kBlock, 3 * kBlock + 1}) {
    LoopHarness engine({.block_tokens = kBlock});
    const std::vector<TokenId> prompt = RandomPrompt(length, length);
    for (int call = 0; call < 3; ++call) {
      const auto sink = engine.Submit(prompt, 8);
      engine.RunUntilIdle();
      EXPECT_EQ(sink->ids, FakeAnswer(prompt, 8, {.temperature = 0}));
      const int64_t cached = sink->finished->usage.cached_tokens;
      EXPECT_EQ(cached, call == 0 ? 0 : (length - 1) / kBlock * kBlock);
      EXPECT_EQ(sink->accepted->cached_tokens, cached);
    }
  }
}

// A tenant must never learn from a hit what another one has asked.
TEST(EngineLoop, SaltsAndOptOutsShareNothing) {
  LoopHarness engine({});
  const auto cached = [&](const std::string& salt, bool read, bool write) {
    Request request = engine.MakeRequest(RandomPrompt(1, 70), 4);
    request.cache = {.read = read, .write = write, .salt = salt};
    const auto sink = engine.Submit(request);
    engine.RunUntilIdle();
    EXPECT_EQ(sink->ids,
              FakeAnswer(RandomPrompt(1, 70), 4, {.temperature = 0}));
    return sink->finished->usage.cached_tokens;
  };
  EXPECT_EQ(cached("x", true, false), 0);
  EXPECT_EQ(cached("x", true, true), 0) << "nothing was written";
  EXPECT_EQ(cached("x", true, true), 64);
  EXPECT_EQ(cached("x", false, true), 0) << "reading was not wanted";
  EXPECT_EQ(cached("", true, true), 0);
  EXPECT_EQ(cached("y", true, true), 0);
  EXPECT_EQ(cached("x", true, true), 64);
}

// Of many requests that arrive together, each would compute the shared prefix,
// since none can find what is not sealed yet.
TEST(EngineLoop, RequestsThatArriveTogetherComputeTheirPrefixOnce) {
  constexpr int64_t kRequests = 32;
  constexpr int64_t kShared = 160;
  constexpr int64_t kOwn = 7;
  LoopHarness engine({.blocks = 400});
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int64_t i = 0; i < kRequests; ++i) {
    std::vector<TokenId> prompt = RandomPrompt(7, kShared);
    for (const TokenId id : RandomPrompt(100 + i, kOwn)) prompt.push_back(id);
    prompts.push_back(prompt);
    sinks.push_back(engine.Submit(prompt, 4));
  }
  engine.RunUntilIdle();
  for (int64_t i = 0; i < kRequests; ++i) {
    EXPECT_EQ(sinks[i]->ids, FakeAnswer(prompts[i], 4, {.temperature = 0}));
    EXPECT_EQ(sinks[i]->finished->usage.cached_tokens, i == 0 ? 0 : kShared);
  }
  // Prompts once, and three of the four new tokens each.
  EXPECT_EQ(engine.runner().computed_rows(),
            kShared + kRequests * kOwn + kRequests * 3);
  const EngineStats stats = engine.Stats();
  EXPECT_EQ(stats.prompt_tokens_cached, (kRequests - 1) * kShared);
  EXPECT_EQ(stats.prompt_tokens_computed, kShared + kRequests * kOwn);
  EXPECT_EQ(stats.cache.counters.hit_tokens, stats.prompt_tokens_cached);
}

// The followers of a request that is cancelled must neither wait for ever nor
// all start over on their own.
TEST(EngineLoop, WhenTheLeaderLeavesTheNextOneLeads) {
  constexpr int64_t kShared = 320;
  LoopHarness engine({.blocks = 400, .limits = {.token_budget = 64}});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int64_t i = 0; i < 8; ++i) {
    sinks.push_back(engine.Submit(RandomPrompt(7, kShared + 1), 2));
  }
  engine.Turn();
  engine.Turn();
  ASSERT_EQ(engine.runner().computed_rows(), 128);
  engine.inbox().Cancel("0", CancelSource::kClient, "");
  engine.RunUntilIdle();
  EXPECT_EQ(sinks[0]->code(), absl::StatusCode::kCancelled);
  for (size_t i = 1; i < sinks.size(); ++i) EXPECT_TRUE(sinks[i]->ok());
  // One computes the rest of the prefix; each of the seven its last token and
  // one new one.
  EXPECT_EQ(engine.runner().computed_rows(), kShared + 7 * 2);
}

// FIELD_CASES LEAK-1 at its root: one turn after the wish, the blocks are free.
TEST(EngineLoop, CancelFreesBlocksWithinATurn) {
  LoopHarness engine({.prefix_caching = false});
  const auto sink = engine.Submit(RandomPrompt(1, 100), 1500);
  for (int i = 0; i < 10; ++i) engine.Turn();
  EXPECT_GT(engine.UsedBlocks(), 0);
  const int64_t generated = engine.Stats().generation_tokens;
  EXPECT_TRUE(engine.inbox().Cancel("0", CancelSource::kClient, "gone"));
  EXPECT_FALSE(engine.Turn());
  EXPECT_EQ(engine.UsedBlocks(), 0);
  EXPECT_EQ(sink->code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(std::string(sink->finished->status.message()), HasSubstr("gone"));
  const EngineStats stats = engine.Stats();
  EXPECT_EQ(stats.cancelled_by_client, 1);
  EXPECT_EQ(stats.generation_tokens, generated);
  EXPECT_EQ(stats.requests_running, 0);
}

// LEAK-1 for a client that vanished without a word: its sink says so.
TEST(EngineLoop, ASinkThatNobodyReadsEndsItsRequest) {
  LoopHarness engine({.prefix_caching = false});
  auto sink = std::make_shared<RecordingSink>();
  sink->reads = 3;
  ASSERT_TRUE(
      engine.TrySubmit(engine.MakeRequest(RandomPrompt(1, 100), 1500), sink)
          .ok());
  engine.RunUntilIdle(10);
  EXPECT_EQ(sink->ids.size(), 3u);
  EXPECT_EQ(sink->code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine.UsedBlocks(), 0);
  EXPECT_EQ(engine.Stats().cancelled_by_client, 1);
}

// A request in the queue has no step to be noticed in; it must end all the
// same, and give its place in the inbox back.
TEST(EngineLoop, WaitingRequestsCanBeCancelled) {
  LoopHarness engine({.inbox_limit = 1, .limits = {.max_sequences = 1}});
  const auto running = engine.Submit(RandomPrompt(1, 20), 100);
  engine.Turn();
  const auto waiting = engine.Submit(RandomPrompt(2, 20), 100);
  engine.Turn();
  EXPECT_EQ(engine.Stats().requests_waiting, 1);
  engine.inbox().Cancel("1", CancelSource::kAdmin, "");
  engine.Turn();
  EXPECT_EQ(waiting->code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(waiting->accepted.has_value());
  EXPECT_EQ(engine.Stats().cancelled_by_admin, 1);
  EXPECT_EQ(engine.Stats().requests_waiting, 0);
  const auto next = engine.Submit(RandomPrompt(3, 20), 1);
  engine.RunUntilIdle();
  EXPECT_TRUE(running->ok());
  EXPECT_TRUE(next->ok());
}

// Deadlines end requests where they are: in the queue or amid their output.
TEST(EngineLoop, DeadlinesEndRunningAndWaitingRequests) {
  LoopHarness engine({.limits = {.max_sequences = 1}});
  Request request = engine.MakeRequest(RandomPrompt(1, 20), 100);
  request.deadline = engine.clock().Now() + absl::Seconds(5);
  const auto running = engine.Submit(request);
  request.id = "queued";
  request.deadline = engine.clock().Now() + absl::Seconds(3);
  const auto waiting = engine.Submit(request);
  engine.Turn();
  engine.clock().Advance(absl::Seconds(3));
  engine.Turn();
  EXPECT_EQ(waiting->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(running->finished.has_value());
  engine.clock().Advance(absl::Seconds(2));
  EXPECT_FALSE(engine.Turn());
  EXPECT_EQ(running->code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(running->ids.size(), 2u);
  EXPECT_EQ(engine.Stats().cancelled_by_deadline, 2);
}

// gRPC resets a call whose deadline passes, so nearly every deadline is heard
// as a cancel first. Counted as such, no operator would see that deadlines
// pass.
TEST(EngineLoop, ADeadlineThatArrivesAsACancelIsCountedAsADeadline) {
  struct Case {
    absl::Duration left;
    CancelSource source;
    bool deadline;
  };
  for (const Case& c :
       {Case{-absl::Milliseconds(5), CancelSource::kClient, true},
        Case{absl::Milliseconds(60), CancelSource::kClient, true},
        Case{absl::Seconds(2), CancelSource::kClient, false},
        Case{absl::Milliseconds(60), CancelSource::kAdmin, false}}) {
    LoopHarness engine({});
    Request request = engine.MakeRequest(RandomPrompt(1, 20), 100);
    request.deadline = engine.clock().Now() + absl::Seconds(5);
    const std::string id = request.id;
    const auto sink = engine.Submit(std::move(request));
    engine.Turn();
    engine.clock().Advance(absl::Seconds(5) - c.left);
    EXPECT_TRUE(engine.inbox().Cancel(id, c.source, ""));
    engine.Turn();
    EXPECT_EQ(engine.Stats().cancelled_by_deadline, c.deadline ? 1 : 0)
        << c.left;
    EXPECT_EQ(sink->code(), c.deadline ? absl::StatusCode::kDeadlineExceeded
                                       : absl::StatusCode::kCancelled);
  }
}

// A drained replica must say so in a way that lets clients go elsewhere.
TEST(EngineLoop, DrainLetsRequestsEndAndThenEndsThem) {
  LoopHarness engine({});
  const auto brief = engine.Submit(RandomPrompt(1, 20), 3);
  const auto endless = engine.Submit(RandomPrompt(2, 20), 3000);
  engine.Turn();
  engine.inbox().Close(absl::UnavailableError("draining"));
  const absl::Status late =
      engine.TrySubmit(engine.MakeRequest(RandomPrompt(3, 20), 1),
                       std::make_shared<RecordingSink>());
  EXPECT_EQ(late.code(), absl::StatusCode::kUnavailable);
  for (int i = 0; i < 5; ++i) engine.Turn();
  EXPECT_TRUE(brief->ok());
  engine.inbox().CancelAll(CancelSource::kDrain, "grace period over");
  EXPECT_FALSE(engine.Turn());
  EXPECT_EQ(endless->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine.Stats().cancelled_by_drain, 1);
}

// FIELD_CASES SCHED-1: who cannot fit is refused at once with both numbers, and
// delays nobody.
TEST(EngineLoop, WhatCanNeverFitIsRefusedAtOnce) {
  LoopHarness engine({.blocks = 20, .model_context = 2048});
  const absl::Status refused =
      engine.TrySubmit(engine.MakeRequest(RandomPrompt(1, 400), 10),
                       std::make_shared<RecordingSink>());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("400"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("319"));
  const auto small = engine.Submit(RandomPrompt(2, 20), 10);
  const auto growing = engine.Submit(RandomPrompt(3, 200), 400);
  engine.RunUntilIdle();
  EXPECT_TRUE(small->ok());
  ASSERT_TRUE(growing->ok());
  EXPECT_EQ(growing->finished->reason, FinishReason::kContextFull);
  EXPECT_EQ(growing->ids.size(), 120u);
  EXPECT_EQ(engine.Stats().requests_waiting, 0);
}

// A step that failed has not happened: nothing it wrote may be found, and the
// next requests must get what they would have got.
TEST(EngineLoop, AFailedStepIsRolledBack) {
  LoopHarness engine({});
  const auto before = engine.Submit(RandomPrompt(1, 40), 3);
  engine.RunUntilIdle();
  const BlockCounts blocks = engine.Blocks();
  const auto failed = engine.Submit(RandomPrompt(2, 40), 3);
  engine.runner().FailNextStep(absl::ResourceExhaustedError("out of scratch"));
  EXPECT_FALSE(engine.Turn());
  EXPECT_EQ(failed->code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(failed->finished->status.message()),
              HasSubstr("out of scratch"));
  EXPECT_EQ(engine.Blocks(), blocks);
  const auto again = engine.Submit(RandomPrompt(2, 40), 3);
  engine.RunUntilIdle();
  EXPECT_EQ(again->ids, FakeAnswer(RandomPrompt(2, 40), 3, {.temperature = 0}));
  EXPECT_EQ(again->finished->usage.cached_tokens, 0);
  EXPECT_EQ(engine.Stats().failed, 1);
  EXPECT_TRUE(engine.Stats().healthy);
}

// Requests that had no part in the step go on as if nothing had happened.
TEST(EngineLoop, AFailedStepEndsOnlyItsOwnRequests) {
  LoopHarness engine({.limits = {.token_budget = 32}});
  const auto first = engine.Submit(RandomPrompt(1, 64), 3);
  const auto second = engine.Submit(RandomPrompt(2, 40), 3);
  engine.runner().FailNextStep(absl::InternalError("bad luck"));
  engine.Turn();  // the budget is the first one's
  EXPECT_EQ(first->code(), absl::StatusCode::kInternal);
  engine.RunUntilIdle();
  EXPECT_EQ(second->ids,
            FakeAnswer(RandomPrompt(2, 40), 3, {.temperature = 0}));
}

// A broken device must not be fed for ever; a hiccup must not end the service.
TEST(EngineLoop, OnlyFailuresInARowMakeTheEngineUnhealthy) {
  LoopHarness engine({});
  for (int i = 0; i < 5; ++i) {
    engine.Submit(RandomPrompt(1, 40), 3);
    engine.runner().FailNextStep(absl::InternalError("hiccup"));
    engine.Turn();
    engine.Submit(RandomPrompt(1, 40), 3);
    engine.RunUntilIdle();
    EXPECT_TRUE(engine.Stats().healthy);
  }
  for (int i = 0; i < kMaxFailedSteps; ++i) {
    EXPECT_TRUE(engine.Stats().healthy);
    engine.Submit(RandomPrompt(1, 40), 3);
    engine.runner().FailNextStep(absl::InternalError("the device is gone"));
    engine.Turn();
  }
  EXPECT_FALSE(engine.Stats().healthy);
  const absl::Status refused =
      engine.TrySubmit(engine.MakeRequest(RandomPrompt(1, 40), 3),
                       std::make_shared<RecordingSink>());
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the device is gone"));
  EXPECT_EQ(engine.inbox().in_flight(), 0);
}

// A flush amid work drops what is cached and nothing that is in use.
TEST(EngineLoop, FlushSparesRunningRequests) {
  LoopHarness engine({});
  const auto done = engine.Submit(RandomPrompt(1, 64), 3);
  engine.RunUntilIdle();
  EXPECT_GT(engine.Blocks().cached, 0);
  const auto running = engine.Submit(RandomPrompt(2, 64), 30);
  for (int i = 0; i < 5; ++i) engine.Turn();
  engine.Flush();
  EXPECT_EQ(engine.Blocks().cached, 0);
  EXPECT_GT(engine.Blocks().pinned, 0);
  engine.RunUntilIdle();
  EXPECT_EQ(running->ids,
            FakeAnswer(RandomPrompt(2, 64), 30, {.temperature = 0}));
  engine.Flush();
  EXPECT_EQ(engine.UsedBlocks(), 0);
}

// Whoever sees the last event must find it counted and the blocks given back;
// a dashboard that lags behind its clients sends people on false trails.
TEST(EngineLoop, NumbersArePublishedBeforeTheLastEvent) {
  class Asking final : public TokenSink {
   public:
    explicit Asking(LoopHarness* engine) : engine_(engine) {}
    bool Push(TokenEvent event) override {
      if (std::holds_alternative<FinishedEvent>(event)) {
        seen = engine_->published();
        in_flight = engine_->inbox().in_flight();
      }
      return true;
    }
    EngineStats seen;
    int64_t in_flight = 0;

   private:
    LoopHarness* engine_;
  };
  LoopHarness engine({});
  const auto sink = std::make_shared<Asking>(&engine);
  ASSERT_TRUE(
      engine.TrySubmit(engine.MakeRequest(RandomPrompt(1, 40), 3), sink).ok());
  engine.RunUntilIdle();
  EXPECT_EQ(sink->seen.requests_running, 0);
  EXPECT_EQ(sink->seen.finished[static_cast<size_t>(FinishReason::kLength)], 1);
  EXPECT_EQ(sink->seen.cache.tiers.at(0).blocks.pinned, 0);
  EXPECT_EQ(sink->in_flight, 1) << "idle only after the last event";
}

// One sequence whose numbers overflow must neither get a made-up token nor take
// its neighbours with it.
TEST(EngineLoop, LogitsThatAreNoNumbersEndTheirSequenceOnly) {
  LoopHarness engine({});
  const auto bad = engine.Submit(RandomPrompt(1, 20), 10);
  const auto good = engine.Submit(RandomPrompt(2, 20), 10);
  engine.Turn();
  engine.runner().SpoilLogitsOf(SequenceId(0));
  engine.RunUntilIdle();
  EXPECT_EQ(bad->code(), absl::StatusCode::kInternal);
  EXPECT_EQ(bad->ids.size(), 1u) << "what came before is good";
  EXPECT_EQ(good->ids, FakeAnswer(RandomPrompt(2, 20), 10, {.temperature = 0}));
  EXPECT_TRUE(engine.Stats().healthy);
  EXPECT_EQ(engine.Stats().failed, 1);
}

// A first step that hangs must not look like an idle engine: load balancers
// would go on sending to it (FIELD_CASES SRV-5).
TEST(EngineLoop, TheFirstStepAfterAnIdleTimeIsAnnounced) {
  LoopHarness engine({});
  int64_t running = -1;
  engine.runner().OnStep(
      [&] { running = engine.published().requests_running; });
  for (uint64_t round = 0; round < 3; ++round) {
    running = -1;
    engine.Submit(RandomPrompt(round, 20), 1);
    engine.RunUntilIdle();
    EXPECT_EQ(running, 1) << round;
    EXPECT_EQ(engine.published().requests_running, 0);
  }
}

// The end of the engine is an end for every request, wherever it is.
TEST(EngineLoop, StopEndsEveryRequest) {
  LoopHarness engine({.limits = {.max_sequences = 1}});
  const auto running = engine.Submit(RandomPrompt(1, 40), 100);
  engine.Turn();
  const auto waiting = engine.Submit(RandomPrompt(2, 40), 100);
  engine.Turn();
  const auto untaken = engine.Submit(RandomPrompt(3, 40), 100);
  bool flushed = false;
  EXPECT_TRUE(engine.inbox()
                  .Post([&](KvCache&, VersionKeeper&) { flushed = true; })
                  .ok());
  engine.inbox().Stop();
  engine.loop().Run();
  for (const auto& sink : {running, waiting, untaken}) {
    EXPECT_EQ(sink->code(), absl::StatusCode::kUnavailable);
  }
  EXPECT_TRUE(flushed) << "its caller would wait for ever";
  EXPECT_EQ(engine.inbox().in_flight(), 0);
  EXPECT_THAT(engine.cache().Violations(), IsEmpty());
}

}  // namespace
}  // namespace kvasir

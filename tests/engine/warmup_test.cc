// Warm-up beside an engine that runs: what it promises, and that requests never
// pay more for it than it says.

#include "engine/warmup.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/warmup_testing.h"

namespace kvasir {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LargeWarmupTest : public WarmupTest {
 protected:
  LargeWarmupTest() : WarmupTest(256) {}
};

// A request that follows finds every whole block, the last one too, and its
// answer is that of a cold run.
TEST_F(WarmupTest, WhatIsWarmedIsResidentAndHit) {
  const auto warm = Warm({Prefix(1, 100), Prefix(2, 48, "tenant")});
  TurnUntilEnded(*warm);
  ASSERT_TRUE(warm->ok()) << *warm->status;
  ASSERT_EQ(warm->prefixes.size(), 2u);
  EXPECT_EQ(warm->prefixes[0].token_count, 96);
  EXPECT_EQ(warm->prefixes[0].resident_tokens, 96);
  EXPECT_EQ(warm->prefixes[0].computed_tokens, 96);
  EXPECT_EQ(warm->prefixes[1].resident_tokens, 48);
  EXPECT_EQ(engine_.Blocks().cached, 9);

  const auto hit = engine_.Submit(RandomPrompt(1, 100), 8);
  const auto salted = SubmitSalted(2, 49, "tenant");
  const auto stranger = SubmitSalted(2, 49, "");
  engine_.RunUntilIdle();
  EXPECT_EQ(hit->finished->usage.cached_tokens, 96);
  EXPECT_EQ(hit->ids, FakeAnswer(RandomPrompt(1, 100), 8, {.temperature = 0}));
  EXPECT_EQ(salted->finished->usage.cached_tokens, 48);
  EXPECT_EQ(stranger->finished->usage.cached_tokens, 0);
}

// Without a priority being asked for: that is what it was warmed for.
TEST_F(WarmupTest, WhatIsWarmedOutlastsAFloodOfOneOffPrompts) {
  const auto warm = Warm({Prefix(1, 160), Prefix(2, 160, "tenant")});
  TurnUntilEnded(*warm);
  ASSERT_TRUE(warm->ok()) << *warm->status;
  for (uint64_t i = 0; i < 5000; ++i) {
    engine_.Submit(RandomPrompt(1000 + i, 40), 1);
    if (i % 8 == 7) engine_.RunUntilIdle();
  }
  const auto hit = engine_.Submit(RandomPrompt(1, 161), 1);
  const auto salted = SubmitSalted(2, 161, "tenant");
  engine_.RunUntilIdle();
  EXPECT_EQ(hit->finished->usage.cached_tokens, 160);
  EXPECT_EQ(salted->finished->usage.cached_tokens, 160);
}

// C3: nobody has asked for these tokens, so they are in no request's account.
TEST_F(WarmupTest, HasAccountsOfItsOwn) {
  const auto warm = Warm({Prefix(1, 96), Prefix(1, 64), Prefix(1, 96)});
  TurnUntilEnded(*warm);
  const EngineStats stats = engine_.Stats();
  EXPECT_EQ(stats.warmed_tokens, 96) << "the others were found";
  EXPECT_EQ(stats.prompt_tokens_computed, 0);
  EXPECT_EQ(stats.prompt_tokens_cached, 0);
  EXPECT_EQ(stats.recomputed_tokens, 0);
  EXPECT_EQ(stats.cache.counters.lookup_tokens, 0);
  EXPECT_EQ(stats.cache.counters.hit_tokens, 0);
  EXPECT_EQ(stats.cache.counters.recomputed_tokens, 0);
  EXPECT_THAT(engine_.cache().HottestPrefixes(VersionId(0), 10), IsEmpty());
  EXPECT_EQ(engine_.runner().computed_rows(), stats.warmed_tokens);
  EXPECT_EQ(warm->last.computed_tokens, 96);
  ExpectNothingLeft();
}

// Each prefix says what is wrong with it; the others are not held up.
TEST_F(WarmupTest, EachPrefixThatCannotBeWarmSaysWhy) {
  WarmPrefix odd = Prefix(4, 64);
  odd.tokens[5] = 1 << 20;
  const auto warm = Warm({Prefix(1, 15),
                          Prefix(2, 40),
                          odd,
                          Prefix(3, 1025),
                          Prefix(5, 5000),
                          {.tokens = {}}});
  TurnUntilEnded(*warm);
  EXPECT_EQ(warm->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(warm->status->message()),
              HasSubstr("5 of 6 prefixes"));
  EXPECT_THAT(std::string(warm->status->message()), HasSubstr("prefixes[0]"));
  EXPECT_THAT(std::string(warm->prefixes[0].status.message()),
              HasSubstr("one whole block of 16 tokens, found 15"));
  EXPECT_TRUE(warm->prefixes[1].status.ok());
  EXPECT_EQ(warm->prefixes[1].resident_tokens, 32);
  EXPECT_THAT(std::string(warm->prefixes[2].status.message()),
              HasSubstr("prompt.token_ids[5]"));
  EXPECT_EQ(warm->prefixes[3].status.code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(warm->prefixes[4].status.code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(warm->prefixes[5].status.code(),
            absl::StatusCode::kInvalidArgument);
  ExpectNothingLeft();
}

// Partial success is never reported as success: what one prefix pushed out
// again is looked up anew.
TEST_F(WarmupTest, SaysWhatTheCacheHasDroppedAgain) {
  std::vector<WarmPrefix> prefixes;
  for (uint64_t i = 0; i < 5; ++i) prefixes.push_back(Prefix(i, 20 * kBlock));
  const auto warm = Warm(std::move(prefixes));
  TurnUntilEnded(*warm);
  EXPECT_EQ(warm->code(), absl::StatusCode::kResourceExhausted);
  int64_t resident = 0;
  for (const WarmedPrefix& prefix : warm->prefixes) {
    EXPECT_EQ(prefix.computed_tokens, 20 * kBlock);
    EXPECT_EQ(prefix.status.ok(), prefix.resident_tokens == 20 * kBlock);
    resident += prefix.resident_tokens;
  }
  EXPECT_EQ(resident, 64 * kBlock) << "the cache is full of them";
  EXPECT_TRUE(warm->prefixes.back().status.ok());
  EXPECT_THAT(std::string(warm->prefixes.front().status.message()),
              HasSubstr("wanted 320 tokens to be resident"));
}

// Of prefixes with a common beginning in hand together, one computes it.
TEST_F(WarmupTest, PrefixesInHandTogetherShareTheirBeginning) {
  std::vector<WarmPrefix> prefixes;
  for (int64_t i = 0; i < 4; ++i) {
    WarmPrefix prefix = Prefix(1, 64);
    const std::vector<TokenId> own = RandomPrompt(10 + i, 32);
    prefix.tokens.insert(prefix.tokens.end(), own.begin(), own.end());
    prefixes.push_back(std::move(prefix));
  }
  const auto warm = Warm(std::move(prefixes), 4);
  TurnUntilEnded(*warm);
  EXPECT_TRUE(warm->ok());
  EXPECT_EQ(engine_.Stats().warmed_tokens, 64 + 4 * 32);
  EXPECT_EQ(engine_.Blocks().cached, 4 + 4 * 2);
  for (const auto& step : engine_.runner().steps()) {
    int64_t rows = 0;
    for (const FakeRunner::Entry& entry : step) rows += entry.count;
    EXPECT_LE(rows, kChunk) << "of all in hand together";
  }
}

// A flood of one-off prompts leaves what is pinned, and for as long as it says.
TEST_F(WarmupTest, PinnedPrefixesSurviveAFloodUntilTheirTimeIsOver) {
  WarmPrefix pinned = Prefix(1, 10 * kBlock);
  pinned.pin = true;
  pinned.retention = Retention{.ttl = absl::Seconds(60)};
  WarmPrefix as_any = Prefix(2, 10 * kBlock);
  as_any.retention.reset();
  const auto warm = Warm({pinned, as_any});
  TurnUntilEnded(*warm);
  ASSERT_TRUE(warm->ok()) << *warm->status;
  for (uint64_t i = 0; i < 30; ++i) {
    engine_.Submit(RandomPrompt(100 + i, 300), 1);
    engine_.RunUntilIdle();
  }
  const auto hits = [&](uint64_t seed) {
    const auto sink = engine_.Submit(RandomPrompt(seed, 10 * kBlock + 1), 1);
    engine_.RunUntilIdle();
    return sink->finished->usage.cached_tokens;
  };
  EXPECT_EQ(hits(1), 10 * kBlock);
  EXPECT_EQ(hits(2), 0) << "the flood was none";
  engine_.clock().Advance(absl::Seconds(61));
  engine_.Turn();
  EXPECT_EQ(hits(1), 0);
}

// More pins than the cache may keep is no success either.
TEST_F(WarmupTest, PinsThatWouldFillTheCacheAreRefusedByPrefix) {
  std::vector<WarmPrefix> prefixes;
  for (uint64_t i = 0; i < 4; ++i) {
    prefixes.push_back(Prefix(i, 15 * kBlock));
    prefixes.back().pin = true;
  }
  const auto warm = Warm(std::move(prefixes));
  TurnUntilEnded(*warm);
  EXPECT_EQ(warm->code(), absl::StatusCode::kResourceExhausted);
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(warm->prefixes[i].status.ok());
  EXPECT_FALSE(warm->prefixes[3].status.ok());
  EXPECT_THAT(std::string(warm->prefixes[3].status.message()),
              HasSubstr("pins"));
}

// --- Requests go first.

// The promise to a running stream, in rows and not by the clock: between two of
// its tokens at most one prefill chunk of warm-up is computed.
TEST_F(WarmupTest, AStreamWaitsForAtMostOneChunkPerToken) {
  const VersionInfo other = engine_.AddWarmingVersion("tiny@1", 1);
  for (const VersionId version : {VersionId(0), other.id}) {
    SCOPED_TRACE(version);
    const auto stream = engine_.Submit(RandomPrompt(1, 20), 40);
    while (stream->deltas == 0) engine_.Turn();
    const auto warm = Warm({Prefix(2, 400), Prefix(3, 200)}, 2, version);
    const auto warm_rows = [&] { return engine_.Stats().warmed_tokens; };
    const int64_t before = warm_rows();
    int64_t rows = before, most = 0, turns = 0;
    while (!stream->finished.has_value()) {
      const int64_t deltas = stream->deltas;
      while (stream->deltas == deltas && !stream->finished.has_value()) {
        engine_.Turn();
        ++turns;
      }
      most = std::max(most, warm_rows() - rows);
      rows = warm_rows();
    }
    EXPECT_EQ(most, kChunk) << "neither more nor never";
    EXPECT_LE(turns, 2 * 40);
    EXPECT_EQ(stream->ids,
              FakeAnswer(RandomPrompt(1, 20), 40, {.temperature = 0}));
    TurnUntilEnded(*warm);
    EXPECT_TRUE(warm->ok()) << *warm->status;
    EXPECT_EQ(warm_rows() - before, 400 + 192);
  }
}

// A step's rows beyond the streams' own are what they leave of the budget.
TEST_F(LargeWarmupTest, GetsOnlyWhatDecodesLeaveOfTheBudget) {
  std::vector<std::shared_ptr<RecordingSink>> streams;
  for (uint64_t i = 0; i < 25; ++i) {
    streams.push_back(engine_.Submit(RandomPrompt(i, 10), 20));
  }
  while (streams.back()->deltas == 0) engine_.Turn();
  const size_t first = engine_.runner().steps().size();
  const auto warm = Warm({Prefix(90, 200)});
  for (int i = 0; i < 5; ++i) engine_.Turn();
  for (size_t i = first; i < engine_.runner().steps().size(); ++i) {
    int64_t rows = 0, warm_rows = 0;
    for (const FakeRunner::Entry& entry : engine_.runner().steps()[i]) {
      rows += entry.count;
      warm_rows += entry.id.valid() ? 0 : entry.count;
    }
    EXPECT_LE(rows, 40);
    EXPECT_EQ(warm_rows, 15);
  }
  TurnUntilEnded(*warm);
  EXPECT_TRUE(warm->ok());
}

// A prompt that has come is computed as if no warm-up were there, step by step.
TEST_F(WarmupTest, StandsStillWhileARequestPrefills) {
  const auto warm = Warm({Prefix(1, 800)});
  for (int i = 0; i < 5; ++i) engine_.Turn();
  const int64_t before = engine_.Stats().warmed_tokens;
  ASSERT_EQ(before, 5 * kChunk);
  const auto request = engine_.Submit(RandomPrompt(2, 4 * kChunk), 1);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(request->finished.has_value());
    engine_.Turn();
  }
  EXPECT_TRUE(request->ok()) << "four chunks, four steps";
  EXPECT_EQ(engine_.Stats().warmed_tokens, before);
  TurnUntilEnded(*warm);
  EXPECT_TRUE(warm->ok());
  EXPECT_EQ(engine_.Stats().warmed_tokens, 800) << "it went on where it was";
}

// What a warm-up holds is as good as free: a request is admitted in the turn in
// which it comes, and none is preempted.
TEST_F(WarmupTest, GivesWayBeforeAnyRequestWaitsOrIsPreempted) {
  const auto warm = Warm({Prefix(1, 40 * kBlock), Prefix(2, 15 * kBlock)}, 2);
  for (int i = 0; i < 19; ++i) engine_.Turn();
  ASSERT_GT(engine_.Blocks().pinned, 35);
  const auto request = engine_.Submit(RandomPrompt(3, 30 * kBlock), 200);
  engine_.Turn();
  EXPECT_EQ(engine_.Stats().requests_running, 1);
  const auto second = engine_.Submit(RandomPrompt(4, 15 * kBlock), 50);
  engine_.Turn();
  EXPECT_EQ(engine_.Stats().requests_running, 2);
  engine_.RunUntilIdle();
  EXPECT_EQ(engine_.Stats().preemptions, 0);
  EXPECT_EQ(request->ids,
            FakeAnswer(RandomPrompt(3, 30 * kBlock), 200, {.temperature = 0}));
  EXPECT_TRUE(second->ok());
  TurnUntilEnded(*warm);
  EXPECT_TRUE(warm->ok()) << *warm->status;
  ExpectNothingLeft();
}

// It must not evict what running sequences are about to need.
TEST_F(WarmupTest, WaitsForRoomThatStreamsHold) {
  const auto stream = engine_.Submit(RandomPrompt(1, 40 * kBlock), 60);
  while (stream->deltas == 0) engine_.Turn();
  const auto warm = Warm({Prefix(2, 30 * kBlock)});
  while (!stream->finished.has_value()) {
    engine_.Turn();
    EXPECT_FALSE(warm->status.has_value());
  }
  EXPECT_EQ(engine_.Stats().warmed_tokens, 0);
  TurnUntilEnded(*warm);
  EXPECT_TRUE(warm->ok());
  EXPECT_EQ(engine_.Stats().preemptions, 0);
}

// --- Ends that nobody has planned.

TEST_F(WarmupTest, CalledOffKeepsWhatIsComputedAndNothingElse) {
  const auto warm = Warm({Prefix(1, 64), Prefix(2, 400), Prefix(3, 64)});
  warm->call_off_after = 6;
  TurnUntilEnded(*warm);
  EXPECT_EQ(warm->code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(warm->prefixes[0].status.ok());
  EXPECT_EQ(warm->prefixes[0].resident_tokens, 64);
  EXPECT_EQ(warm->prefixes[1].status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(warm->prefixes[1].resident_tokens, 3 * kChunk);
  EXPECT_EQ(warm->prefixes[2].status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(warm->prefixes[2].resident_tokens, 0);
  ExpectNothingLeft();
}

// An order holds its version only while it runs: a deleted one retires.
TEST_F(WarmupTest, ADeletedVersionEndsItsOrderAndRetires) {
  const VersionInfo other = engine_.AddWarmingVersion("tiny@1", 1);
  const auto warm = Warm({Prefix(1, 400)}, 1, other.id);
  for (int i = 0; i < 3; ++i) engine_.Turn();
  ASSERT_GT(engine_.Stats().warmed_tokens, 0);
  ASSERT_TRUE(engine_.versions().Delete("", "tiny@1").ok());
  engine_.Turn();
  EXPECT_EQ(warm->code(), absl::StatusCode::kFailedPrecondition);
  engine_.Turn();
  EXPECT_EQ(engine_.versions().Find(other.id), nullptr);
  ExpectNothingLeft();
}

TEST_F(WarmupTest, AFlushInBetweenIsToldAsWhatItIs) {
  const auto warm = Warm({Prefix(1, 64), Prefix(2, 320)});
  for (int i = 0; i < 6; ++i) engine_.Turn();
  engine_.Flush();
  TurnUntilEnded(*warm);
  EXPECT_EQ(warm->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(warm->prefixes[0].resident_tokens, 0);
  ExpectNothingLeft();
}

// A shrink does not wait for a warm-up, and what fits then is resident.
TEST_F(WarmupTest, GivesWayToAResizeAndGoesOnInWhatIsLeft) {
  class Quiet final : public ResizeSink {
   public:
    bool OnProgress(const ResizeReport&) override { return true; }
    void OnEnd(const absl::Status& status, const ResizeReport&) override {
      ended = status.ok();
    }
    bool ended = false;
  };
  const auto warm = Warm({Prefix(1, 20 * kBlock), Prefix(2, 40 * kBlock)});
  for (int i = 0; i < 25; ++i) engine_.Turn();
  const auto resize = std::make_shared<Quiet>();
  ASSERT_TRUE(engine_.inbox()
                  .Post(ResizeOrder{30, ResizeStrategy::kWait, false, resize})
                  .ok());
  for (int i = 0; i < 200 && !resize->ended; ++i) engine_.Turn();
  EXPECT_TRUE(resize->ended);
  TurnUntilEnded(*warm);
  EXPECT_EQ(warm->code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(warm->prefixes[1].status.message()),
              HasSubstr("wanted 40 blocks of the cache, found 30"));
  ExpectNothingLeft();
}

// A step that fails takes its prefixes with it, not the order.
TEST_F(WarmupTest, AFailedStepEndsThePrefixesInIt) {
  const auto warm = Warm({Prefix(1, 100), Prefix(2, 100)});
  engine_.Turn();
  engine_.runner().FailNextStep(absl::InternalError("on purpose"));
  TurnUntilEnded(*warm);
  EXPECT_EQ(warm->code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(warm->prefixes[0].status.message()),
              HasSubstr("on purpose"));
  EXPECT_EQ(warm->prefixes[0].resident_tokens, kChunk);
  EXPECT_TRUE(warm->prefixes[1].status.ok());
  ExpectNothingLeft();
}

TEST_F(WarmupTest, TheEndOfTheEngineEndsAllOrders) {
  std::vector<std::shared_ptr<RecordingWarm>> orders;
  for (uint64_t i = 0; i < 3; ++i) orders.push_back(Warm({Prefix(i, 200)}));
  engine_.Turn();
  engine_.inbox().Stop();
  engine_.loop().Run();
  for (const auto& order : orders) {
    EXPECT_EQ(order->code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(order->prefixes.front().resident_tokens, 0);
  }
  EXPECT_EQ(engine_.Blocks().pinned, 0);
}

TEST_F(WarmupTest, OrdersTakeTurnsAndTooManyAreRefused) {
  std::vector<std::shared_ptr<RecordingWarm>> orders;
  for (uint64_t i = 0; i <= kMaxWarmOrders; ++i) {
    if (i == kMaxWarmOrders) engine_.Turn();
    orders.push_back(Warm({Prefix(i, 640)}));
  }
  engine_.Turn();
  EXPECT_EQ(orders.back()->code(), absl::StatusCode::kResourceExhausted);
  orders.pop_back();
  for (const auto& order : orders) {
    TurnUntilEnded(*order);
    EXPECT_TRUE(order->ok());
  }
  ExpectNothingLeft();
}

TEST_F(WarmupTest, OrdersOutOfBoundsAreRefusedByName) {
  WarmOrder order;
  order.version = *engine_.directory().Resolve("", "");
  order.sink = std::make_shared<RecordingWarm>();
  EXPECT_THAT(std::string(CheckWarmOrder(order).message()),
              HasSubstr("prefixes: wanted 1 to 4096, found 0"));
  order.prefixes = {Prefix(1, 64)};
  const std::vector<TokenId> half(kMaxWarmTokens / 2, 7);
  order.prefixes = {{.tokens = half}, {.tokens = half}};
  EXPECT_TRUE(CheckWarmOrder(order).ok());
  order.prefixes.push_back(Prefix(1, 64));
  EXPECT_THAT(std::string(CheckWarmOrder(order).message()),
              HasSubstr("warm tokens: wanted at most 4194304 in all prefixes "
                        "together, found 4194368"));
  order.prefixes = {Prefix(1, 64)};
  order.parallelism = 65;
  EXPECT_THAT(std::string(CheckWarmOrder(order).message()),
              HasSubstr("parallelism: wanted 1 to 64, found 65"));
}

// Whatever comes in between: answers are those of cold runs, what is told to be
// resident is, and nothing leaks.
TEST(WarmupRandomTest, AmidRequestsFlushesAndPressure) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) {
      return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
    };
    LoopHarness engine(
        {.blocks = 24 + below(30),
         .limits = {.token_budget = 40, .prefill_chunk = 8 + below(32)}});
    engine.AddVersion("tiny@1", 1, /*activate=*/false);
    struct Asked {
      std::vector<TokenId> prompt;
      int64_t count;
      int32_t weights;
      std::shared_ptr<RecordingSink> sink;
    };
    std::vector<Asked> asked;
    std::vector<std::shared_ptr<RecordingWarm>> orders;
    for (int turn = 0; turn < 150; ++turn) {
      const int64_t what = below(10);
      const int32_t weights = static_cast<int32_t>(below(2));
      const auto version =
          *engine.directory().Resolve("", absl::StrCat("tiny@", weights));
      if (what < 2) {
        Request request = engine.MakeRequest(
            RandomPrompt(below(6), 10 + below(150)), 1 + below(20));
        request.version = version;
        asked.push_back({request.prompt, request.stopping.max_tokens, weights,
                         engine.Submit(request)});
      } else if (what == 2) {
        WarmOrder order;
        order.version = version;
        for (int64_t i = 0; i <= below(4); ++i) {
          order.prefixes.push_back(
              {.tokens = RandomPrompt(below(6), 1 + below(300))});
        }
        order.parallelism = static_cast<int32_t>(1 + below(4));
        orders.push_back(std::make_shared<RecordingWarm>());
        orders.back()->call_off_after = below(3) == 0 ? 3 : -1;
        order.sink = orders.back();
        ASSERT_TRUE(engine.inbox().Post(std::move(order)).ok());
      } else if (what == 3 && below(4) == 0) {
        engine.cache().Flush();
      }
      engine.Turn();
    }
    for (int turn = 0; turn < 5000 && engine.Turn(); ++turn) {
    }
    for (const Asked& one : asked) {
      ASSERT_TRUE(one.sink->ok());
      EXPECT_EQ(one.sink->ids, FakeAnswer(one.prompt, one.count,
                                          {.temperature = 0}, one.weights));
    }
    for (const auto& order : orders) {
      ASSERT_TRUE(order->status.has_value());
      for (const WarmedPrefix& prefix : order->prefixes) {
        if (!prefix.status.ok()) continue;
        EXPECT_EQ(prefix.resident_tokens, prefix.token_count);
        EXPECT_GT(prefix.token_count, 0);
      }
    }
    EXPECT_EQ(engine.Blocks().pinned, 0);
    engine.Flush();
    EXPECT_EQ(engine.UsedBlocks(), 0);
  }
}

}  // namespace
}  // namespace kvasir

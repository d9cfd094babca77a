#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine_loop.h"
#include "tests/support/loop_harness.h"
#include "tests/support/sequences_sink.h"

namespace kvasir {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Le;

constexpr int32_t kBlock = 16;

Request MakeSeveral(LoopHarness& engine, int64_t prompt_tokens, int32_t count,
                    int64_t max_tokens) {
  Request request =
      engine.MakeRequest(RandomPrompt(1, prompt_tokens), max_tokens);
  request.sampling = {.temperature = 1, .seed = 70};
  request.sequence_count = count;
  return request;
}

std::shared_ptr<SequencesSink> Submit(LoopHarness& engine, Request request) {
  const auto sink = std::make_shared<SequencesSink>();
  EXPECT_TRUE(engine.TrySubmit(std::move(request), sink).ok());
  return sink;
}

std::vector<TokenId> Alone(const Request& request, int32_t index) {
  return FakeAnswer(request.prompt, request.stopping.max_tokens,
                    {.temperature = 1, .seed = request.sampling.seed + index});
}

// What a client counts on: n sequences are n answers of their own, each that of
// a call with its seed.
TEST(RequestSequences, EachIsTheAnswerOfItsSeed) {
  LoopHarness engine({});
  const Request request = MakeSeveral(engine, 40, 4, 12);
  const auto sink = Submit(engine, request);
  engine.RunUntilIdle();
  ASSERT_EQ(sink->finished.size(), 4u);
  for (int32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(sink->ids[i], Alone(request, i)) << i;
    EXPECT_EQ(sink->finished[i].seed, 70u + i);
    EXPECT_EQ(sink->finished[i].reason, FinishReason::kLength);
    EXPECT_EQ(sink->finished[i].usage.prompt_tokens, 40);
    EXPECT_EQ(sink->finished[i].usage.completion_tokens, 12);
  }
}

// The prompt is computed once, whatever the request may use of the cache: the
// others compute what is in no full block.
TEST(RequestSequences, ShareTheBlocksOfTheirPrompt) {
  struct Use {
    bool caching, read, write;
  };
  for (const Use use : {Use{true, true, true}, Use{true, true, false},
                        Use{true, false, false}, Use{false, true, true}}) {
    LoopHarness engine({.prefix_caching = use.caching,
                        .limits = {.token_budget = 16, .prefill_chunk = 16}});
    Request request = MakeSeveral(engine, 100, 5, 6);
    request.cache.read = use.read;
    request.cache.write = use.write;
    const auto sink = Submit(engine, request);
    int64_t most_blocks = 0;
    while (engine.Turn()) {
      most_blocks = std::max(most_blocks, engine.Blocks().pinned);
    }
    ASSERT_EQ(sink->finished.size(), 5u);
    for (int32_t i = 0; i < 5; ++i) EXPECT_EQ(sink->ids[i], Alone(request, i));
    // 100 tokens once, then 4 x (100 - 96), then 5 x (6 - 1).
    EXPECT_EQ(engine.runner().computed_rows(), 100 + 16 + 25);
    EXPECT_LE(most_blocks, 6 + 5) << "6 blocks for all and one each";
    engine.Flush();
    EXPECT_EQ(engine.UsedBlocks(), 0);
  }
}

// FIELD_CASES MEM-1: a request counts once, however many sequences it has.
TEST(RequestSequences, CountOnce) {
  LoopHarness engine({});
  Submit(engine, MakeSeveral(engine, 100, 4, 6));
  engine.RunUntilIdle();
  const EngineStats stats = engine.Stats();
  EXPECT_EQ(stats.prompt_tokens_computed, 100);
  EXPECT_EQ(stats.prompt_tokens_cached, 0);
  EXPECT_EQ(stats.recomputed_tokens, 0);
  EXPECT_EQ(stats.repeated_tokens, 3 * (100 - 96)) << "what no block held";
  EXPECT_EQ(stats.generation_tokens, 24);
  EXPECT_EQ(stats.finished[static_cast<size_t>(FinishReason::kLength)], 1);
  EXPECT_EQ(stats.cache.counters.lookup_tokens, 100);
  EXPECT_EQ(stats.cache.counters.hit_tokens, 0);
  EXPECT_EQ(absl::c_accumulate(stats.queue_time.counts, 0), 1);
}

// A second one like it finds the prompt, and says so in all its sequences.
TEST(RequestSequences, TellTheCachedTokensOfTheirPrompt) {
  LoopHarness engine({});
  Submit(engine, MakeSeveral(engine, 100, 3, 6));
  engine.RunUntilIdle();
  Request again = MakeSeveral(engine, 100, 3, 6);
  const auto sink = Submit(engine, again);
  engine.RunUntilIdle();
  ASSERT_EQ(sink->finished.size(), 3u);
  for (const auto& [index, end] : sink->finished) {
    EXPECT_EQ(end.usage.cached_tokens, 96) << index;
  }
  EXPECT_EQ(engine.Stats().cache.counters.hit_tokens, 96);
}

// 64 sequences with 64 stops each must not cost a copy of prompt and stops each
// before they run.
TEST(RequestSequences, AreSmallUntilTheyBegin) {
  Submission submission;
  submission.request.prompt = RandomPrompt(1, 10);
  submission.request.stopping.strings = {"stop"};
  submission.request.version = IdleVersion(VersionId(1));
  submission.request.sequence_count = 2;
  const auto group = std::make_shared<RequestGroup>(std::move(submission));
  const Sequence one(SequenceId(0), group, 0, 16);
  const Sequence two(SequenceId(1), group, 1, 16);
  EXPECT_EQ(one.known_tokens().data(), group->request().prompt.data());
  EXPECT_EQ(two.known_tokens().data(), group->request().prompt.data());
  EXPECT_FALSE(group->stop_texts.has_value());
  EXPECT_LE(sizeof(Sequence), 1024u);
}

// FIELD_CASES LEAK-3: a cancel ends all of them, also those that wait and those
// of which a sister has ended.
TEST(RequestSequences, EndTogetherWhenTheRequestIsCancelled) {
  for (const int turns : {0, 1, 2, 5, 9}) {
    LoopHarness engine({.blocks = 10});
    Request request = MakeSeveral(engine, 40, 4, 50);
    // One of them is over after its first token.
    request.stopping.token_ids = {Alone(request, 2)[0]};
    const std::string id = request.id;
    const auto sink = Submit(engine, std::move(request));
    for (int i = 0; i < turns; ++i) engine.Turn();
    ASSERT_TRUE(engine.inbox().Cancel(id, CancelSource::kClient, "enough"));
    engine.Turn();
    EXPECT_EQ(engine.inbox().in_flight(), 0) << turns;
    EXPECT_TRUE(absl::IsCancelled(sink->failure)) << turns;
    EXPECT_EQ(engine.Stats().cancelled_by_client, 1);
    EXPECT_EQ(engine.Stats().requests_running, 0);
    engine.Flush();
    EXPECT_EQ(engine.UsedBlocks(), 0);
  }
}

// Sequences that lose their memory come back and say the same.
TEST(RequestSequences, SurvivePressure) {
  LoopHarness engine({.blocks = 12});
  Request first = MakeSeveral(engine, 40, 6, 60);
  Request second = MakeSeveral(engine, 50, 3, 60);
  second.prompt = RandomPrompt(2, 50);
  const auto one = Submit(engine, first);
  const auto two = Submit(engine, second);
  engine.RunUntilIdle();
  EXPECT_GT(engine.Stats().preemptions, 0);
  for (int32_t i = 0; i < 6; ++i) EXPECT_EQ(one->ids[i], Alone(first, i));
  for (int32_t i = 0; i < 3; ++i) EXPECT_EQ(two->ids[i], Alone(second, i));
  EXPECT_EQ(engine.Stats().prompt_tokens_computed, 90);
  engine.Flush();
  EXPECT_EQ(engine.UsedBlocks(), 0);
}

// More than may run at a time: the others take their turn.
TEST(RequestSequences, MoreThanRunAtATime) {
  LoopHarness engine({.limits = {.max_sequences = 2}});
  const Request request = MakeSeveral(engine, 40, 7, 5);
  const auto sink = Submit(engine, request);
  engine.RunUntilIdle();
  for (int32_t i = 0; i < 7; ++i) EXPECT_EQ(sink->ids[i], Alone(request, i));
}

// One sequence whose logits are no numbers fails the request, once, and frees
// all of it.
TEST(RequestSequences, FailTogether) {
  LoopHarness engine({});
  const auto sink = Submit(engine, MakeSeveral(engine, 40, 4, 30));
  for (int i = 0; i < 4; ++i) engine.Turn();
  engine.runner().SpoilLogitsOf(SequenceId(2));
  engine.RunUntilIdle();
  EXPECT_EQ(sink->failure.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(engine.Stats().failed, 1);
  EXPECT_EQ(engine.Stats().cancelled_by_client, 0);
  engine.Flush();
  EXPECT_EQ(engine.UsedBlocks(), 0);
}

// A time limit is an end like any other: each sequence delivers what it has.
TEST(RequestSequences, DeliverWhatTheyHaveAtTheTimeLimit) {
  LoopHarness engine({});
  Request request = MakeSeveral(engine, 40, 3, 100);
  request.time_limit = engine.clock().Now() + absl::Seconds(5);
  const auto sink = Submit(engine, request);
  for (int i = 0; i < 6; ++i) engine.Turn();
  engine.clock().Advance(absl::Seconds(6));
  engine.RunUntilIdle();
  ASSERT_EQ(sink->finished.size(), 3u);
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sink->finished[i].reason, FinishReason::kTimeLimit);
    std::vector<TokenId> whole = Alone(request, i);
    whole.resize(sink->ids[i].size());
    EXPECT_FALSE(whole.empty());
    EXPECT_EQ(sink->ids[i], whole);
  }
}

}  // namespace
}  // namespace kvasir

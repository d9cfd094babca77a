// Requests that fight for blocks: preemption, accounting, leaks and random
// loads. The fake runner's output depends on every byte of the blocks, so equal
// ids mean equal keys and values.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/loop_harness.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

constexpr int32_t kBlock = 16;
const SamplingParams kGreedy{.temperature = 0};

// FIELD_CASES SCHED-3: under pressure all finish, with the output of a solo
// run, greedy and seeded; few preemptions; the first to arrive ends early.
TEST(EnginePressure, SixRequestsInOneAndAHalfPlaces) {
  for (const float temperature : {0.0f, 0.8f}) {
    SCOPED_TRACE(temperature);
    LoopHarness engine({.blocks = 18, .block_tokens = kBlock});
    std::vector<Request> requests;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int64_t i = 0; i < 6; ++i) {
      Request request = engine.MakeRequest(RandomPrompt(i, 40), 150);
      request.sampling.temperature = temperature;
      request.sampling.seed = static_cast<uint64_t>(1000 + i);
      requests.push_back(request);
      sinks.push_back(engine.Submit(request));
    }
    std::vector<size_t> ended;
    while (engine.inbox().in_flight() > 0) {
      engine.Turn();
      for (size_t i = 0; i < sinks.size(); ++i) {
        if (!sinks[i]->finished.has_value()) continue;
        if (std::find(ended.begin(), ended.end(), i) == ended.end()) {
          ended.push_back(i);
        }
      }
    }
    EXPECT_LT(std::find(ended.begin(), ended.end(), 0) - ended.begin(), 2);
    int32_t preemptions = 0;
    for (size_t i = 0; i < sinks.size(); ++i) {
      ASSERT_TRUE(sinks[i]->ok());
      EXPECT_EQ(sinks[i]->ids,
                FakeAnswer(requests[i].prompt, 150, requests[i].sampling));
      EXPECT_LE(sinks[i]->finished->usage.preemption_count, 5);
      preemptions += sinks[i]->finished->usage.preemption_count;
    }
    EXPECT_GT(preemptions, 0) << "no pressure, no test";
    EXPECT_EQ(engine.Stats().preemptions, preemptions);
  }
}

// FIELD_CASES MEM-1: a request counts once, however often it is preempted, and
// what it computes again is neither a hit nor a prompt token.
TEST(EnginePressure, CountersAreAsIfNobodyHadBeenPreempted) {
  LoopHarness engine({.blocks = 25, .block_tokens = kBlock});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int64_t i = 0; i < 30; ++i) {
    sinks.push_back(engine.Submit(RandomPrompt(i, 100), 60));
  }
  engine.RunUntilIdle();
  int64_t recomputed = 0;
  int64_t preemptions = 0;
  for (const auto& sink : sinks) {
    ASSERT_TRUE(sink->ok());
    const Usage& usage = sink->finished->usage;
    EXPECT_EQ(usage.prompt_tokens, 100);
    EXPECT_EQ(usage.cached_tokens, 0);
    EXPECT_EQ(usage.completion_tokens, 60);
    recomputed += usage.recomputed_tokens;
    preemptions += usage.preemption_count;
  }
  EXPECT_GT(preemptions, 2);
  const EngineStats stats = engine.Stats();
  EXPECT_EQ(stats.cache.counters.hit_tokens, 0);
  EXPECT_EQ(stats.cache.counters.lookup_tokens, 30 * 100);
  EXPECT_EQ(stats.prompt_tokens_computed, 30 * 100);
  EXPECT_EQ(stats.prompt_tokens_cached, 0);
  EXPECT_EQ(stats.generation_tokens, 30 * 60);
  EXPECT_EQ(stats.recomputed_tokens, recomputed);
  EXPECT_EQ(stats.cache.counters.recomputed_tokens, recomputed);
  // Every row is accounted for: prompts, outputs but the last, and what was
  // lost.
  EXPECT_EQ(engine.runner().computed_rows(), 30 * (100 + 59) + recomputed);
}

// A long system prompt that everybody shares is in the cache once; counted once
// per request, it would make them wait for room that they do not need.
TEST(EnginePressure, SharedPrefixesAreAdmittedTogether) {
  constexpr int64_t kShared = 40 * kBlock;
  // The prefix, and for eight requests one block of their own and one to grow.
  LoopHarness engine({.blocks = 40 + 8 * 2, .block_tokens = kBlock});
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int64_t i = 0; i < 8; ++i) {
    std::vector<TokenId> prompt = RandomPrompt(7, kShared);
    for (const TokenId id : RandomPrompt(100 + i, 5)) prompt.push_back(id);
    sinks.push_back(engine.Submit(prompt, 20));
  }
  int64_t most_running = 0;
  while (engine.inbox().in_flight() > 0) {
    engine.Turn();
    most_running = std::max(most_running, engine.Stats().requests_running);
  }
  EXPECT_EQ(most_running, 8);
  EXPECT_EQ(engine.Stats().preemptions, 0);
  for (const auto& sink : sinks) EXPECT_TRUE(sink->ok());
}

// FIELD_CASES LEAK-2: totals around the borders of blocks, one by one and eight
// at a time, leave exactly nothing behind.
TEST(EnginePressure, NothingLeaksAroundBlockBorders) {
  for (const bool prefix_caching : {false, true}) {
    LoopHarness engine({.prefix_caching = prefix_caching});
    for (const int64_t total :
         {kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 2 * kBlock + 1}) {
      for (int64_t i = 0; i < 200; ++i) {
        const int64_t prompt = 1 + i % (total - 1);
        engine.Submit(RandomPrompt(i, prompt), total - prompt);
        if (i < 100 || i % 8 == 7) engine.RunUntilIdle();
      }
      if (prefix_caching) engine.Flush();
      EXPECT_EQ(engine.UsedBlocks(), 0) << total;
    }
    EXPECT_EQ(engine.Stats().cache.versions.at(0).lease_count, 0);
  }
}

// One random life of an engine: requests with shared and unique prefixes, salts
// and ends of every kind, against the answers of solo runs.
class Soak {
 public:
  explicit Soak(uint32_t seed)
      : random_(seed),
        prefix_caching_(Pick(0, 3) > 0),
        engine_(
            {.blocks = Pick(4, 60),
             .block_tokens = 8,
             .prefix_caching = prefix_caching_,
             .inbox_limit = 12,
             .limits = {.token_budget = Pick(1, 80),
                        .prefill_chunk = Pick(1, 80),
                        .max_sequences = static_cast<int32_t>(Pick(1, 10))}}) {}

  void Run(int64_t operations) {
    for (int64_t i = 0; i < operations && !::testing::Test::HasFailure(); ++i) {
      Operate();
    }
    engine_.RunUntilIdle();
    for (const Call& call : calls_) Check(call);
    engine_.Flush();
    EXPECT_EQ(engine_.UsedBlocks(), 0);
    CheckTotals();
  }

 private:
  struct Call {
    Request request;
    std::shared_ptr<RecordingSink> sink;
  };

  int64_t Pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }

  void Operate() {
    switch (Pick(0, 19)) {
      case 0:
        if (!calls_.empty()) {
          engine_.inbox().Cancel(
              calls_[Pick(0, static_cast<int64_t>(calls_.size()) - 1)]
                  .request.id,
              CancelSource::kClient, "soak");
        }
        return;
      case 1:
        engine_.clock().Advance(absl::Seconds(1));
        return;
      case 2:
        if (Pick(0, 4) == 0) engine_.Flush();
        return;
      case 3:
        // Never thrice in a row: that would be the end of the engine.
        if (Pick(0, 4) == 0 && engine_.runner().steps().size() != failed_at_) {
          failed_at_ = engine_.runner().steps().size();
          engine_.runner().FailNextStep(absl::InternalError("soak"));
        }
        return;
      case 4:
      case 5:
      case 6:
        Submit();
        return;
      default:
        engine_.Turn();
    }
  }

  void Submit() {
    const int64_t context = engine_.limits().EffectiveContext();
    std::vector<TokenId> prompt =
        RandomPrompt(Pick(0, 3), Pick(1, context - 1));
    const int64_t own = Pick(0, static_cast<int64_t>(prompt.size()));
    const std::vector<TokenId> tail = RandomPrompt(Pick(0, 1000), own);
    std::copy(tail.begin(), tail.end(), prompt.end() - own);
    Call call;
    call.request = engine_.MakeRequest(prompt, Pick(0, 40));
    call.request.sampling.temperature = Pick(0, 1) == 0 ? 0.0f : 0.9f;
    call.request.sampling.seed = static_cast<uint64_t>(Pick(0, 5));
    call.request.cache.salt = Pick(0, 5) == 0 ? "other" : "";
    call.request.cache.read = Pick(0, 9) > 0;
    call.request.cache.write = Pick(0, 9) > 0;
    if (Pick(0, 5) == 0) {
      call.request.deadline =
          engine_.clock().Now() + absl::Seconds(Pick(0, 10));
    }
    call.sink = std::make_shared<RecordingSink>();
    if (Pick(0, 9) == 0) call.sink->reads = Pick(0, 10);
    const absl::Status status = engine_.TrySubmit(call.request, call.sink);
    if (status.ok()) {
      calls_.push_back(std::move(call));
    } else {
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    }
  }

  void Check(const Call& call) {
    ASSERT_TRUE(call.sink->finished.has_value());
    const std::vector<TokenId>& ids = call.sink->ids;
    EXPECT_EQ(ids,
              FakeAnswer(call.request.prompt, static_cast<int64_t>(ids.size()),
                         call.request.sampling));
    EXPECT_EQ(call.sink->text, DecodeText(TinyTokenizer(), ids, true));
    const Usage& usage = call.sink->finished->usage;
    EXPECT_EQ(usage.completion_tokens, static_cast<int64_t>(ids.size()));
    EXPECT_LT(usage.cached_tokens, usage.prompt_tokens);
    if (!call.request.cache.read || !prefix_caching_) {
      EXPECT_EQ(usage.cached_tokens, 0);
    }
    if (!call.sink->ok()) return;
    const int64_t room = engine_.limits().EffectiveContext() -
                         static_cast<int64_t>(call.request.prompt.size());
    const int64_t wanted = call.request.stopping.max_tokens;
    EXPECT_EQ(usage.completion_tokens,
              wanted == 0 ? room : std::min(wanted, room));
  }

  void CheckTotals() {
    const EngineStats stats = engine_.Stats();
    EXPECT_TRUE(stats.healthy);
    int64_t ended =
        stats.failed + stats.cancelled_by_client + stats.cancelled_by_deadline;
    for (const int64_t count : stats.finished) ended += count;
    EXPECT_EQ(ended, static_cast<int64_t>(calls_.size()));
    Usage sum;
    for (const Call& call : calls_) {
      sum.cached_tokens += call.sink->finished->usage.cached_tokens;
      sum.completion_tokens += call.sink->finished->usage.completion_tokens;
      sum.recomputed_tokens += call.sink->finished->usage.recomputed_tokens;
      sum.preemption_count += call.sink->finished->usage.preemption_count;
    }
    EXPECT_EQ(stats.prompt_tokens_cached, sum.cached_tokens);
    EXPECT_EQ(stats.generation_tokens, sum.completion_tokens);
    EXPECT_EQ(stats.recomputed_tokens, sum.recomputed_tokens);
    EXPECT_EQ(stats.preemptions, sum.preemption_count);
    // Each computed row is the first for its token, or counted as recomputed.
    EXPECT_LE(stats.prompt_tokens_computed + stats.recomputed_tokens,
              engine_.runner().computed_rows());
  }

  std::mt19937 random_;
  const bool prefix_caching_;
  LoopHarness engine_;
  std::vector<Call> calls_;
  size_t failed_at_ = static_cast<size_t>(-1);
};

// What no list of cases thinks of.
TEST(EnginePressure, RandomLives) {
  const uint32_t first_seed = std::random_device()();
  for (uint32_t seed = first_seed; seed < first_seed + 40; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Soak(seed).Run(600);
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace kvasir

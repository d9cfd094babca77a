#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine_loop.h"
#include "tests/support/loop_harness.h"
#include "tests/support/sequences_sink.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kBlock = 16;

std::shared_ptr<SequencesSink> Submit(LoopHarness& engine, Request request) {
  const auto sink = std::make_shared<SequencesSink>();
  EXPECT_TRUE(engine.TrySubmit(std::move(request), sink).ok());
  return sink;
}

Request Scored(LoopHarness& engine, const std::vector<TokenId>& prompt,
               int64_t start) {
  Request request = engine.MakeRequest(prompt, 4);
  request.output.prompt_logprobs = LogprobWish{.top_count = 0};
  request.output.prompt_logprob_start = start;
  return request;
}

std::vector<TokenId> ChosenIds(const std::vector<PositionLogprobs>& scores) {
  std::vector<TokenId> ids;
  for (const PositionLogprobs& position : scores) {
    ids.push_back(position.chosen.has_value() ? position.chosen->id : -1);
  }
  return ids;
}

// FIELD_CASES PFX-3: exactly one entry per prompt token, the same in a cold run
// and with all of it cached, at every length around a block's.
TEST(OutputWish, ScoresEachPromptTokenOnceWhateverIsCached) {
  for (const int64_t length : {1, 15, 16, 17, 47, 48, 49, 200}) {
    LoopHarness engine({});
    const std::vector<TokenId> prompt = RandomPrompt(length, length);
    std::vector<TokenId> wanted = prompt;
    wanted[0] = -1;
    std::vector<float> first;
    for (int call = 0; call < 3; ++call) {
      const auto sink = Submit(engine, Scored(engine, prompt, 0));
      engine.RunUntilIdle();
      ASSERT_TRUE(sink->failure.ok());
      EXPECT_EQ(ChosenIds(sink->scores), wanted) << length;
      std::vector<float> values;
      for (const PositionLogprobs& position : sink->scores) {
        values.push_back(position.chosen ? position.chosen->logprob : 0);
      }
      if (call == 0) first = values;
      EXPECT_EQ(values, first) << length;
      EXPECT_EQ(sink->finished[0].usage.cached_tokens, 0)
          << "what is scored is computed";
    }
  }
}

// What need not be scored may come from the cache.
TEST(OutputWish, ScoresFromTheWantedPlaceOn) {
  LoopHarness engine({});
  const std::vector<TokenId> prompt = RandomPrompt(1, 100);
  engine.Submit(prompt, 1);
  engine.RunUntilIdle();
  for (const int64_t start : {1, 47, 48, 49, 64, 99}) {
    const auto sink = Submit(engine, Scored(engine, prompt, start));
    engine.RunUntilIdle();
    EXPECT_EQ(ChosenIds(sink->scores),
              std::vector<TokenId>(prompt.begin() + start, prompt.end()))
        << start;
    EXPECT_EQ(sink->finished[0].usage.cached_tokens,
              (start - 1) / kBlock * kBlock);
  }
}

// Two that score at once need logits of no more rows than one does.
TEST(OutputWish, ScoresOnePromptAfterTheOther) {
  LoopHarness engine({});
  const auto one = Submit(engine, Scored(engine, RandomPrompt(1, 90), 0));
  const auto two = Submit(engine, Scored(engine, RandomPrompt(2, 110), 0));
  engine.RunUntilIdle();
  EXPECT_EQ(one->scores.size(), 90u);
  EXPECT_EQ(two->scores.size(), 110u);
  for (const auto& step : engine.runner().steps()) {
    int64_t rows = 0;
    for (const FakeRunner::Entry& entry : step) rows += entry.scored;
    EXPECT_LE(rows, kMaxScoredRows);
  }
}

// Nor do steps become small, nor does anybody rest, before there is something
// to score.
TEST(OutputWish, ComputesWhatIsNotScoredLikeAnyOther) {
  LoopHarness engine({.limits = {.token_budget = 400, .prefill_chunk = 200}});
  const auto one = Submit(engine, Scored(engine, RandomPrompt(1, 170), 161));
  const auto two = Submit(engine, Scored(engine, RandomPrompt(2, 180), 171));
  engine.Turn();
  ASSERT_EQ(engine.runner().steps().size(), 1u);
  EXPECT_EQ(engine.runner().computed_rows(), 170 + 170);
  engine.RunUntilIdle();
  EXPECT_EQ(one->scores.size(), 9u);
  EXPECT_EQ(two->scores.size(), 9u);
}

// One that loses its memory amid its scores neither repeats nor skips any.
TEST(OutputWish, ScoresSurviveAPreemption) {
  LoopHarness engine(
      {.blocks = 12, .limits = {.token_budget = 2, .prefill_chunk = 2}});
  engine.Submit(RandomPrompt(1, 40), 110);
  for (int i = 0; i < 21; ++i) engine.Turn();
  std::vector<TokenId> wanted = RandomPrompt(2, 110);
  const auto sink = Submit(engine, Scored(engine, wanted, 0));
  engine.RunUntilIdle();
  ASSERT_TRUE(sink->failure.ok());
  EXPECT_GT(sink->finished[0].usage.preemption_count, 0);
  wanted[0] = -1;
  EXPECT_EQ(ChosenIds(sink->scores), wanted);
}

TEST(OutputWish, GeneratedTokensHaveLogprobsOnlyIfWanted) {
  LoopHarness engine({});
  Request request = engine.MakeRequest(RandomPrompt(1, 20), 5);
  request.output.logprobs = LogprobWish{.top_count = 2};
  const auto wanting = Submit(engine, request);
  engine.RunUntilIdle();
  EXPECT_EQ(ChosenIds(wanting->logprobs[0]), wanting->ids[0]);
  const auto other = Submit(engine, engine.MakeRequest(RandomPrompt(1, 20), 5));
  engine.RunUntilIdle();
  EXPECT_THAT(other->logprobs[0], IsEmpty());
}

// Progress grows, ends below the whole and costs those nothing who do not ask.
TEST(OutputWish, ProgressIsToldStepByStep) {
  LoopHarness engine({.limits = {.token_budget = 32, .prefill_chunk = 32}});
  Request request = engine.MakeRequest(RandomPrompt(1, 100), 2);
  request.output.progress = true;
  const auto sink = Submit(engine, request);
  engine.RunUntilIdle();
  std::vector<int64_t> done;
  for (const ProgressEvent& event : sink->progress) {
    EXPECT_EQ(event.total_tokens, 100);
    done.push_back(event.done_tokens);
  }
  EXPECT_THAT(done, ElementsAre(32, 64, 96));
}

// FIELD_CASES STR-2 and STR-3 where it counts: in the events of a sequence.
class StopStrings : public ::testing::Test {
 protected:
  // The tiny vocabulary has a token for each byte, from id 3 on.
  static std::vector<TokenId> Script(const std::string& text) {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(3 + static_cast<uint8_t>(c));
    return ids;
  }

  FinishedEvent Run(const std::string& script, std::vector<std::string> stops,
                    bool include = false, int64_t min_tokens = 0) {
    std::vector<TokenId> ids = Script(script);
    ids.push_back(2);  // ends a generation
    LoopHarness engine({.hooks = {.script = ids}});
    Request request = engine.MakeRequest(RandomPrompt(1, 20), 100);
    request.stopping = {.max_tokens = 100,
                        .min_tokens = min_tokens,
                        .strings = std::move(stops),
                        .include_stop = include};
    const auto sink = Submit(engine, request);
    engine.RunUntilIdle();
    text_ = sink->text[0];
    tokens_ = static_cast<int64_t>(sink->ids[0].size());
    return sink->finished[0];
  }

  std::string text_;
  int64_t tokens_ = 0;
};

TEST_F(StopStrings, EndRightBeforeTheMatch) {
  const std::string text = "The old harbour caf\xC3\xA9.";
  for (const auto& [stop, before] : std::vector<std::pair<std::string, size_t>>{
           {"rbo", 10}, {"d har", 6}, {"\xC3\xA9", 19}, {"f\xC3\xA9.", 18}}) {
    const FinishedEvent end = Run(text, {stop});
    EXPECT_EQ(text_, text.substr(0, before));
    EXPECT_EQ(end.reason, FinishReason::kStopString);
    EXPECT_EQ(end.matched_text, stop);
    EXPECT_EQ(end.matched_token, -1);
    EXPECT_EQ(tokens_, before + stop.size()) << "ids are all there";
    Run(text, {stop}, /*include=*/true);
    EXPECT_EQ(text_, text.substr(0, before + stop.size()));
  }
  EXPECT_EQ(Run(text, {"harbor"}).reason, FinishReason::kEos) << "a near miss";
  EXPECT_EQ(text_, text);
}

TEST_F(StopStrings, HeldTextIsDeliveredAtTheEnd) {
  EXPECT_EQ(Run("alpha beta gam", {"gamma ray"}).reason, FinishReason::kEos);
  EXPECT_EQ(text_, "alpha beta gam");
  EXPECT_EQ(Run("end.\n", {"\n"}).reason, FinishReason::kStopString);
  EXPECT_EQ(text_, "end.");
}

// Before min_tokens neither a text nor an end token ends it.
TEST_F(StopStrings, WaitForTheFewestTokens) {
  EXPECT_EQ(Run("ab ab ab", {"ab"}, false, 6).reason,
            FinishReason::kStopString);
  EXPECT_EQ(text_, "ab ab ");
  EXPECT_EQ(Run("abc", {}, false, 50).reason, FinishReason::kLength)
      << "the end token that the script forces is passed over";
}

}  // namespace
}  // namespace kvasir

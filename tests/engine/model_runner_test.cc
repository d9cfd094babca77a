#include "engine/model_runner.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/hooked_runner.h"
#include "tests/support/loop_harness.h"
#include "tests/support/model_fixture.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Lt;

constexpr int32_t kBlock = 16;
const SamplingParams kGreedy{.temperature = 0};

std::vector<TokenId> Tokens(const std::vector<StepResult>& results) {
  std::vector<TokenId> tokens;
  for (const StepResult& result : results) tokens.push_back(result.token);
  return tokens;
}

// A tiny model and, for each sequence, four blocks of plain memory.
class ModelRunnerTest : public ::testing::Test {
 protected:
  static constexpr int64_t kBlocksEach = 4;

  ModelRunnerTest() : bytes_(TinyModelBytes()) {
    fixture_ = std::make_unique<ModelFixture>(
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes_.data()),
                            bytes_.size()),
        CpuBackendOptions{.thread_count = 1}, KvType::kF16, kBlock);
    memory_.resize(3 * kBlocksEach * fixture_->layout().BlockBytes());
    ids_.resize(3 * kBlocksEach);
    for (size_t i = 0; i < ids_.size(); ++i) {
      ids_[i] = BlockId(static_cast<BlockId::Value>(i));
    }
  }

  ModelRunner MakeRunner(int32_t sampleable_count, LogitsObserver observer) {
    return ModelRunner(&fixture_->transformer(),
                       {.layout = fixture_->layout(),
                        .sampleable_count = sampleable_count,
                        .observer = std::move(observer)});
  }

  StepRows Rows(int64_t sequence, absl::Span<const TokenId> tokens,
                int64_t first_position, const SamplingParams* sampling) {
    return {.id = SequenceId(sequence),
            .tokens = tokens,
            .first_position = first_position,
            .table = {memory_.data(), fixture_->layout().BlockBytes(),
                      absl::MakeConstSpan(ids_).subspan(sequence * kBlocksEach,
                                                        kBlocksEach)},
            .sampling = sampling,
            .draw = {.tokens = absl::MakeConstSpan(history_).first(
                         static_cast<size_t>(first_position) + tokens.size())}};
  }

  std::string bytes_;
  std::unique_ptr<ModelFixture> fixture_;
  std::vector<std::byte> memory_;
  std::vector<BlockId> ids_;
  // Greedy draws without penalties do not look at what it holds.
  const std::vector<TokenId> history_ =
      std::vector<TokenId>(kBlocksEach * kBlock, 0);
};

// Rows, logits and tokens must not be mixed up between the sequences of a step,
// of which some want a token and some do not.
TEST_F(ModelRunnerTest, EachSequenceGetsItsOwnToken) {
  const std::vector<TokenId> a = RandomPrompt(1, 20);
  const std::vector<TokenId> b = RandomPrompt(2, 33);
  const std::vector<TokenId> c = RandomPrompt(3, 7);
  std::vector<std::pair<int64_t, int64_t>> observed;
  ModelRunner runner = MakeRunner(
      259, [&](SequenceId id, int64_t position, absl::Span<const float>) {
        observed.emplace_back(id.value(), position);
      });
  std::vector<TokenId> alone;
  for (const auto& [sequence, prompt] : {std::pair{0, &a}, {1, &b}, {2, &c}}) {
    const StepRows rows = Rows(sequence, *prompt, 0, &kGreedy);
    const auto tokens = runner.Run({&rows, 1});
    ASSERT_TRUE(tokens.ok());
    alone.push_back(tokens->at(0).token);
  }
  observed.clear();
  const std::vector<StepRows> step = {
      Rows(0, a, 0, &kGreedy), Rows(1, b, 0, nullptr), Rows(2, c, 0, &kGreedy)};
  const auto together = runner.Run(step);
  ASSERT_TRUE(together.ok());
  EXPECT_THAT(Tokens(*together), ElementsAre(alone[0], -1, alone[2]));
  EXPECT_THAT(observed, ElementsAre(std::pair{0, 20}, std::pair{2, 7}));

  // A second step goes on where the first one stopped.
  const std::vector<TokenId> next = {together->at(0).token};
  const StepRows rows = Rows(0, next, 20, &kGreedy);
  ASSERT_TRUE(runner.Run({&rows, 1}).ok());
  EXPECT_EQ(observed.back(), (std::pair<int64_t, int64_t>{0, 21}));
}

// Damaged keys and values must not end in a token that looks like any other.
// Every way of drawing one would give something.
TEST_F(ModelRunnerTest, SaysWhenLogitsAreNoNumbers) {
  ModelRunner runner = MakeRunner(259, {});
  const std::vector<TokenId> prompt = RandomPrompt(1, 20);
  const std::vector<TokenId> next = {7};
  const auto step = [&](int64_t sequence) {
    return Rows(sequence, next, 20, &kGreedy);
  };
  for (int64_t sequence : {0, 1}) {
    const StepRows rows = Rows(sequence, prompt, 0, nullptr);
    ASSERT_TRUE(runner.Run({&rows, 1}).ok());
  }
  const StepRows sound = step(1);
  const TokenId wanted = runner.Run({&sound, 1})->at(0).token;
  // 0xFFFF is no number in any float format. Key or value, first or last token.
  const size_t block = static_cast<size_t>(fixture_->layout().BlockBytes());
  for (const size_t at : {size_t{0}, block / 2, block - 2}) {
    std::vector<std::byte> before(memory_.begin(), memory_.begin() + block);
    memory_[at] = memory_[at + 1] = std::byte{0xFF};
    const std::vector<StepRows> both = {step(0), step(1)};
    EXPECT_THAT(Tokens(*runner.Run(both)),
                ElementsAre(kLogitsNotFinite, wanted))
        << at;
    absl::c_copy(before, memory_.begin());
  }
}

// Contract C2 for scores: how likely a token is found depends neither on the
// rows that are computed with it nor on whether it was drawn or given.
TEST_F(ModelRunnerTest, ScoresAreBitEqualHoweverTheyAreComputed) {
  ModelRunner runner = MakeRunner(259, {});
  const std::vector<TokenId> prompt = RandomPrompt(1, 30);
  const LogprobWish wish{.top_count = 3, .ids = {7}};
  const auto score = [&](int64_t sequence, int64_t first, int64_t count) {
    StepRows rows =
        Rows(sequence, absl::MakeConstSpan(prompt).subspan(first, count), first,
             &kGreedy);
    rows.draw.tokens = prompt;
    rows.sampling = first + count == 30 ? &kGreedy : nullptr;
    rows.scores = &wish;
    rows.scored_end = first + count == 30 ? count - 1 : count;
    return runner.Run({&rows, 1})->at(0).scores;
  };
  const std::vector<PositionLogprobs> whole = score(0, 0, 30);
  ASSERT_EQ(whole.size(), 29u);
  std::vector<PositionLogprobs> pieces;
  for (int64_t first = 0; first < 30; first += 6) {
    for (PositionLogprobs& position : score(1, first, 6)) {
      pieces.push_back(std::move(position));
    }
  }
  ASSERT_EQ(pieces.size(), 29u);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_EQ(whole[i].chosen->id, prompt[i + 1]);
    EXPECT_EQ(whole[i].chosen, pieces[i].chosen) << i;
    EXPECT_EQ(whole[i].top, pieces[i].top) << i;
    EXPECT_GE(whole[i].top.size(), 3u);
    EXPECT_LE(whole[i].chosen->logprob, whole[i].top[0].logprob);
  }
}

// FIELD_CASES LOAD-4: the sampler's bound is the runner's to pass on.
TEST_F(ModelRunnerTest, SamplesOnlyIdsThatExist) {
  ModelRunner runner = MakeRunner(40, {});
  std::vector<TokenId> sampled;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const SamplingParams wild{.temperature = 50, .seed = seed};
    const std::vector<TokenId> prompt = RandomPrompt(seed, 5);
    const StepRows rows = Rows(0, prompt, 0, &wild);
    sampled.push_back(runner.Run({&rows, 1})->at(0).token);
  }
  EXPECT_THAT(sampled, Each(Lt(40)));
}

// A step that the model refuses is the engine's to roll back, so the error has
// to reach it.
TEST_F(ModelRunnerTest, PassesErrorsOn) {
  ModelRunner runner = MakeRunner(259, {});
  const std::vector<TokenId> prompt = {5, 100000};
  const StepRows rows = Rows(0, prompt, 0, &kGreedy);
  EXPECT_EQ(runner.Run({&rows, 1}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// What end-to-end tests script has to come out, also over a preemption, where
// the sequence's first tokens are not asked for again.
TEST(HookedRunner, ScriptsByPlaceInTheOutput) {
  const KvLayout layout = FakeLayout(kBlock);
  std::vector<std::byte> memory(layout.BlockBytes());
  const BlockId block(0);
  const BlockTableView table{memory.data(), layout.BlockBytes(), {&block, 1}};
  HookedRunner runner(std::make_shared<FakeRunner>(layout),
                      {.script = {70, 71}});
  std::vector<TokenId> tokens = RandomPrompt(1, 5);
  const LogprobWish wish = {.top_count = 1};
  const auto run = [&](int64_t first, int64_t count) {
    const StepRows rows{
        .id = SequenceId(0),
        .tokens = absl::MakeConstSpan(tokens).subspan(first, count),
        .first_position = first,
        .table = table,
        .sampling = &kGreedy,
        .logprobs = &wish};
    const StepResult result = runner.Run({&rows, 1})->at(0);
    // Of the token that comes out, or of none.
    EXPECT_TRUE(!result.logprobs.has_value() ||
                result.logprobs->chosen->id == result.token);
    tokens.push_back(result.token);
    return result.token;
  };
  EXPECT_EQ(run(0, 5), 70);
  EXPECT_EQ(run(0, 6), 71) << "computed again from the start";
  const TokenId unscripted = FakeAnswer(tokens, 1, kGreedy)[0];
  EXPECT_EQ(run(6, 1), unscripted) << "the script is over";
}

TEST(HookedRunner, FailsTheStepsItIsToldTo) {
  const auto fake = std::make_shared<FakeRunner>(FakeLayout(kBlock));
  HookedRunner runner(fake, {.first_failing_step = 2, .failing_steps = 2});
  std::vector<bool> ok;
  for (int step = 0; step < 5; ++step) ok.push_back(runner.Run({}).ok());
  EXPECT_THAT(ok, ElementsAre(true, false, false, true, true));
  EXPECT_EQ(fake->steps().size(), 3u) << "a failing step is not computed";
}

}  // namespace
}  // namespace kvasir

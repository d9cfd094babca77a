// What sampling settings mean once an engine draws with them.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "engine/model/sampler.h"
#include "tests/support/exactness_rig.h"
#include "tests/support/loop_harness.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

EngineOptions Options() {
  EngineOptions options;
  options.model_path = TempPath("tiny.gguf");
  EXPECT_TRUE(WriteTinyModel({}, options.model_path).ok());
  options.cache_blocks = 128;
  options.context_limit = 1024;
  options.thread_count = 1;
  return options;
}

// A penalty counts what its sequence has said so far: each token must be the
// one that its own logits, prompt and output give.
TEST(SamplingEngine, DrawsFromTheSequenceSoFar) {
  ExactnessRig rig(Options());
  std::vector<ExactnessCase> cases;
  for (uint64_t i = 0; i < 6; ++i) {
    cases.push_back({.prompt = RandomPrompt(i, 5 + 13 * i),
                     .max_tokens = 40,
                     .sampling = {.temperature = i % 2 == 0 ? 0.0f : 1.5f,
                                  .seed = i,
                                  .frequency_penalty = 0.8f,
                                  .presence_penalty = -0.5f,
                                  .repetition_penalty = 1.3f,
                                  .penalty_window = i < 3 ? 0 : 20}});
  }
  const std::vector<ExactnessAnswer> answers =
      rig.Run(cases, {0, 3, 1, 9, 0, 5});
  SamplerScratch scratch;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::vector<TokenId> tokens = cases[i].prompt;
    ASSERT_EQ(answers[i].ids.size(), answers[i].logits.size());
    for (size_t k = 0; k < answers[i].ids.size(); ++k) {
      const std::vector<float>& logits = answers[i].logits[k];
      const DrawContext context = {
          .tokens = tokens,
          .prompt_tokens = static_cast<int64_t>(cases[i].prompt.size())};
      ASSERT_EQ(SampleToken(logits, cases[i].sampling, context,
                            static_cast<int32_t>(logits.size()), scratch),
                answers[i].ids[k])
          << "case " << i << ", token " << k;
      tokens.push_back(answers[i].ids[k]);
    }
  }
}

// FIELD_CASES SAM-2: settings of one request must not touch another, whoever
// else is there and whoever comes late.
TEST(SamplingEngine, SettingsTouchNobodyElse) {
  const ExactnessCase a = {.prompt = RandomPrompt(1, 30),
                           .max_tokens = 100,
                           .sampling = {.temperature = 0}};
  ExactnessCase b = {.prompt = RandomPrompt(2, 55),
                     .max_tokens = 70,
                     .sampling = {.temperature = 0,
                                  .frequency_penalty = 0.9f,
                                  .repetition_penalty = 1.3f,
                                  .logit_bias = {{10, 3}}}};
  ExactnessRig rig(Options());
  const std::vector<TokenId> a_alone = rig.RunAlone({a})[0].ids;
  const std::vector<TokenId> b_alone = rig.RunAlone({b})[0].ids;
  ASSERT_EQ(a_alone.size(), 100u);
  ASSERT_EQ(b_alone.size(), 70u);
  b.sampling = a.sampling;
  EXPECT_NE(rig.RunAlone({b})[0].ids, b_alone) << "settings do nothing";
  b.sampling = {.temperature = 0,
                .frequency_penalty = 0.9f,
                .repetition_penalty = 1.3f,
                .logit_bias = {{10, 3}}};
  struct Mix {
    std::string cases;
    std::vector<int64_t> arrivals;
  };
  for (const Mix& mix : std::vector<Mix>{{"ab", {0, 0}},
                                         {"ba", {0, 0}},
                                         {"abbb", {0, 0, 0, 0}},
                                         {"ab", {25, 0}},
                                         {"abbb", {40, 0, 10, 45}}}) {
    rig.Flush();
    std::vector<ExactnessCase> cases;
    for (const char one : mix.cases) cases.push_back(one == 'a' ? a : b);
    const std::vector<ExactnessAnswer> answers = rig.Run(cases, mix.arrivals);
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(answers[i].ids, mix.cases[i] == 'a' ? a_alone : b_alone)
          << mix.cases << ", request " << i;
    }
  }
}

}  // namespace
}  // namespace kvasir

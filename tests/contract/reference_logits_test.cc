// SmolLM2's logits against a float32 reference that another implementation
// computed. Needs the model: KVASIR_TEST_MODEL names the GGUF.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "engine/backend/cpu/cpu_backend.h"
#include "tests/support/kl_reference.h"
#include "tests/support/model_fixture.h"

namespace kvasir {
namespace {

// With 32-bit activations only rounding is left, and with f16 blocks theirs;
// with 8-bit activations their quantization shows.
constexpr double kMaxMeanKlF32 = 1e-6;
constexpr double kMaxMeanKlF16Blocks = 1e-4;
constexpr double kMaxMeanKlQ8 = 2e-3;
// A greedy step may differ by a token whose logit is at most so much lower.
constexpr float kNearTie = 0.25f;
constexpr int kGreedySteps = 32;

std::string ReadFixture(const std::string& name) {
  std::ifstream file(
      std::string(KVASIR_SOURCE_DIR) + "/tests/fixtures/smollm2/" + name,
      std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class ReferenceLogits : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("KVASIR_TEST_MODEL");
    if (path == nullptr) GTEST_SKIP() << "KVASIR_TEST_MODEL is not set";
    path_ = path;
  }

  double MeanDivergence(ActivationType activations, KvType kv_type) const {
    ModelFixture model(path_, {.activations = activations}, kv_type);
    const KlReference reference(ReadFixture("kl_reference.bin"));
    const auto logits = model.AllLogits(reference.Tokens());
    double sum = 0, worst = 0;
    for (int i = 0; i < reference.positions(); ++i) {
      const double divergence = reference.Divergence(i, logits[i]);
      sum += divergence;
      worst = std::max(worst, divergence);
    }
    const double mean = sum / reference.positions();
    std::printf("%s activations, %s blocks: mean KL %.3g, worst %.3g\n",
                activations == ActivationType::kQ8 ? "8-bit" : "32-bit",
                kv_type == KvType::kF16 ? "f16" : "f32", mean, worst);
    return mean;
  }

  std::string path_;
};

TEST_F(ReferenceLogits, ThirtyTwoBitActivationsLeaveOnlyRounding) {
  EXPECT_LT(MeanDivergence(ActivationType::kF32, KvType::kF32), kMaxMeanKlF32);
}

TEST_F(ReferenceLogits, HalfPrecisionBlocksCostLittle) {
  EXPECT_LT(MeanDivergence(ActivationType::kF32, KvType::kF16),
            kMaxMeanKlF16Blocks);
}

TEST_F(ReferenceLogits, EightBitActivationsStayWithinTheBound) {
  EXPECT_LT(MeanDivergence(ActivationType::kQ8, KvType::kF16), kMaxMeanKlQ8);
}

TokenId Best(const std::vector<float>& logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

// One step of the reference's greedy continuations and our logits there. The
// reference's own choices are fed, so that a near tie does not hide what
// follows.
struct GreedyStep {
  std::string name;
  TokenId expected;
  std::vector<float> logits;
};

std::vector<GreedyStep> GreedySteps(ModelFixture& model) {
  const auto golden = nlohmann::json::parse(ReadFixture("greedy_golden.json"));
  std::vector<GreedyStep> steps;
  for (const auto& example : golden["cases"]) {
    auto tokens = example["prompt_ids"].get<std::vector<TokenId>>();
    const auto expected = example["greedy_ids"].get<std::vector<TokenId>>();
    const size_t prompt = tokens.size();
    tokens.insert(tokens.end(), expected.begin(),
                  expected.begin() + kGreedySteps - 1);
    const auto logits = model.AllLogits(tokens);
    for (int step = 0; step < kGreedySteps; ++step) {
      steps.push_back({example["name"].get<std::string>() + ", step " +
                           std::to_string(step),
                       expected[step], logits[prompt - 1 + step]});
    }
  }
  return steps;
}

// With 8-bit activations another token than the reference's may win, but only
// one that is nearly as likely in float32, whose greedy steps must all agree.
TEST_F(ReferenceLogits, GreedyStepsAgreeInFloat32AndButForNearTiesIn8Bits) {
  std::vector<GreedyStep> exact, coarse;
  {
    ModelFixture model(path_, {.activations = ActivationType::kF32},
                       KvType::kF32);
    exact = GreedySteps(model);
  }
  {
    ModelFixture model(path_, {}, KvType::kF16);
    coarse = GreedySteps(model);
  }
  ASSERT_EQ(exact.size(), size_t{5 * kGreedySteps});
  int ties = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    SCOPED_TRACE(exact[i].name);
    EXPECT_EQ(Best(exact[i].logits), exact[i].expected);
    const TokenId chosen = Best(coarse[i].logits);
    if (chosen == exact[i].expected) continue;
    ++ties;
    const float margin =
        exact[i].logits[exact[i].expected] - exact[i].logits[chosen];
    std::printf("%s: %d instead of %d, %.3f less likely in float32\n",
                exact[i].name.c_str(), chosen, exact[i].expected, margin);
    EXPECT_LT(margin, kNearTie);
  }
  std::printf("%d near ties in %zu steps with 8-bit activations\n", ties,
              exact.size());
}

}  // namespace
}  // namespace kvasir

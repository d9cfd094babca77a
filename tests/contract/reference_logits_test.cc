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
// A greedy step may differ where the reference's two best are this close.
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

// Feeds each prompt and the reference's own continuation, so that one near tie
// does not hide the steps after it, and returns the largest margin between the
// reference's two best tokens at a step where our best is another; -1 if none.
float LargestOverturnedMargin(ModelFixture& model) {
  const auto golden = nlohmann::json::parse(ReadFixture("greedy_golden.json"));
  float largest = -1;
  for (const auto& example : golden["cases"]) {
    auto tokens = example["prompt_ids"].get<std::vector<TokenId>>();
    const auto expected = example["greedy_ids"].get<std::vector<TokenId>>();
    const size_t prompt = tokens.size();
    tokens.insert(tokens.end(), expected.begin(),
                  expected.begin() + kGreedySteps - 1);
    const auto logits = model.AllLogits(tokens);
    for (int step = 0; step < kGreedySteps; ++step) {
      const std::vector<float>& row = logits[prompt - 1 + step];
      const auto best = static_cast<TokenId>(
          std::max_element(row.begin(), row.end()) - row.begin());
      if (best == expected[step]) continue;
      const auto& top = example["top2_logits"][step];
      const float margin = top[0].get<float>() - top[1].get<float>();
      std::printf("%s, step %d: %d instead of %d, reference margin %.3f\n",
                  example["name"].get<std::string>().c_str(), step, best,
                  expected[step], margin);
      largest = std::max(largest, margin);
    }
  }
  return largest;
}

TEST_F(ReferenceLogits, GreedyContinuationsAreEqualInFloat32) {
  ModelFixture model(path_, {.activations = ActivationType::kF32},
                     KvType::kF32);
  EXPECT_EQ(LargestOverturnedMargin(model), -1);
}

TEST_F(ReferenceLogits, EightBitActivationsOverturnOnlyNearTies) {
  ModelFixture model(path_, {}, KvType::kF16);
  EXPECT_LT(LargestOverturnedMargin(model), kNearTie);
}

}  // namespace
}  // namespace kvasir

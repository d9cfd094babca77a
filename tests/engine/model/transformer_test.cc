#include "engine/model/transformer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/cpu/cpu_backend.h"
#include "tests/support/model_fixture.h"
#include "tests/support/naive_decoder.h"
#include "tests/support/paged_sequences.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::vector<TokenId> RandomTokens(int64_t count, int64_t vocabulary,
                                  uint64_t seed) {
  TestRandom random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random.Below(vocabulary));
  }
  return tokens;
}

// Root mean square of the difference to the twin, in units of the twin's own.
double RelativeError(const std::vector<std::vector<float>>& found,
                     const std::vector<std::vector<double>>& wanted) {
  double error = 0, size = 0;
  EXPECT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(found[i].size(), wanted[i].size());
    for (size_t j = 0; j < wanted[i].size(); ++j) {
      error += (found[i][j] - wanted[i][j]) * (found[i][j] - wanted[i][j]);
      size += wanted[i][j] * wanted[i][j];
    }
  }
  return std::sqrt(error / size);
}

double ErrorAgainstTwin(const GgufWriter& model, ActivationType activations,
                        KvType kv_type, int32_t block_tokens = 16) {
  const std::string bytes = model.Build();
  auto file = GgufFile::Parse(Bytes(bytes), "tiny");
  EXPECT_TRUE(file.ok()) << file.status();
  const std::vector<TokenId> tokens = RandomTokens(45, 250, 7);
  ModelFixture fixture(Bytes(bytes),
                       {.thread_count = 1, .activations = activations}, kv_type,
                       block_tokens);
  return RelativeError(fixture.AllLogits(tokens, 7),
                       NaiveDecoder(file->get()).AllLogits(tokens));
}

struct TwinCase {
  const char* name;
  TinyModelOptions options;
};
void PrintTo(const TwinCase& twin, std::ostream* out) { *out << twin.name; }
class TransformerTwin : public testing::TestWithParam<TwinCase> {};

TinyModelOptions OfType(DType type, int32_t hidden_dim = 64) {
  return {.matrix_type = type, .hidden_dim = hidden_dim};
}

const TwinCase kTwinCases[] = {
    {"F32", OfType(DType::kF32)},
    {"F16", OfType(DType::kF16)},
    {"BF16", OfType(DType::kBF16)},
    {"Q8_0", OfType(DType::kQ8_0)},
    {"Q4_0", OfType(DType::kQ4_0)},
    {"Q4_1", OfType(DType::kQ4_1)},
    {"Q5_0", OfType(DType::kQ5_0)},
    {"Q5_1", OfType(DType::kQ5_1)},
    {"Q4_K", OfType(DType::kQ4_K, 256)},
    {"Q5_K", OfType(DType::kQ5_K, 256)},
    {"Q6_K", OfType(DType::kQ6_K, 256)},
    {"Qwen2", {.architecture = "qwen2", .matrix_type = DType::kQ8_0}},
    {"Untied", {.head = TinyModelOptions::Head::kUntied}},
    {"MultiHead", {.head_count = 4, .kv_head_count = 4}},
    {"MultiQuery", {.head_count = 8, .kv_head_count = 1}},
    {"ThreeQueriesAHead", {.hidden_dim = 96, .head_count = 6}},
    {"OddWidths",
     {.hidden_dim = 40,
      .feed_forward_dim = 72,
      .head_count = 5,
      .kv_head_count = 5}},
    {"OneLayer", {.layer_count = 1}},
};

// Against a forward pass that shares no code with it. Only rounding is left
// with 32-bit activations and blocks, so that a wrong order, head or factor in
// any layer stands out by orders of magnitude.
TEST_P(TransformerTwin, LogitsAreTheNaiveOnes) {
  const GgufWriter model = MakeTinyModel(GetParam().options);
  EXPECT_LT(ErrorAgainstTwin(model, ActivationType::kF32, KvType::kF32), 5e-6);
}

// What 8-bit activations and 16-bit blocks may cost. The bound is loose: random
// weights with peaked attention amplify errors more than trained ones.
TEST_P(TransformerTwin, LogitsStayCloseInTheFastTypes) {
  const GgufWriter model = MakeTinyModel(GetParam().options);
  EXPECT_LT(ErrorAgainstTwin(model, ActivationType::kF32, KvType::kF16), 3e-3);
  EXPECT_LT(ErrorAgainstTwin(model, ActivationType::kQ8, KvType::kF16), 0.07);
}

INSTANTIATE_TEST_SUITE_P(All, TransformerTwin, testing::ValuesIn(kTwinCases),
                         [](const auto& info) { return info.param.name; });

TEST(Transformer, BlocksOfAnySizeGiveTheNaiveLogits) {
  // A sequence's last block is open and shorter than the others in most steps.
  for (const int32_t block_tokens : {8, 32, 64}) {
    EXPECT_LT(ErrorAgainstTwin(MakeTinyModel(), ActivationType::kF32,
                               KvType::kF32, block_tokens),
              5e-6)
        << block_tokens;
  }
}

// Partial rotation, its scaling and a head wider than hidden / heads reach the
// kernels only through the configuration.
TEST(Transformer, RopeSettingsReachTheKernels) {
  GgufWriter model = MakeTinyModel();
  model.SetInt("llama.rope.dimension_count", 8);
  model.SetString("llama.rope.scaling.type", "linear");
  model.SetFloat("llama.rope.scaling.factor", 4);
  model.SetFloat("llama.rope.scaling.attn_factor", 1.5f);
  const std::string bytes = model.Build();
  auto file = GgufFile::Parse(Bytes(bytes), "tiny");
  ASSERT_TRUE(file.ok()) << file.status();
  NaiveDecoder twin(file->get());
  ASSERT_EQ(twin.inverse_frequencies.size(), 4u);
  for (double& frequency : twin.inverse_frequencies) frequency /= 4;
  twin.magnitude = 1.5;
  const std::vector<TokenId> tokens = RandomTokens(40, 250, 3);
  ModelFixture fixture(Bytes(bytes),
                       {.thread_count = 1, .activations = ActivationType::kF32},
                       KvType::kF32);
  EXPECT_LT(RelativeError(fixture.AllLogits(tokens), twin.AllLogits(tokens)),
            5e-6);
}

// LOAD-3: a tied model gives the same logits whether or not the file repeats
// the matrix, and another head gives others.
TEST(Transformer, TiedHeadEqualsItsCopy) {
  const auto logits = [](TinyModelOptions::Head head) {
    const std::string bytes = TinyModelBytes({.head = head});
    ModelFixture fixture(Bytes(bytes), {.thread_count = 1}, KvType::kF16);
    return fixture.AllLogits(RandomTokens(20, 250, 1));
  };
  const auto tied = logits(TinyModelOptions::Head::kTied);
  EXPECT_EQ(tied, logits(TinyModelOptions::Head::kTiedWithCopy));
  EXPECT_NE(tied, logits(TinyModelOptions::Head::kUntied));
}

class TransformerStep : public testing::Test {
 protected:
  TransformerStep()
      : bytes_(TinyModelBytes({.head = TinyModelOptions::Head::kUntied,
                               .token_count = 300,
                               .embedding_rows = 290,
                               .output_rows = 384})),
        model_(Bytes(bytes_), {.thread_count = 1}, KvType::kF16) {
    model_.ReserveTokens(512);
  }

  absl::StatusOr<Activations> Forward(absl::Span<const TokenId> tokens,
                                      absl::Span<const int32_t> wanted) {
    const SequenceRows rows = {.first_row = 0,
                               .row_count = static_cast<int64_t>(tokens.size()),
                               .first_position = 0,
                               .table = model_.Table()};
    return model_.transformer().Forward(
        model_.layout(),
        {.tokens = tokens, .sequences = {&rows, 1}, .logit_rows = wanted});
  }

  std::string bytes_;
  ModelFixture model_;
};

// LOAD-4: the width of the logits is the output matrix's, and ids are checked
// against the embedding's rows.
TEST_F(TransformerStep, IdsWithoutAnEmbeddingAreRefusedByName) {
  const std::vector<int32_t> wanted = {0};
  auto logits = Forward(std::vector<TokenId>{289}, wanted);
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_EQ(logits->columns, 384);
  for (const TokenId id : {290, 295, -1}) {
    const absl::Status status =
        Forward(std::vector<TokenId>{id}, wanted).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(std::to_string(id)), std::string::npos)
        << status;
  }
}

TEST_F(TransformerStep, StepsAboveTheScratchAreRefusedWithBothNumbers) {
  const std::vector<TokenId> tokens(ModelFixture::kMaxRows + 1, 5);
  const absl::Status rows = Forward(tokens, {}).status();
  EXPECT_EQ(rows.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(rows.message().find("257"), std::string::npos) << rows;
  EXPECT_NE(rows.message().find("256"), std::string::npos) << rows;
  const std::vector<int32_t> wanted(ModelFixture::kMaxRows + 1, 0);
  const absl::Status logits = Forward(std::vector<TokenId>{5}, wanted).status();
  EXPECT_EQ(logits.code(), absl::StatusCode::kInvalidArgument);
}

// The engine asks for the rows that end a sequence's known tokens only, in
// whatever order its plan has them.
TEST_F(TransformerStep, WantedRowsComeInTheOrderTheyAreAskedFor) {
  const std::vector<TokenId> tokens = RandomTokens(9, 290, 5);
  const std::vector<int32_t> every = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  auto all = Forward(tokens, every);
  ASSERT_TRUE(all.ok());
  std::vector<std::vector<float>> rows;
  for (int64_t i = 0; i < 9; ++i) {
    rows.emplace_back(all->Row(i), all->Row(i) + all->columns);
  }
  const std::vector<int32_t> some = {8, 2, 2, 0};
  auto picked = Forward(tokens, some);
  ASSERT_TRUE(picked.ok());
  ASSERT_EQ(picked->rows, 4);
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::vector<float>(picked->Row(i), picked->Row(i) + 384),
              rows[some[i]])
        << i;
  }
  auto none = Forward(tokens, {});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none->rows, 0);
}

// Tests that compare token ids prove little if every prompt ends in the same
// loop: the tiny model's output must depend on its prompt and keep changing.
TEST(TinyModel, GreedyOutputIsNeitherConstantNorForgetful) {
  const std::string bytes = TinyModelBytes();
  ModelFixture model(Bytes(bytes), {.thread_count = 1}, KvType::kF16);
  std::set<std::vector<TokenId>> outputs;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    // Prompts that differ in their first token only.
    std::vector<TokenId> prompt = RandomTokens(40, 250, 99);
    prompt[0] = static_cast<TokenId>(seed);
    model.ReserveTokens(128);
    std::vector<float> logits = model.Append(prompt, 0);
    std::vector<TokenId> output;
    for (int64_t position = 40; output.size() < 60; ++position) {
      output.push_back(static_cast<TokenId>(
          std::max_element(logits.begin(), logits.end()) - logits.begin()));
      logits = model.Append({&output.back(), 1}, position);
    }
    EXPECT_GT(std::set<TokenId>(output.begin(), output.end()).size(), 15u);
    outputs.insert(output);
  }
  EXPECT_EQ(outputs.size(), 4u);
}

}  // namespace
}  // namespace kvasir

#include "engine/model/model_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

absl::StatusOr<ModelConfig> Read(const GgufWriter& writer) {
  const std::string bytes = writer.Build();
  auto file = GgufFile::Parse(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "tiny");
  if (!file.ok()) return file.status();
  return ReadModelConfig(**file);
}

TEST(ModelConfig, ReadsTheTinyModel) {
  auto config = Read(MakeTinyModel());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->layer_count, 2);
  EXPECT_EQ(config->hidden_dim, 64);
  EXPECT_EQ(config->head_count, 4);
  EXPECT_EQ(config->kv_head_count, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->max_context, 32768);
  EXPECT_TRUE(config->tied_output);
  EXPECT_FALSE(config->qkv_bias);
  EXPECT_EQ(config->quantization, "F32");
  EXPECT_FLOAT_EQ(config->attention_scale, 0.25f);
  EXPECT_EQ(config->rope.pairing, RopeSpec::Pairing::kAdjacent);
  EXPECT_EQ(config->rope.inverse_frequencies.size(), 8u);
  EXPECT_EQ(config->rope.inverse_frequencies[0], 1.0f);
}

TEST(ModelConfig, Qwen2HasBiasesAndTurnsHalves) {
  auto config = Read(MakeTinyModel({.architecture = "qwen2"}));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->qkv_bias);
  EXPECT_EQ(config->rope.pairing, RopeSpec::Pairing::kHalves);
}

// LOAD-3, LOAD-4: the output's width is the output matrix's own.
TEST(ModelConfig, UntiedOutputDecidesTheVocabulary) {
  auto config = Read(MakeTinyModel({.head = TinyModelOptions::Head::kUntied,
                                    .token_count = 300,
                                    .embedding_rows = 320,
                                    .output_rows = 384}));
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->tied_output);
  EXPECT_EQ(config->vocab_size, 384);
  EXPECT_EQ(config->embedding_rows, 320);
}

struct BadConfig {
  const char* name;
  std::function<void(GgufWriter&)> break_it;
  absl::StatusCode code;
  const char* named;
};
void PrintTo(const BadConfig& bad, std::ostream* out) { *out << bad.name; }
class ModelConfigRefuses : public testing::TestWithParam<BadConfig> {};

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

const BadConfig kBadConfigs[] = {
    {"UnknownArchitecture",
     [](auto& w) { w.SetString("general.architecture", "mamba"); },
     kUnimplemented, "mamba"},
    {"NoArchitecture", [](auto& w) { w.Remove("general.architecture"); },
     absl::StatusCode::kNotFound, "general.architecture"},
    {"NoLayers", [](auto& w) { w.SetInt("llama.block_count", 0); }, kInvalid,
     "llama.block_count"},
    {"LayerCountMissing", [](auto& w) { w.Remove("llama.block_count"); },
     kInvalid, "llama.block_count"},
    {"AbsurdWidth",
     [](auto& w) { w.SetInt("llama.embedding_length", 1u << 31); }, kInvalid,
     "llama.embedding_length"},
    {"WrongType", [](auto& w) { w.SetString("llama.block_count", "two"); },
     kInvalid, "llama.block_count"},
    {"KvHeadsNoDivisor",
     [](auto& w) { w.SetInt("llama.attention.head_count_kv", 3); }, kInvalid,
     "llama.attention.head_count_kv"},
    {"HeadDimNoMultiple",
     [](auto& w) {
       w.SetInt("llama.attention.key_length", 12);
       w.SetInt("llama.attention.value_length", 12);
     },
     kUnimplemented, "12"},
    {"OddRotation", [](auto& w) { w.SetInt("llama.rope.dimension_count", 7); },
     kInvalid, "llama.rope.dimension_count"},
    {"UnknownScaling",
     [](auto& w) { w.SetString("llama.rope.scaling.type", "longrope"); },
     kUnimplemented, "longrope"},
    {"NegativeScaling",
     [](auto& w) { w.SetFloat("llama.rope.scaling.factor", -2); }, kInvalid,
     "llama.rope.scaling.factor"},
    {"NarrowWindow",
     [](auto& w) { w.SetInt("llama.attention.sliding_window", 4096); },
     kUnimplemented, "llama.attention.sliding_window"},
    {"Experts", [](auto& w) { w.SetInt("llama.expert_count", 8); },
     kUnimplemented, "llama.expert_count"},
    {"LogitScale", [](auto& w) { w.SetFloat("llama.logit_scale", 0.5f); },
     kUnimplemented, "llama.logit_scale"},
    {"LogYarn",
     [](auto& w) {
       w.SetFloat("llama.rope.scaling.yarn_log_multiplier", 0.1f);
     },
     kUnimplemented, "llama.rope.scaling.yarn_log_multiplier"},
    {"OneFileOfMany", [](auto& w) { w.SetInt("split.count", 3); },
     kUnimplemented, "split.count"},
    {"Adapter", [](auto& w) { w.SetString("general.type", "adapter"); },
     kUnimplemented, "adapter"},
    {"UnknownTensor",
     [](auto& w) {
       const std::vector<float> values(16, 1.0f);
       w.AddTensor("blk.0.attn_q_norm.weight", DType::kF32, {16}, values);
     },
     kUnimplemented, "blk.0.attn_q_norm.weight"},
    {"TensorOfALayerTooMany", [](auto& w) { w.SetInt("llama.block_count", 1); },
     kUnimplemented, "blk.1."},
    {"NoEmbedding", [](auto& w) { w.RemoveTensor("token_embd.weight"); },
     kInvalid, "token_embd.weight"},
};

// A value that is let through unseen gives wrong answers, not errors.
TEST_P(ModelConfigRefuses, ByName) {
  GgufWriter writer = MakeTinyModel();
  GetParam().break_it(writer);
  const absl::Status status = Read(writer).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_NE(status.ToString().find(GetParam().named), std::string::npos)
      << status;
}

INSTANTIATE_TEST_SUITE_P(All, ModelConfigRefuses,
                         testing::ValuesIn(kBadConfigs),
                         [](const auto& info) { return info.param.name; });

// Converters write some keys with the value that means nothing.
TEST(ModelConfig, NeutralValuesAreNoFeatures) {
  GgufWriter writer = MakeTinyModel();
  writer.SetFloat("llama.logit_scale", 1);
  writer.SetFloat("llama.attn_logit_softcapping", 0);
  writer.SetFloat("llama.attention.scale", 0);
  writer.SetInt("llama.attention.sliding_window", 0);
  writer.SetInt("llama.expert_count", 0);
  writer.SetInt("split.count", 1);
  writer.SetString("general.type", "model");
  auto config = Read(writer);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FLOAT_EQ(config->attention_scale, 0.25f);
}

TEST(ModelConfigRope, OldNameOfTheFactorIsRead) {
  GgufWriter writer = MakeTinyModel();
  writer.SetFloat("llama.rope.scale_linear", 2);
  auto config = Read(writer);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FLOAT_EQ(config->rope.inverse_frequencies[0], 0.5f);
  writer.SetFloat("llama.rope.scaling.factor", 4);
  config = Read(writer);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FLOAT_EQ(config->rope.inverse_frequencies[0], 0.25f);
}

TEST(ModelConfigRope, LinearDividesEveryFrequency) {
  GgufWriter writer = MakeTinyModel();
  auto plain = Read(writer);
  writer.SetString("llama.rope.scaling.type", "linear");
  writer.SetFloat("llama.rope.scaling.factor", 4);
  auto scaled = Read(writer);
  ASSERT_TRUE(plain.ok() && scaled.ok()) << scaled.status();
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(scaled->rope.inverse_frequencies[i],
                    plain->rope.inverse_frequencies[i] / 4);
  }
  EXPECT_EQ(scaled->rope.magnitude, 1.0f);
}

// Llama 3's scaling comes as a tensor of divisors.
TEST(ModelConfigRope, DivisorsComeFromTheirTensor) {
  GgufWriter writer = MakeTinyModel();
  auto plain = Read(writer);
  const std::vector<float> divisors = {1, 1, 1, 2, 4, 8, 32, 32};
  writer.AddTensor("rope_freqs.weight", DType::kF32, {8}, divisors);
  auto scaled = Read(writer);
  ASSERT_TRUE(plain.ok() && scaled.ok()) << scaled.status();
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_FLOAT_EQ(scaled->rope.inverse_frequencies[i],
                    plain->rope.inverse_frequencies[i] / divisors[i]);
  }
  writer.RemoveTensor("rope_freqs.weight");
  writer.AddTensor("rope_freqs.weight", DType::kF32, {7},
                   std::vector<float>(7, 1.0f));
  EXPECT_EQ(Read(writer).status().code(), kInvalid);
}

// YaRN at both ends of its blend: fast pairs keep their frequency, slow ones
// are divided by the factor, and the magnitude grows with its logarithm.
TEST(ModelConfigRope, YarnKeepsFastAndDividesSlowPairs) {
  GgufWriter writer = MakeTinyModel();
  writer.SetFloat("llama.rope.freq_base", 10000);
  auto plain = Read(writer);
  writer.SetString("llama.rope.scaling.type", "yarn");
  writer.SetFloat("llama.rope.scaling.factor", 8);
  writer.SetInt("llama.rope.scaling.original_context_length", 4096);
  auto scaled = Read(writer);
  ASSERT_TRUE(plain.ok() && scaled.ok()) << scaled.status();
  const auto& own = plain->rope.inverse_frequencies;
  const auto& got = scaled->rope.inverse_frequencies;
  EXPECT_FLOAT_EQ(got[0], own[0]);
  EXPECT_FLOAT_EQ(got[7], own[7] / 8);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_LE(got[i], own[i] * 1.000001f);
    EXPECT_GE(got[i], own[i] / 8.000001f);
  }
  EXPECT_FLOAT_EQ(scaled->rope.magnitude,
                  static_cast<float>(1 + 0.1 * std::log(8.0)));
}

}  // namespace
}  // namespace kvasir

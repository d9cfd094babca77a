#include "engine/model/weights.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/backend/cpu/cpu_backend.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using Progress = std::function<bool(int64_t, int64_t)>;

bool GoOn(int64_t, int64_t) { return true; }

class WeightsTest : public testing::Test {
 protected:
  WeightsTest() : backend_(*MakeCpuBackend({.thread_count = 1})) {}

  absl::StatusOr<Weights> Load(const GgufWriter& writer,
                               const Progress& progress = GoOn) {
    const std::string bytes = writer.Build();
    auto file = GgufFile::Parse(
        {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, "tiny");
    if (!file.ok()) return file.status();
    auto config = ReadModelConfig(**file);
    if (!config.ok()) return config.status();
    return LoadWeights(**file, *config, *backend_, progress);
  }

  std::unique_ptr<Backend> backend_;
};

TEST_F(WeightsTest, LoadsEveryTensorInItsShape) {
  auto weights = Load(MakeTinyModel({.architecture = "qwen2",
                                     .matrix_type = DType::kQ4_0,
                                     .feed_forward_dim = 96,
                                     .token_count = 300}));
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->embedding->rows(), 300);
  EXPECT_EQ(weights->embedding->columns(), 64);
  ASSERT_EQ(weights->layers.size(), 2u);
  const LayerWeights& layer = weights->layers[1];
  EXPECT_EQ(layer.query->rows(), 64);
  EXPECT_EQ(layer.key->rows(), 32);
  EXPECT_EQ(layer.value->rows(), 32);
  EXPECT_EQ(layer.gate->rows(), 96);
  EXPECT_EQ(layer.down->columns(), 96);
  EXPECT_EQ(layer.query->type(), DType::kQ4_0);
  EXPECT_EQ(layer.query_bias.size(), 64u);
  EXPECT_EQ(layer.key_bias.size(), 32u);
  EXPECT_EQ(layer.attention_norm.size(), 64u);
  EXPECT_EQ(weights->output_norm.size(), 64u);
}

// LOAD-3: without output.weight the embedding is the output matrix.
TEST_F(WeightsTest, TiedOutputIsTheEmbedding) {
  auto tied = Load(MakeTinyModel());
  ASSERT_TRUE(tied.ok()) << tied.status();
  EXPECT_EQ(&tied->output(), tied->embedding.get());
  auto untied = Load(MakeTinyModel({.head = TinyModelOptions::Head::kUntied}));
  ASSERT_TRUE(untied.ok()) << untied.status();
  EXPECT_EQ(&untied->output(), untied->separate_output.get());
  EXPECT_GT(untied->memory_bytes(), tied->memory_bytes());
}

// Weights stay quantized in memory; an expansion would show here first.
TEST_F(WeightsTest, MemoryIsThatOfTheFile) {
  for (const DType type : {DType::kF32, DType::kQ8_0, DType::kQ4_1}) {
    const GgufWriter writer = MakeTinyModel({.matrix_type = type});
    int64_t bytes = 0;
    for (const auto& tensor : writer.tensors) {
      bytes += static_cast<int64_t>(tensor.data.size());
    }
    auto weights = Load(writer);
    ASSERT_TRUE(weights.ok()) << weights.status();
    EXPECT_GE(weights->memory_bytes(), bytes * 9 / 10) << DTypeName(type);
    EXPECT_LE(weights->memory_bytes(), bytes * 13 / 10) << DTypeName(type);
  }
}

TEST_F(WeightsTest, ProgressRisesToTheWhole) {
  int64_t last = 0, whole = -1;
  auto weights = Load(MakeTinyModel(), [&](int64_t done, int64_t total) {
    EXPECT_GT(done, last);
    last = done;
    whole = total;
    return true;
  });
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(last, whole);
}

// SIGTERM while a large model loads must not wait for its end.
TEST_F(WeightsTest, RefusedProgressAbandonsTheLoad) {
  int calls = 0;
  const absl::Status status = Load(MakeTinyModel(), [&](int64_t, int64_t) {
                                return ++calls < 3;
                              }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(calls, 3);
}

// Every tensor in turn: a missing one is named, never made up (LOAD-3).
TEST_F(WeightsTest, EachMissingTensorIsNamed) {
  const TinyModelOptions options = {.architecture = "qwen2"};
  for (const auto& tensor : MakeTinyModel(options).tensors) {
    GgufWriter writer = MakeTinyModel(options);
    writer.RemoveTensor(tensor.name);
    const absl::Status status = Load(writer).status();
    // Without the first layer's first bias the model has none, and the other
    // layers' have no place in it.
    const bool first_bias = tensor.name == "blk.0.attn_q.bias";
    EXPECT_FALSE(status.ok()) << tensor.name;
    EXPECT_NE(status.message().find(first_bias ? ".bias" : tensor.name),
              std::string::npos)
        << tensor.name << ": " << status;
  }
}

TEST_F(WeightsTest, EachWrongShapeIsNamedWithBothShapes) {
  for (const auto& tensor : MakeTinyModel().tensors) {
    if (tensor.name == "token_embd.weight") continue;  // decides its own rows
    GgufWriter writer = MakeTinyModel();
    // Half the tensor's last dimension; its data stays where it is.
    uint64_t& dim = writer.FindTensor(tensor.name).dims.back();
    const std::string wanted = std::to_string(dim);
    dim /= 2;
    const absl::Status status = Load(writer).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    const std::string text(status.message());
    EXPECT_NE(text.find(tensor.name), std::string::npos) << text;
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
    EXPECT_NE(text.find(std::to_string(dim)), std::string::npos) << text;
  }
}

// A bias that is read in one layer and overlooked in the next gives plausible
// nonsense.
TEST_F(WeightsTest, BiasInOneLayerOnlyIsRefusedByName) {
  GgufWriter writer = MakeTinyModel();
  writer.AddTensor("blk.1.attn_k.bias", DType::kF32, {32},
                   std::vector<float>(32, 1.0f));
  const absl::Status status = Load(writer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("blk.1.attn_k.bias"), std::string::npos)
      << status;
}

TEST_F(WeightsTest, NormsMustBeFloats) {
  GgufWriter writer = MakeTinyModel();
  writer.RemoveTensor("output_norm.weight");
  writer.AddTensor("output_norm.weight", DType::kF16, {64},
                   std::vector<float>(64, 1.0f));
  const absl::Status status = Load(writer).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("output_norm.weight"), std::string::npos);
  EXPECT_NE(status.message().find("F16"), std::string::npos);
}

// A flipped bit in the exponent of a scale or a norm once gave fluent rubbish
// with status OK, in blocks that others then hit.
TEST_F(WeightsTest, NumbersThatAreNotFiniteAreRefusedWithTheirPlace) {
  const std::string half_nan = GgufBytes(0x7e00, 2);
  const std::string float_infinity = GgufBytes(0x7f800000, 4);
  struct Case {
    const char* tensor;
    size_t at;
    std::string bytes;
    const char* place;
  };
  const Case cases[] = {
      {"blk.1.ffn_up.weight", 34 * 5, half_nan, "row 2, columns 32 to 63"},
      {"token_embd.weight", 0, half_nan, "row 0, columns 0 to 31"},
      {"blk.0.attn_k.bias", 4 * 31, float_infinity, "row 0, column 31"},
      {"output_norm.weight", 4 * 7, float_infinity, "row 0, column 7"},
  };
  for (const Case& broken : cases) {
    GgufWriter writer =
        MakeTinyModel({.architecture = "qwen2", .matrix_type = DType::kQ8_0});
    writer.FindTensor(broken.tensor)
        .data.replace(broken.at, broken.bytes.size(), broken.bytes);
    const absl::Status status = Load(writer).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    const std::string text(status.message());
    EXPECT_NE(text.find(broken.tensor), std::string::npos) << text;
    EXPECT_NE(text.find(broken.place), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace kvasir

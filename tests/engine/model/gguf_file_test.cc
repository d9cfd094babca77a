#include "engine/model/gguf_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

absl::Status ParseStatus(const std::string& bytes) {
  return GgufFile::Parse(Bytes(bytes), "model.gguf").status();
}

std::string TempPath(const std::string& name) {
  return (std::filesystem::temp_directory_path() /
          (std::to_string(::getpid()) + name))
      .string();
}

GgufWriter SmallFile() {
  GgufWriter writer;
  writer.SetString("general.architecture", "llama");
  writer.SetInt("llama.block_count", 2);
  const std::vector<float> values(64, 0.5f);
  writer.AddTensor("a.weight", DType::kF32, {32, 2}, values);
  writer.AddTensor("b.weight", DType::kF32, {64}, values);
  return writer;
}

TEST(GgufFile, GivesBackWhatTheWriterPutIn) {
  GgufWriter writer = SmallFile();
  writer.SetFloat("f", 0.25f);
  writer.SetBool("yes", true);
  const std::vector<std::string> words = {"alpha", "", "gamma"};
  writer.SetStrings("words", words);
  const std::vector<int32_t> numbers = {-1, 0, 7};
  writer.SetInts("numbers", numbers);
  const std::string bytes = writer.Build();
  auto file = GgufFile::Parse(Bytes(bytes), "model.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->GetInt("llama.block_count").value(), 2);
  EXPECT_EQ((*file)->GetFloat("f").value(), 0.25);
  EXPECT_TRUE((*file)->GetBool("yes").value());
  EXPECT_EQ((*file)->GetStrings("words").value(),
            absl::Span<const std::string>(words));
  EXPECT_EQ((*file)->GetInts("numbers").value()[0], -1);
  const GgufTensor* tensor = (*file)->FindTensor("a.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->AsMatrix().rows, 2);
  EXPECT_EQ(tensor->AsMatrix().columns, 32);
  EXPECT_EQ(reinterpret_cast<const float*>(tensor->data)[63], 0.5f);
  EXPECT_EQ((*file)->FindTensor("c"), nullptr);
}

TEST(GgufFile, TypedAccessNamesKeyAndWantedType) {
  const std::string bytes = SmallFile().Build();
  auto file = GgufFile::Parse(Bytes(bytes), "model.gguf");
  ASSERT_TRUE(file.ok());
  const absl::Status wrong = (*file)->GetString("llama.block_count").status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(wrong.ToString().find("llama.block_count"), std::string::npos);
  EXPECT_EQ((*file)->GetInt("missing").status().code(),
            absl::StatusCode::kNotFound);
}

// The digest names the weights in a cache version: one changed byte is another
// model.
TEST(GgufFile, DigestFollowsEveryByte) {
  std::string bytes = SmallFile().Build();
  auto first = GgufFile::Parse(Bytes(bytes), "a");
  ASSERT_TRUE(first.ok());
  const std::string digest = (*first)->Digest();
  EXPECT_EQ(digest.size(), 64u);
  std::string changed = bytes;
  changed.back() ^= 1;
  auto second = GgufFile::Parse(Bytes(changed), "a");
  ASSERT_TRUE(second.ok());
  EXPECT_NE((*second)->Digest(), digest);
}

struct Malformed {
  const char* name;
  std::function<void(GgufWriter&)> break_it;
  const char* field;  // what the message must name
};

class GgufMalformed : public testing::TestWithParam<Malformed> {};

constexpr uint64_t kHuge = uint64_t{1} << 62;

const Malformed kMalformed[] = {
    {"ProductWraps",
     [](auto& w) {
       w.tensors[0].dims = {uint64_t{1} << 33, 1u << 31};
     },
     "a.weight"},
    {"SizeWrapsAfterPadding",
     [](auto& w) { w.tensors[0].dims = {(uint64_t{1} << 61) - 1}; },
     "a.weight"},
    {"FiveDims",
     [](auto& w) {
       w.tensors[0].dims = {32, 2, 1, 1, 1};
     },
     "a.weight"},
    {"FourBillionDims",
     [](auto& w) { w.tensors[0].claimed_dim_count = 0xffffffffu; }, "a.weight"},
    {"NoDims", [](auto& w) { w.tensors[0].dims = {}; }, "a.weight"},
    {"DimensionOfZero",
     [](auto& w) {
       w.tensors[0].dims = {32, 0};
     },
     "dimension 1"},
    {"TypeId9999", [](auto& w) { w.tensors[0].type = 9999; }, "9999"},
    {"TypeIdMinusOne", [](auto& w) { w.tensors[0].type = ~0u; }, "a.weight"},
    {"TypeWithoutKernels", [](auto& w) { w.tensors[0].type = 10; }, "a.weight"},
    {"RowsNoMultipleOfTheBlock",
     [](auto& w) {
       w.tensors[0].type = GgufTensorTypeId(DType::kQ8_0);
       w.tensors[0].dims = {33, 2};
     },
     "a.weight"},
    {"HugeKeyLength",
     [](auto& w) { w.entries[1].claimed_key_length = uint64_t{1} << 48; },
     "metadata key 1"},
    {"EmptyKey", [](auto& w) { w.entries[1].key = ""; }, "metadata key 1"},
    {"UnknownValueType", [](auto& w) { w.entries[1].type = 77; },
     "llama.block_count"},
    {"ArrayOfUnknownType",
     [](auto& w) {
       w.SetRaw("array", GgufType::kArray,
                GgufBytes(uint64_t{99}, 4) + GgufBytes(uint64_t{1} << 60, 8));
     },
     "array"},
    {"ArrayLongerThanTheFile",
     [](auto& w) {
       w.SetRaw("array", GgufType::kArray,
                GgufBytes(uint64_t{4}, 4) + GgufBytes(uint64_t{1} << 60, 8));
     },
     "array"},
    {"NestedArray",
     [](auto& w) {
       w.SetRaw("array", GgufType::kArray,
                GgufBytes(uint64_t{9}, 4) + GgufBytes(uint64_t{1}, 8));
     },
     "array"},
    {"BoolOfTwo",
     [](auto& w) {
       w.SetRaw("flag", GgufType::kBool, GgufBytes(uint64_t{2}, 1));
     },
     "flag"},
    {"AlignmentZero", [](auto& w) { w.SetInt("general.alignment", 0); },
     "general.alignment"},
    {"AlignmentThree", [](auto& w) { w.SetInt("general.alignment", 3); },
     "general.alignment"},
    {"AlignmentOfTypeString",
     [](auto& w) { w.SetString("general.alignment", "32"); },
     "general.alignment"},
    {"OffsetPastTheEnd", [](auto& w) { w.tensors[1].claimed_offset = 1 << 20; },
     "b.weight"},
    {"OffsetBeyondAnyFile",
     [](auto& w) { w.tensors[1].claimed_offset = ~uint64_t{31}; }, "b.weight"},
    {"OffsetUnaligned", [](auto& w) { w.tensors[1].claimed_offset = 8; },
     "b.weight"},
    {"OffsetOverlapping", [](auto& w) { w.tensors[1].claimed_offset = 32; },
     "overlaps"},
    {"TensorCount", [](auto& w) { w.claimed_tensor_count = kHuge; },
     "tensor count"},
    {"EntryCount", [](auto& w) { w.claimed_entry_count = kHuge; },
     "metadata count"},
    {"DuplicateKey", [](auto& w) { w.entries.push_back(w.entries[0]); },
     "general.architecture"},
    {"DuplicateTensor", [](auto& w) { w.tensors[1].name = w.tensors[0].name; },
     "a.weight"},
    {"EmptyTensorName", [](auto& w) { w.tensors[1].name = ""; }, "tensor 1"},
    {"HugeNameLength",
     [](auto& w) { w.tensors[1].claimed_name_length = kHuge; }, "tensor 1"},
    {"Version0", [](auto& w) { w.version = 0; }, "version"},
    {"Version99", [](auto& w) { w.version = 99; }, "version"},
    {"BigEndianMagic", [](auto& w) { w.magic = "FUGG"; }, "magic"},
};

// LOAD-1: a malformed file once crashed or filled the memory of every loader
// of the field.
TEST_P(GgufMalformed, IsRefusedInOneLineThatNamesTheField) {
  GgufWriter writer = SmallFile();
  GetParam().break_it(writer);
  const absl::Status status = ParseStatus(writer.Build());
  ASSERT_FALSE(status.ok());
  const std::string text(status.message());
  EXPECT_NE(text.find(GetParam().field), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_EQ(text.rfind("model.gguf: ", 0), 0u) << text;
}

INSTANTIATE_TEST_SUITE_P(Load1, GgufMalformed, testing::ValuesIn(kMalformed),
                         [](const auto& info) { return info.param.name; });

// LOAD-2: every cut must be noticed, wherever it falls: in the header, in the
// tensor list or in the last tensor's bytes.
TEST(GgufFile, EveryTruncationIsRefused) {
  const std::string bytes = SmallFile().Build();
  ASSERT_TRUE(ParseStatus(bytes).ok());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(ParseStatus(bytes.substr(0, size)).ok()) << size;
  }
}

TEST(GgufFile, TruncatedFileNamesWantedAndFoundSize) {
  const std::string path = TempPath("cut.gguf");
  std::string bytes = TinyModelBytes();
  const size_t whole = bytes.size();
  bytes.resize(whole - 1);
  ASSERT_TRUE(WriteFileBytes(path, bytes).ok());
  const absl::Status status = GgufFile::Open(path).status();
  std::filesystem::remove(path);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  const std::string text(status.message());
  EXPECT_NE(text.find(path), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(whole)), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(whole - 1)), std::string::npos) << text;
}

TEST(GgufFile, MissingEmptyAndOddPathsAreNamed) {
  EXPECT_EQ(GgufFile::Open("/no/such/model.gguf").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(GgufFile::Open("/").ok());
  const std::string path = TempPath("empty.gguf");
  ASSERT_TRUE(WriteFileBytes(path, "").ok());
  EXPECT_EQ(GgufFile::Open(path).status().code(),
            absl::StatusCode::kInvalidArgument);
  std::filesystem::remove(path);
}

// Random damage to a whole model: whatever comes of it, no crash (the sanitizer
// build watches), and no tensor outside the file.
TEST(GgufFile, RandomDamageNeverEscapesTheFile) {
  const std::string good = SmallFile().Build();
  TestRandom random(20261130);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int64_t i = random.Below(4); i >= 0; --i) {
      bytes[random.Below(static_cast<int64_t>(bytes.size()))] =
          static_cast<char>(random.Next());
    }
    auto file = GgufFile::Parse(Bytes(bytes), "model.gguf");
    if (!file.ok()) continue;
    for (const GgufTensor& tensor : (*file)->tensors()) {
      const auto* begin = reinterpret_cast<const uint8_t*>(bytes.data());
      ASSERT_GE(tensor.data, begin) << "seed 20261130, round " << round;
      ASSERT_LE(tensor.data + tensor.bytes, begin + bytes.size());
    }
  }
}

}  // namespace
}  // namespace kvasir

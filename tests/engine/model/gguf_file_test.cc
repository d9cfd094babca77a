#include "engine/model/gguf_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/gguf_writer.h"
#include "tests/support/malformed_gguf.h"
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

TEST(GgufFile, GivesBackWhatTheWriterPutIn) {
  GgufWriter writer = MakeSmallGguf();
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
  EXPECT_EQ(tensor->AsMatrix(nullptr).rows, 2);
  EXPECT_EQ(tensor->AsMatrix(nullptr).columns, 32);
  const std::vector<uint8_t> data = (*file)->ReadTensor(*tensor).value();
  ASSERT_EQ(data.size(), 64 * sizeof(float));
  EXPECT_EQ(reinterpret_cast<const float*>(data.data())[63], 0.5f);
  EXPECT_EQ((*file)->FindTensor("c"), nullptr);
}

TEST(GgufFile, TypedAccessNamesKeyAndWantedType) {
  const std::string bytes = MakeSmallGguf().Build();
  auto file = GgufFile::Parse(Bytes(bytes), "model.gguf");
  ASSERT_TRUE(file.ok());
  const absl::Status wrong = (*file)->GetString("llama.block_count").status();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(wrong.message().find("llama.block_count"), std::string::npos);
  EXPECT_NE(wrong.message().find("wanted a string"), std::string::npos);
  EXPECT_NE(wrong.message().find("found an integer"), std::string::npos);
  EXPECT_EQ((*file)->GetInt("missing").status().code(),
            absl::StatusCode::kNotFound);
}

class GgufMalformed : public testing::TestWithParam<MalformedGguf> {};

// LOAD-1: a malformed file once crashed or filled the memory of every loader
// of the field.
TEST_P(GgufMalformed, IsRefusedInOneLineThatNamesTheField) {
  GgufWriter writer = MakeSmallGguf();
  GetParam().break_it(writer);
  const absl::Status status = ParseStatus(writer.Build());
  ASSERT_FALSE(status.ok());
  const std::string text(status.message());
  EXPECT_NE(text.find(GetParam().field), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_EQ(text.rfind("model.gguf: ", 0), 0u) << text;
}

INSTANTIATE_TEST_SUITE_P(Load1, GgufMalformed,
                         testing::ValuesIn(MalformedGgufCases()),
                         [](const auto& info) { return info.param.name; });

// LOAD-2: every cut must be noticed, wherever it falls: in the header, in the
// tensor list or in the last tensor's bytes.
TEST(GgufFile, EveryTruncationIsRefused) {
  const std::string bytes = MakeSmallGguf().Build();
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

// LOAD-2 with 30 % gone: the size that the file should have had, not the end of
// the first tensor that is missing.
TEST(GgufFile, DeepCutNamesTheWholeSize) {
  const std::string whole = TinyModelBytes();
  const absl::Status status =
      ParseStatus(whole.substr(0, whole.size() * 7 / 10));
  EXPECT_NE(status.message().find(std::to_string(whole.size())),
            std::string::npos)
      << status;
}

// Opening a pipe for reading waits for a writer, for ever if there is none.
TEST(GgufFile, NamedPipeIsRefusedAtOnce) {
  const std::string path = TempPath("pipe.gguf");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const absl::Status status = GgufFile::Open(path).status();
  std::filesystem::remove(path);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find(path), std::string::npos) << status;
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
  const std::string good = MakeSmallGguf().Build();
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
      ASSERT_GE(tensor.offset, 0) << "seed 20261130, round " << round;
      ASSERT_LE(tensor.offset + tensor.bytes, (*file)->file_bytes());
    }
  }
}

}  // namespace
}  // namespace kvasir

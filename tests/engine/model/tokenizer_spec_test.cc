#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "engine/model/chat_format.h"
#include "engine/model/gguf_file.h"
#include "engine/model/tokenizer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"
#include "tests/support/vocabularies.h"

namespace kvasir {
namespace {

using Kind = TokenizerSpec::Kind;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<TokenizerSpec> Read(const GgufWriter& writer) {
  const std::string bytes = writer.Build();
  const auto file = GgufFile::Parse(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(bytes.data()),
                          bytes.size()),
      "made-up");
  if (!file.ok()) return file.status();
  return ReadTokenizerSpec(**file);
}

TokenizerSpec MustRead(const GgufWriter& writer) {
  const auto spec = Read(writer);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(TokenizerSpec());
}

void ExpectRefused(const GgufWriter& writer, absl::StatusCode code,
                   const std::vector<std::string>& words) {
  const auto spec = Read(writer);
  EXPECT_EQ(spec.status().code(), code) << spec.status();
  for (const std::string& word : words) {
    EXPECT_THAT(std::string(spec.status().message()), HasSubstr(word));
  }
}

// A vocabulary of `tokens`, all of them of kind `kind`.
void SetTokens(GgufWriter& writer, const std::vector<std::string>& tokens,
               int32_t kind) {
  writer.SetStrings("tokenizer.ggml.tokens", tokens);
  writer.SetInts("tokenizer.ggml.token_type",
                 std::vector<int32_t>(tokens.size(), kind));
}

TEST(TokenizerSpec, ReadsAModelFile) {
  const TokenizerSpec spec = MustRead(MakeTinyModel());
  const TokenizerSpec want = TinySpec();
  EXPECT_EQ(spec.tokens, want.tokens);
  EXPECT_EQ(spec.kinds, want.kinds);
  EXPECT_EQ(spec.merges, want.merges);
  EXPECT_EQ(spec.bos, 1);
  EXPECT_EQ(spec.eos, 2);
  EXPECT_FALSE(spec.add_bos);
  const auto tokenizer = MakeTokenizer(spec);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode("Hi", true), false), "Hi");
}

// Files often name one end token and use another: a model that ends its turn
// with <|eot_id|> would never stop.
TEST(TokenizerSpec, EndTokensComeFromIdsAndFromTexts) {
  GgufWriter writer = MakeTinyModel();
  SetTokens(writer,
            {"<|eot_id|>", "<|start|>", "x", "y", "<|eom_id|>", "</s>", "z"},
            3);
  writer.Remove("tokenizer.ggml.bos_token_id");
  writer.SetInt("tokenizer.ggml.eos_token_id", 2);
  writer.SetInt("tokenizer.ggml.eot_token_id", 3);
  writer.SetInt("tokenizer.ggml.eom_token_id", 4);
  const TokenizerSpec spec = MustRead(writer);
  EXPECT_THAT(spec.end_tokens, ElementsAre(0, 2, 3, 4, 5));
  EXPECT_EQ(spec.bos, -1);
}

// Old files write 2^32 - 1 for an id they do not have; refusing them would
// refuse the model.
TEST(TokenizerSpec, AllBitsSetMeansNoSuchToken) {
  GgufWriter writer = MakeTinyModel();
  for (const char* name : {"bos", "eos", "eot", "eom"}) {
    writer.SetInt(absl::StrCat("tokenizer.ggml.", name, "_token_id"),
                  0xFFFFFFFF);
  }
  TokenizerSpec spec = MustRead(writer);
  EXPECT_EQ(spec.bos, -1);
  EXPECT_EQ(spec.eos, -1);
  EXPECT_THAT(spec.end_tokens, ElementsAre(0, 2));  // by their texts
  writer.SetRaw("tokenizer.ggml.eos_token_id", GgufType::kInt32,
                GgufBytes(0xFFFFFFFF, 4));
  EXPECT_EQ(MustRead(writer).eos, -1);
  EXPECT_TRUE(Tokenizer::Create(std::move(spec)).ok());
}

// "</s>" in a web page is a tag, not the end of an answer.
TEST(TokenizerSpec, OrdinaryTokensWithEndTextsAreNoEnds) {
  GgufWriter writer = MakeTinyModel();
  SetTokens(writer, {"</s>", "<|im_end|>", "x"}, 1);
  EXPECT_THAT(MustRead(writer).end_tokens, ElementsAre(2));
}

// TOK-2 where the file does not say: llama.cpp's rule.
TEST(TokenizerSpec, OnlyLlamaBpeAddsBosByDefault) {
  for (const char* name : {"smollm", "gpt-2", "llama-bpe", "qwen2"}) {
    GgufWriter writer = MakeTinyModel();
    writer.SetString("tokenizer.ggml.pre", name);
    writer.Remove("tokenizer.ggml.add_bos_token");
    EXPECT_EQ(MustRead(writer).add_bos, name == std::string("llama-bpe"));
    for (const bool add_bos : {false, true}) {
      writer.SetBool("tokenizer.ggml.add_bos_token", add_bos);
      EXPECT_EQ(MustRead(writer).add_bos, add_bos);
    }
  }
}

TEST(TokenizerSpec, MissingKindsAreNormalAndMissingTemplateIsEmpty) {
  GgufWriter writer = MakeTinyModel();
  writer.Remove("tokenizer.ggml.token_type");
  writer.Remove("tokenizer.chat_template");
  const TokenizerSpec spec = MustRead(writer);
  EXPECT_EQ(spec.kinds, std::vector<Kind>(spec.tokens.size(), Kind::kNormal));
  EXPECT_EQ(spec.chat_template, "");
}

TEST(TokenizerSpec, RefusesOtherTokenizersByName) {
  constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
  GgufWriter writer = MakeTinyModel();
  writer.SetString("tokenizer.ggml.model", "llama");
  ExpectRefused(writer, kUnimplemented, {"ggml.model", "gpt2", "\"llama\""});
  writer = MakeTinyModel();
  writer.SetString("tokenizer.ggml.pre", "tekken");
  ExpectRefused(writer, kUnimplemented, {"ggml.pre", "smollm", "\"tekken\""});
  writer = MakeTinyModel();
  writer.SetBool("tokenizer.ggml.add_eos_token", true);
  ExpectRefused(writer, kUnimplemented, {"add_eos_token", "found true"});
}

TEST(TokenizerSpec, RefusesMissingKeysByName) {
  for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre",
                          "tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    GgufWriter writer = MakeTinyModel();
    writer.Remove(key);
    ExpectRefused(writer, absl::StatusCode::kInvalidArgument, {key, "none"});
  }
}

TEST(TokenizerSpec, RefusesWrongTypesAndRanges) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  GgufWriter writer = MakeTinyModel();
  writer.SetInt("tokenizer.ggml.tokens", 5);
  ExpectRefused(writer, kInvalid, {"tokenizer.ggml.tokens"});
  writer = MakeTinyModel();
  writer.SetInt("tokenizer.ggml.eos_token_id", 100'000);
  ExpectRefused(writer, kInvalid, {"eos_token_id", "100000"});
  writer = MakeTinyModel();
  writer.SetInts("tokenizer.ggml.token_type", {1, 7});
  ExpectRefused(writer, kInvalid, {"token_type[1]", "found 7"});
  writer = MakeTinyModel();
  writer.SetString("tokenizer.ggml.add_bos_token", "yes");
  ExpectRefused(writer, kInvalid, {"add_bos_token"});
}

// The fixture that all golden tests stand on is the vocabulary of the real
// file, and the real file's template is read.
TEST(TokenizerSpec, RealModelHasTheVocabularyOfTheFixture) {
  const char* path = std::getenv("KVASIR_TEST_MODEL");
  if (path == nullptr) {
    GTEST_SKIP() << "KVASIR_TEST_MODEL names no SmolLM2-135M-Instruct file";
  }
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto spec = ReadTokenizerSpec(**file);
  ASSERT_TRUE(spec.ok()) << spec.status();
  TokenizerSpec want = SmolLm2Spec(KVASIR_SOURCE_DIR);
  EXPECT_EQ(spec->tokens, want.tokens);
  EXPECT_EQ(spec->kinds, want.kinds);
  EXPECT_EQ(spec->merges, want.merges);
  EXPECT_EQ(spec->end_tokens, want.end_tokens);
  EXPECT_FALSE(spec->add_bos);
  want.chat_template = ReadFixture(KVASIR_SOURCE_DIR,
                                   "tests/fixtures/smollm2/chat_template.txt");
  const auto tokenizer = MakeTokenizer(*spec);
  want.named_tokens = spec->named_tokens;
  EXPECT_EQ(tokenizer->Digest(), MakeTokenizer(std::move(want))->Digest());
  Conversation conversation;
  conversation.messages = {{"user", "Hi"}};
  EXPECT_TRUE(EncodeChat(*tokenizer, conversation).ok());
}

}  // namespace
}  // namespace kvasir

#include "engine/model/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/vocabularies.h"

namespace kvasir {
namespace {

using Kind = TokenizerSpec::Kind;
using testing::HasSubstr;

void AddToken(TokenizerSpec& spec, const std::string& text, Kind kind) {
  spec.tokens.push_back(text);
  spec.kinds.push_back(kind);
}

// A token with a character from outside the alphabet stands for itself, as in
// the reference; nothing may turn it into other bytes.
TEST(Vocabulary, TokensOutsideTheAlphabetStandForThemselves) {
  TokenizerSpec spec = TinySpec();
  const auto id = static_cast<TokenId>(spec.tokens.size());
  AddToken(spec, "\u6F22 z", Kind::kNormal);
  AddToken(spec, "", Kind::kUnused);
  const auto built = BuildVocabulary(spec, /*ignores_merges=*/true);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->bytes[id], "\u6F22 z");
  EXPECT_EQ(built->bytes[id + 1], "");
}

// What may not be sent by id must not come out of text either.
TEST(Vocabulary, TextNeverBecomesAnUnusedToken) {
  TokenizerSpec spec = TinySpec();
  const auto whole = MakeTokenizer(spec);
  const std::vector<TokenId> made = whole->Encode("The", false);
  ASSERT_EQ(made.size(), 1u);
  spec.kinds[made[0]] = Kind::kUnused;
  const auto tokenizer = MakeTokenizer(std::move(spec));
  const std::vector<TokenId> ids = tokenizer->Encode("The", false);
  EXPECT_GT(ids.size(), 1u);
  EXPECT_EQ(tokenizer->Decode(ids, false), "The");
}

TEST(Vocabulary, UnusedIsWhatHasNoTokenAndEndsNothing) {
  TokenizerSpec spec = TinySpec();
  const auto first = static_cast<TokenId>(spec.tokens.size());
  AddToken(spec, "[PAD0]", Kind::kUnused);
  AddToken(spec, "", Kind::kNormal);
  AddToken(spec, "", Kind::kControl);
  AddToken(spec, "<end>", Kind::kUnused);
  spec.end_tokens.push_back(first + 3);
  const auto tokenizer = MakeTokenizer(std::move(spec));
  for (TokenId id = 0; id < tokenizer->size(); ++id) {
    EXPECT_EQ(tokenizer->IsUnused(id), id >= first && id < first + 3) << id;
  }
}

// Moving the object must not leave the words' keys behind.
TEST(Vocabulary, WholeWordsSurviveAMove) {
  auto built = BuildVocabulary(TinySpec(), /*ignores_merges=*/true);
  ASSERT_TRUE(built.ok()) << built.status();
  const Vocabulary moved = *std::move(built);
  EXPECT_GT(moved.whole_words.size(), 256u);
  for (const auto& [word, id] : moved.whole_words) {
    EXPECT_EQ(moved.bytes[id], word);
    EXPECT_EQ(moved.bytes[id].data(), word.data());
  }
}

// A cache version's identity: what changes ids must change the digest, and
// moving a byte from one field to the next is a change.
TEST(Vocabulary, DigestChangesWithEveryField) {
  std::vector<TokenizerSpec> specs(9, TinySpec());
  specs[1].pre_tokenizer = "gpt-2";
  AddToken(specs[2], "zq", Kind::kNormal);
  AddToken(specs[3], "zq", Kind::kUserDefined);
  std::swap(specs[4].merges[0], specs[4].merges[1]);
  specs[5].add_bos = true;
  specs[6].end_tokens.push_back(1);
  specs[7].chat_template = "x";
  specs[8].bos = 0;
  std::set<std::string> digests;
  for (const TokenizerSpec& spec : specs) {
    EXPECT_EQ(DigestOf(spec).size(), 64u);
    EXPECT_TRUE(digests.insert(DigestOf(spec)).second);
    EXPECT_EQ(MakeTokenizer(spec)->Digest(), DigestOf(spec));
  }
}

// Two machines, and two releases, have to agree on it.
TEST(Vocabulary, DigestIsTheSameEverywhere) {
  TokenizerSpec spec = TinySpec();
  spec.end_tokens = {2, 258};
  EXPECT_EQ(DigestOf(spec),
            "9ecbb3ac155f78883fc26fc0042613bc2c810d78658762721e14ab7368c0de73");
}

// A malformed vocabulary would otherwise give wrong ids, or ids out of range,
// without a word: it is refused with the field, what was wanted and what there
// was.
template <typename Break>
void ExpectRefused(Break break_spec, absl::StatusCode code,
                   const std::vector<std::string>& words) {
  TokenizerSpec spec = TinySpec();
  break_spec(spec);
  const auto made = BuildVocabulary(spec, /*ignores_merges=*/false);
  ASSERT_FALSE(made.ok()) << words[0];
  EXPECT_EQ(made.status().code(), code) << made.status();
  for (const std::string& word : words) {
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(word));
  }
}

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
using Spec = TokenizerSpec;

TEST(Vocabulary, RefusesOtherModelsByName) {
  ExpectRefused([](Spec& s) { s.model = "llama"; }, kUnimplemented,
                {"ggml.model", "gpt2", "llama"});
}

TEST(Vocabulary, RefusesMalformedTokens) {
  ExpectRefused([](Spec& s) { s.tokens.clear(), s.kinds.clear(); }, kInvalid,
                {"ggml.tokens", "found 0"});
  ExpectRefused([](Spec& s) { s.kinds.pop_back(); }, kInvalid,
                {"token_type", "one per token"});
  ExpectRefused([](Spec& s) { s.kinds[7] = Kind::kByte; }, kInvalid,
                {"token_type[7]", "BYTE"});
  ExpectRefused([](Spec& s) { s.tokens[300] = s.tokens[299]; }, kInvalid,
                {"tokens[300]", "tokens[299]"});
}

// LOAD-1: a control token of 64 MiB once took 2.8 GB, a node per byte.
TEST(Vocabulary, RefusesTokensThatAreTooLong) {
  const auto is_ok = [](size_t bytes) {
    TokenizerSpec spec = TinySpec();
    AddToken(spec, std::string(bytes, 'q'), Kind::kControl);
    return BuildVocabulary(spec, /*ignores_merges=*/false).ok();
  };
  EXPECT_TRUE(is_ok(1024));
  EXPECT_FALSE(is_ok(1025));
  ExpectRefused([](Spec& s) { s.tokens[5].assign(1 << 26, 'q'); }, kInvalid,
                {"tokens[5]", "1024 bytes", "67108864"});
}

TEST(Vocabulary, RefusesSpecialTokensThatAreTooLongTogether) {
  for (const Kind kind : {Kind::kControl, Kind::kUserDefined}) {
    ExpectRefused(
        [&](Spec& s) {
          for (int i = 0; i < 1040; ++i) {
            AddToken(s, std::to_string(i) + std::string(1020, 'q'), kind);
          }
        },
        kInvalid, {"control and user-defined", "1048576 bytes"});
  }
}

TEST(Vocabulary, RefusesMalformedMerges) {
  ExpectRefused([](Spec& s) { s.merges[1] = "ab"; }, kInvalid,
                {"merges[1]", "\"ab\""});
  ExpectRefused([](Spec& s) { s.merges[1] = ""; }, kInvalid,
                {"merges[1]", "\"\""});
  ExpectRefused([](Spec& s) { s.merges[1] = "a "; }, kInvalid,
                {"merges[1]", "\"a \""});
  ExpectRefused([](Spec& s) { s.merges[1] = " a"; }, kInvalid,
                {"merges[1]", "\" a\""});
  ExpectRefused([](Spec& s) { s.merges[2] = "a \xFFyy"; }, kInvalid,
                {"merges[2]", "\"\uFFFDyy\" is no token"});
  ExpectRefused([](Spec& s) { s.merges[2] = "z z"; }, kInvalid,
                {"merges[2]", "\"zz\" is no token"});
}

TEST(Vocabulary, RefusesIdsOutOfRange) {
  ExpectRefused([](Spec& s) { s.bos = 5000; }, kInvalid,
                {"bos_token_id", "5000"});
  ExpectRefused([](Spec& s) { s.eos = -2; }, kInvalid, {"eos_token_id", "-2"});
  ExpectRefused([](Spec& s) { s.end_tokens = {-1}; }, kInvalid,
                {"end tokens", "-1"});
  ExpectRefused([](Spec& s) { s.add_bos = true, s.bos = -1; }, kInvalid,
                {"bos_token_id", "none"});
}

}  // namespace
}  // namespace kvasir

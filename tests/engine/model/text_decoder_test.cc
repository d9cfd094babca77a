#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/model/tokenizer.h"
#include "engine/model/utf8.h"
#include "tests/support/vocabularies.h"

namespace kvasir {
namespace {

using Ids = std::vector<TokenId>;

// TinySpec's token of each byte.
Ids ByteIds(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(3 + static_cast<uint8_t>(c));
  return ids;
}

bool IsWholeUtf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Start start = ReadUtf8(text);
    if (start.kind != Utf8Start::Kind::kCharacter) return false;
    text.remove_prefix(start.bytes);
  }
  return true;
}

// U+FFFD for each ill-formed run, over all bytes at once: what a client gets
// that decodes the ids' bytes itself.
std::string Replaced(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const Utf8Start start = ReadUtf8(bytes);
    out += start.kind == Utf8Start::Kind::kCharacter
               ? bytes.substr(0, start.bytes)
               : kReplacementCharacter;
    bytes.remove_prefix(start.bytes);
  }
  return out;
}

// STR-1: one byte per token, stopped after every number of tokens.
TEST(TextDecoder, EveryPrefixOfByteTokensIsWholeText) {
  const auto tokenizer = MakeTokenizer(TinySpec());
  const std::string text = "Hi \U0001F60A\u00E9\u6F22.";
  const Ids ids = ByteIds(text);
  for (size_t count = 0; count <= ids.size(); ++count) {
    TextDecoder decoder(tokenizer.get(), /*skip_special=*/true);
    std::string joined;
    for (size_t i = 0; i < count; ++i) {
      const std::string piece = decoder.Push(ids[i]);
      EXPECT_TRUE(IsWholeUtf8(piece));
      // While more may come, nothing is replaced.
      EXPECT_EQ(piece.find(kReplacementCharacter), std::string::npos);
      joined += piece;
    }
    EXPECT_EQ(joined, text.substr(0, joined.size()));
    EXPECT_LT(count - joined.size(), 4u);
    const bool is_cut = joined.size() < count;
    const std::string tail = decoder.Finish();
    EXPECT_EQ(tail, is_cut ? kReplacementCharacter : "") << count;
    EXPECT_EQ(joined + tail,
              DecodeText(*tokenizer, absl::MakeSpan(ids).first(count), true));
  }
}

// C9 for any ids, characters cut anywhere and control tokens in between.
TEST(TextDecoder, JoinedPiecesEqualTheDecodedWhole) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  TokenizerSpec spec = TinySpec();
  // Tokens that begin or end inside a character, as real vocabularies have.
  for (const char* token : {"\u00E6\u00BC", "\u00A2a", "\u00F0\u0141"}) {
    spec.tokens.emplace_back(token);
    spec.kinds.push_back(TokenizerSpec::Kind::kNormal);
  }
  const auto tokenizer = MakeTokenizer(std::move(spec));
  for (int round = 0; round < 20000; ++round) {
    Ids ids;
    for (int i = static_cast<int>(random() % 12); i > 0; --i) {
      // Half of them from the high bytes, where characters are cut.
      const bool high = random() % 2 == 0;
      ids.push_back(static_cast<TokenId>(high ? 3 + 0x80 + random() % 0x80
                                              : random() % tokenizer->size()));
    }
    const bool skip_special = random() % 2 == 0;
    TextDecoder decoder(tokenizer.get(), skip_special);
    std::string joined;
    for (const TokenId id : ids) {
      const std::string piece = decoder.Push(id);
      ASSERT_TRUE(IsWholeUtf8(piece));
      joined += piece;
    }
    joined += decoder.Finish();
    ASSERT_EQ(joined, DecodeText(*tokenizer, ids, skip_special));
    ASSERT_EQ(joined, Replaced(tokenizer->Decode(ids, skip_special)));
  }
}

TEST(TextDecoder, ControlTokensAreTextOnlyIfNotSkipped) {
  const auto tokenizer = MakeTokenizer(TinySpec());
  const Ids ids = {1, 3 + 'z', 2};
  EXPECT_EQ(DecodeText(*tokenizer, ids, true), "z");
  EXPECT_EQ(DecodeText(*tokenizer, ids, false), "<|im_start|>z<|im_end|>");
}

// A decoder is not reset by anything but its end.
TEST(TextDecoder, FinishLeavesNothingBehind) {
  const auto tokenizer = MakeTokenizer(TinySpec());
  TextDecoder decoder(tokenizer.get(), true);
  EXPECT_EQ(decoder.Push(3 + 0xE6), "");
  EXPECT_EQ(decoder.Finish(), kReplacementCharacter);
  EXPECT_EQ(decoder.Finish(), "");
}

}  // namespace
}  // namespace kvasir

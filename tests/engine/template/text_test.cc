#include "engine/template/text.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/template/characters.h"

namespace kvasir::jinja {
namespace {

TEST(Text, RunsOfOneTrustAreOne) {
  Text text("ab", true);
  text.Append("cd", true);
  text.Append("", false);
  text.Append("ef", true);
  EXPECT_EQ(text.runs().size(), 1u);
  text.Append("é", false);
  EXPECT_EQ(text.runs().size(), 2u);
  EXPECT_EQ(text.CharacterCount(), 7u);
  EXPECT_EQ(text.size(), 8u);
  EXPECT_EQ(text.OffsetOf(6), 6u);
  EXPECT_EQ(text.OffsetOf(7), 8u);
  EXPECT_EQ(text.OffsetOf(70), 8u);
  EXPECT_TRUE(text.IsTrustedAt(5));
  EXPECT_FALSE(text.IsTrustedAt(6));
  EXPECT_FALSE(text.IsTrustedAt(8));
}

// Random appends and slices against a twin of one byte and one trust each.
TEST(Text, RandomOperationsAgreeWithATwin) {
  const uint32_t seed = 4;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    Text text;
    std::vector<std::pair<char, bool>> twin;
    for (int step = 0; step < 20; ++step) {
      const bool trusted = random() % 2 == 0;
      const std::string bytes(random() % 5, static_cast<char>('a' + step));
      text.Append(bytes, trusted);
      for (const char c : bytes) twin.emplace_back(c, trusted);
      if (random() % 4 != 0 || twin.empty()) continue;
      const size_t from = random() % (twin.size() + 1);
      const size_t to = from + random() % (twin.size() - from + 1);
      const Text slice = text.Slice(from, to);
      text.Append(slice);
      const std::vector<std::pair<char, bool>> part(
          twin.begin() + static_cast<ptrdiff_t>(from),
          twin.begin() + static_cast<ptrdiff_t>(to));
      twin.insert(twin.end(), part.begin(), part.end());
    }
    ASSERT_EQ(text.size(), twin.size());
    TextCursor at(text);
    for (size_t i = 0; i < twin.size(); ++i, at.Next()) {
      EXPECT_EQ(text.view()[i], twin[i].first);
      EXPECT_EQ(text.IsTrustedAt(i), twin[i].second);
      EXPECT_EQ(at.origin() == Origin::kTemplate, twin[i].second);
      EXPECT_EQ(at.offset(), i);
    }
    EXPECT_TRUE(at.done());
    for (size_t i = 1; i < text.runs().size(); ++i) {
      EXPECT_NE(text.runs()[i].origin, text.runs()[i - 1].origin);
    }
  }
}

// Bytes that are no characters are mended once, at the door.
TEST(Characters, IllFormedBytesBecomeMarks) {
  EXPECT_EQ(MendUtf8("a\xFF\xC3"), "a\uFFFD\uFFFD");
  EXPECT_EQ(MendUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(MendUtf8("\xC0\x80"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(MendUtf8("é漢😊"), "é漢😊");
  EXPECT_TRUE(IsWellFormed("é漢😊"));
  EXPECT_FALSE(IsWellFormed("\xF4\x90\x80\x80"));
  EXPECT_FALSE(IsWellFormed("é\xE6\xBC"));
}

TEST(Characters, AllComeBack) {
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string bytes;
    AppendCharacter(code, bytes);
    ASSERT_TRUE(IsWellFormed(bytes)) << static_cast<uint32_t>(code);
    ASSERT_EQ(CharacterAt(bytes, 0).code, code);
    ASSERT_EQ(CharacterAt(bytes, 0).bytes, bytes.size());
  }
}

// The tables' borders: of stride two, of one character, and none.
TEST(Characters, CasesMapAsInUnicode) {
  const auto upper = [](char32_t code) {
    std::string out;
    AppendUpper(code, out);
    return out;
  };
  const auto lower = [](char32_t code) {
    std::string out;
    AppendLower(code, out);
    return out;
  };
  EXPECT_EQ(upper(U'z'), "Z");
  EXPECT_EQ(upper(U'é'), "É");
  EXPECT_EQ(upper(U'ā'), "Ā");
  EXPECT_EQ(upper(U'Ā'), "Ā");
  EXPECT_EQ(upper(U'ÿ'), "Ÿ");
  EXPECT_EQ(upper(U'ж'), "Ж");
  EXPECT_EQ(upper(U'ß'), "SS");
  EXPECT_EQ(upper(U'漢'), "漢");
  EXPECT_EQ(lower(U'Ω'), "ω");
  EXPECT_EQ(lower(U'Ā'), "ā");
  EXPECT_EQ(lower(U'1'), "1");
  EXPECT_TRUE(IsUpper(U'É'));
  EXPECT_TRUE(IsLower(U'ß'));
  EXPECT_FALSE(IsUpper(U'漢'));
  EXPECT_TRUE(IsLetter(U'漢'));
  EXPECT_FALSE(IsLetter(U'1'));
  EXPECT_TRUE(IsDecimal(U'٣'));
  EXPECT_FALSE(IsDecimal(U'²'));
  EXPECT_TRUE(IsDigit(U'²'));
  EXPECT_TRUE(IsSpace(U'\u3000'));
  EXPECT_FALSE(IsPrintable(U'\u200B'));
  EXPECT_TRUE(IsPrintable(U'😊'));
}

}  // namespace
}  // namespace kvasir::jinja

#include "engine/model/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace kvasir {
namespace {

std::string Whole(std::string_view bytes) {
  const Utf8Text out = ReplaceIllFormed(bytes);
  return out.held.empty() ? out.text
                          : out.text + std::string(kReplacementCharacter);
}

// Every code point in its only well-formed spelling.
std::string Encode(uint32_t c) {
  auto tail = [&](int shift) {
    return static_cast<char>(0x80 | ((c >> shift) & 0x3F));
  };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(0)};
  if (c < 0x10000) {
    return {static_cast<char>(0xE0 | c >> 12), tail(6), tail(0)};
  }
  return {static_cast<char>(0xF0 | c >> 18), tail(12), tail(6), tail(0)};
}

TEST(Utf8, EveryCharacterIsReadWhole) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    const std::string text = Encode(c);
    const Utf8Start start = ReadUtf8(text + "x");
    ASSERT_EQ(start.kind, Utf8Start::Kind::kCharacter) << c;
    ASSERT_EQ(start.bytes, static_cast<int>(text.size())) << c;
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const Utf8Start part = ReadUtf8(text.substr(0, cut));
      ASSERT_EQ(part.kind, Utf8Start::Kind::kUnfinished) << c;
      ASSERT_EQ(part.bytes, static_cast<int>(cut)) << c;
    }
  }
}

// Surrogates, overlong forms and code points beyond U+10FFFF look like UTF-8
// to a decoder that only counts continuation bytes.
TEST(Utf8, FormsThatOnlyLookLikeUtf8AreIllFormed) {
  for (const char* bytes : {"\x80", "\xBF", "\xC0\x80", "\xC1\xBF", "\xF5\x80",
                            "\xFF", "\xE0\x9F\xBF", "\xED\xA0\x80",
                            "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80"}) {
    EXPECT_EQ(ReadUtf8(bytes).kind, Utf8Start::Kind::kIllFormed) << bytes;
    EXPECT_EQ(ReadUtf8(bytes).bytes, 1) << bytes;
  }
}

// The examples of the Unicode standard, tables 3-8 to 3-11: clients compare
// with libraries that follow them.
TEST(Utf8, WellFormedBytesEndBeforeTheFirstFault) {
  // Protobuf refuses a whole message for one such byte.
  for (const std::string& good :
       {std::string(""), std::string("a\0b", 3), std::string("caf\xc3\xa9"),
        std::string("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf")}) {
    EXPECT_EQ(WellFormedBytes(good), good.size()) << good;
  }
  for (const char* bad : {"\xe9", "\x80", "\xc0\x80", "\xed\xa0\x80", "\xff",
                          "\xf0\x9f\x98", "\xe2\x82x"}) {
    EXPECT_EQ(WellFormedBytes(std::string("ab\xc3\xa9") + bad), 4u);
  }
}

TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r(kReplacementCharacter);
  auto times = [&](int n) {
    std::string out;
    while (n-- > 0) out += r;
    return out;
  };
  EXPECT_EQ(Whole("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), times(8) + "A");
  EXPECT_EQ(Whole("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), times(8) + "A");
  EXPECT_EQ(Whole("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            times(5) + "A" + times(2) + "B");
  EXPECT_EQ(Whole("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), times(4) + "A");
  EXPECT_EQ(Whole("61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "61" + times(3) + "b" + r + "c" + times(2) + "d");
}

// Replacing piece by piece, with the held bytes carried over, must not depend
// on where the pieces end (contract C9).
TEST(Utf8, CutsDoNotChangeTheResult) {
  const uint32_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  // Bytes at the borders of the table, so that near misses are common.
  const std::string bytes =
      "aZ\x7F\x80\x8F\x90\x9F\xA0\xBF\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF3\xF4\xFF";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    for (int i = random() % 12; i >= 0; --i) {
      text.push_back(bytes[random() % bytes.size()]);
    }
    std::string joined;
    std::string held;
    for (size_t begin = 0; begin < text.size();) {
      const size_t size = 1 + random() % 4;
      const Utf8Text part = ReplaceIllFormed(held + text.substr(begin, size));
      joined += part.text;
      held = part.held;
      ASSERT_LT(held.size(), 4u);
      begin += size;
    }
    if (!held.empty()) joined += kReplacementCharacter;
    ASSERT_EQ(joined, Whole(text));
  }
}

// Status messages travel over gRPC, which wants UTF-8; a file or a client may
// hold anything.
TEST(Utf8, QuotedTextIsFitForAMessage) {
  EXPECT_EQ(QuoteText("a\n\"\u6F22\x01"), "\"a\\n\\\"\u6F22\\001\"");
  EXPECT_EQ(QuoteText("\xFFz"), "\"\uFFFDz\"");
  const std::string cut(kMaxQuotedBytes - 1, 'x');
  EXPECT_EQ(QuoteText(cut + "\u6F22"), "\"" + cut + "...\"");
}

}  // namespace
}  // namespace kvasir

#include "server/client_text.h"

#include <string>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(Utf8PrefixTest, WholeTextIsItsOwnPrefix) {
  for (const std::string& good :
       {std::string(""), std::string("abc"), std::string("a\0b", 3),
        std::string("caf\xc3\xa9"), std::string("\xef\xbf\xbf"),
        std::string("\xed\x9f\xbf\xee\x80\x80"),
        std::string("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf")}) {
    EXPECT_EQ(Utf8Prefix(good), good.size()) << good;
  }
}

TEST(Utf8PrefixTest, EndsBeforeTheFirstFault) {
  struct Case {
    const char* fault;
    const char* bytes;
  };
  const Case cases[] = {
      {"Latin-1", "\xe9"},
      {"a stray continuation", "\x80"},
      {"overlong, two bytes", "\xc0\x80"},
      {"overlong, three bytes", "\xe0\x9f\xbf"},
      {"overlong, four bytes", "\xf0\x8f\xbf\xbf"},
      {"a surrogate", "\xed\xa0\x80"},
      {"beyond U+10FFFF", "\xf4\x90\x80\x80"},
      {"a byte of no character", "\xff"},
      {"cut short", "\xf0\x9f\x98"},
      {"interrupted", "\xe2\x82x"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(Utf8Prefix(std::string("ab\xc3\xa9") + c.bytes), 4u) << c.fault;
  }
}

// What goes into a status message must stay one line and UTF-8: the details
// are a protobuf message, whose readers fail otherwise.
TEST(QuoteClientTextTest, IsOneLineOfWholeCharacters) {
  EXPECT_EQ(QuoteClientText("gpt"), "\"gpt\"");
  EXPECT_EQ(QuoteClientText("a\nb\"c"), "\"a\\nb\\\"c\"");
  EXPECT_EQ(QuoteClientText("caf\xc3\xa9"), "\"caf\xc3\xa9\"");
  for (size_t before = 95; before < 101; ++before) {
    const std::string quoted =
        QuoteClientText(std::string(before, 'x') + "\xf0\x9f\x98\x8a tail");
    EXPECT_EQ(Utf8Prefix(quoted), quoted.size()) << before;
    EXPECT_LT(quoted.size(), 110u);
    EXPECT_TRUE(quoted.ends_with("\"...")) << quoted;
  }
}

}  // namespace
}  // namespace kvasir

#include "engine/model/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace kvasir {
namespace {

// The stand-ins that everyone knows from looking at a vocabulary.
TEST(ByteAlphabet, HasTheFamiliarCharacters) {
  EXPECT_EQ(AlphabetCharacter('A'), "A");
  EXPECT_EQ(AlphabetCharacter(' '), "\u0120");
  EXPECT_EQ(AlphabetCharacter('\n'), "\u010A");
  EXPECT_EQ(AlphabetCharacter(0), "\u0100");
  EXPECT_EQ(AlphabetCharacter(0x7F), "\u0121");
  EXPECT_EQ(AlphabetCharacter(0xAD), "\u0143");
  EXPECT_EQ(AlphabetCharacter(0xE9), "\u00E9");
}

TEST(ByteAlphabet, EveryByteComesBack) {
  std::set<std::string_view> seen;
  std::string all;
  std::string token;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string_view c = AlphabetCharacter(static_cast<uint8_t>(byte));
    EXPECT_TRUE(seen.insert(c).second) << byte;
    all.push_back(static_cast<char>(byte));
    token.append(c);
  }
  EXPECT_EQ(BytesFromAlphabet(token), all);
  EXPECT_EQ(BytesFromAlphabet(""), "");
}

// Raw blanks, other scripts, and broken or overlong UTF-8: such a token is not
// written in the alphabet and must not be read as if it were.
TEST(ByteAlphabet, RefusesForeignCharacters) {
  for (const char* token :
       {" ", "a b", "\n", "\u00AD", "\u0144", "\u6F22", "\xC3", "a\xC4",
        "\xC0\xA0", "\xC1\x81", "\xC4\x41", "\xE2\x96\x81x", "\xFF"}) {
    EXPECT_EQ(BytesFromAlphabet(token), std::nullopt) << token;
  }
}

}  // namespace
}  // namespace kvasir

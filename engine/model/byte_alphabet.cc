#include "engine/model/byte_alphabet.h"

#include <array>
#include <cstddef>

namespace kvasir {
namespace {

constexpr int kFirstStandIn = 0x100;
constexpr int kStandIns = 68;
constexpr int kCharacters = kFirstStandIn + kStandIns;

constexpr bool StandsForItself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) ||
         byte >= 0xAE;
}

struct Alphabet {
  std::array<std::string, 256> characters;
  std::array<int, kCharacters> bytes;  // by code point; -1: not a character
};

// One or two bytes of UTF-8: the alphabet ends below U+0800.
std::string EncodeUtf8(int code_point) {
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xC0 | (code_point >> 6)),
          static_cast<char>(0x80 | (code_point & 0x3F))};
}

Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.bytes.fill(-1);
  int stand_in = kFirstStandIn;
  for (int byte = 0; byte < 256; ++byte) {
    const int code_point = StandsForItself(byte) ? byte : stand_in++;
    alphabet.characters[byte] = EncodeUtf8(code_point);
    alphabet.bytes[code_point] = byte;
  }
  return alphabet;
}

const Alphabet& GetAlphabet() {
  static const Alphabet& alphabet = *new Alphabet(MakeAlphabet());
  return alphabet;
}

}  // namespace

std::string_view AlphabetCharacter(uint8_t byte) {
  return GetAlphabet().characters[byte];
}

std::optional<std::string> BytesFromAlphabet(std::string_view token) {
  const Alphabet& alphabet = GetAlphabet();
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t i = 0; i < token.size(); ++i) {
    int code_point = static_cast<uint8_t>(token[i]);
    if (code_point >= 0x80) {
      const bool two_bytes = (code_point & 0xE0) == 0xC0 &&
                             i + 1 < token.size() &&
                             (static_cast<uint8_t>(token[i + 1]) >> 6) == 2;
      if (!two_bytes) return std::nullopt;
      code_point = (code_point & 0x1F) << 6 | (token[++i] & 0x3F);
      if (code_point < 0x80) return std::nullopt;  // overlong
    }
    if (code_point >= kCharacters || alphabet.bytes[code_point] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(alphabet.bytes[code_point]));
  }
  return bytes;
}

}  // namespace kvasir

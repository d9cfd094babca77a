#ifndef KVASIR_ENGINE_TEMPLATE_CHARACTERS_H_
#define KVASIR_ENGINE_TEMPLATE_CHARACTERS_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kvasir::jinja {

// Characters are Unicode code points, as in Python's str, and texts are UTF-8
// all through: what comes from outside is mended once, at the door, and all
// that is done to a text here keeps it well-formed.

// The character that starts at `at`, which is inside the well-formed `text`.
struct Character {
  char32_t code;
  size_t bytes;  // 1 to 4
};
Character CharacterAt(std::string_view text, size_t at);

// Whether a byte starts a character.
inline bool StartsCharacter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
}

// `code` is no surrogate and at most U+10FFFF.
void AppendCharacter(char32_t code, std::string& out);

// `text` with U+FFFD for each byte that is part of no character.
std::string MendUtf8(std::string_view text);
bool IsWellFormed(std::string_view text);

// As the methods of Python's str of one character.
bool IsSpace(char32_t code);
bool IsLetter(char32_t code);
bool IsDecimal(char32_t code);
bool IsDigit(char32_t code);
bool IsUpper(char32_t code);
bool IsLower(char32_t code);
bool IsPrintable(char32_t code);

// Upper case may be several characters: the sharp s becomes SS.
void AppendUpper(char32_t code, std::string& out);
void AppendLower(char32_t code, std::string& out);
// Upper case of a word's first character.
void AppendTitle(char32_t code, std::string& out);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_CHARACTERS_H_

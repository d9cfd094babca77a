#ifndef KVASIR_ENGINE_MODEL_BYTE_ALPHABET_H_
#define KVASIR_ENGINE_MODEL_BYTE_ALPHABET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace kvasir {

// The alphabet in which byte-level vocabularies write their tokens: one
// printable character per byte, so that a token is always readable text. Bytes
// that are printable in Latin-1 ('!' to '~', U+00A1 to U+00AC, U+00AE to
// U+00FF) stand for themselves; the other 68 are U+0100, U+0101, ... in rising
// order, which makes the space U+0120. Introduced with GPT-2.

// The character of `byte`, in UTF-8.
std::string_view AlphabetCharacter(uint8_t byte);

// The bytes that `token` stands for, or nothing if it has a character from
// outside the alphabet.
std::optional<std::string> BytesFromAlphabet(std::string_view token);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_BYTE_ALPHABET_H_

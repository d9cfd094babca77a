#ifndef KVASIR_ENGINE_MODEL_UTF8_H_
#define KVASIR_ENGINE_MODEL_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace kvasir {

// What a byte string starts with.
struct Utf8Start {
  enum class Kind {
    kCharacter,   // one well-formed character
    kIllFormed,   // bytes that no character starts with: one U+FFFD
    kUnfinished,  // all that is left, and more bytes could make it a character
  };
  Kind kind;
  int bytes;  // 1 to 4
};

// Reads the first character of `text`, which is not empty. Well-formed is what
// table 3-7 of the Unicode standard says: no overlong forms, no surrogates,
// nothing above U+10FFFF. Ill-formed bytes come as *maximal subparts*
// (Unicode, section 3.9, "U+FFFD substitution"; also the WHATWG decoder): the
// longest start of a character that the next byte spoils, or else one byte. So
// cutting a text anywhere and replacing the pieces in turn gives what replacing
// the whole gives.
Utf8Start ReadUtf8(std::string_view text);

// How many bytes at the start of `text` are well-formed; its size if all are.
size_t WellFormedBytes(std::string_view text);

// U+FFFD, the mark for bytes that are no character.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// `bytes` with each ill-formed run replaced by U+FFFD, as far as it can be told
// without knowing what follows; `held` is the unfinished character at the end,
// at most three bytes.
struct Utf8Text {
  std::string text;
  std::string held;
};
Utf8Text ReplaceIllFormed(std::string_view bytes);

// Foreign text in double quotes, fit for an error message: well-formed, control
// characters escaped, cut after kMaxQuotedBytes.
inline constexpr size_t kMaxQuotedBytes = 80;
std::string QuoteText(std::string_view text);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_UTF8_H_

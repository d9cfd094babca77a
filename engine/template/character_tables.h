#ifndef KVASIR_ENGINE_TEMPLATE_CHARACTER_TABLES_H_
#define KVASIR_ENGINE_TEMPLATE_CHARACTER_TABLES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace kvasir::jinja {

// What characters.cc knows of characters above U+007F. Rising and disjoint, so
// that they can be searched by halves. Constant data; any thread.

struct CharacterRange {
  char32_t first;
  char32_t last;  // inclusive
};

absl::Span<const CharacterRange> Letters();
absl::Span<const CharacterRange> Decimals();
absl::Span<const CharacterRange> OtherDigits();
absl::Span<const CharacterRange> Unprintable();

// Characters first, first + stride, ... last map to themselves plus `delta`.
struct CaseRange {
  char32_t first;
  char32_t last;
  int32_t stride;
  int32_t delta;
};

absl::Span<const CaseRange> ToUpper();
absl::Span<const CaseRange> ToLower();

// Characters whose upper case is several.
struct CaseExpansion {
  char32_t character;
  const char32_t* upper;  // ends with 0
};

absl::Span<const CaseExpansion> UpperExpansions();

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_CHARACTER_TABLES_H_

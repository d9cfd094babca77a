#include "engine/template/characters.h"

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"

#include "engine/template/character_tables.h"

namespace kvasir::jinja {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes of the well-formed character that `text` starts with; 0 if none does.
// Table 3-7 of the Unicode standard.
size_t WellFormedStart(std::string_view text) {
  const auto byte = [&](size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < size; ++i) {
    if (byte(i) < low || byte(i) > high) return 0;
    low = 0x80;
    high = 0xBF;
  }
  return size;
}

template <typename Range>
const Range* FindRange(absl::Span<const Range> ranges, char32_t code) {
  const auto it = std::partition_point(
      ranges.begin(), ranges.end(),
      [&](const Range& range) { return range.last < code; });
  return it == ranges.end() || it->first > code ? nullptr : &*it;
}

char32_t Mapped(absl::Span<const CaseRange> ranges, char32_t code) {
  const CaseRange* range = FindRange(ranges, code);
  if (range == nullptr) return code;
  const auto offset = static_cast<int32_t>(code - range->first);
  if (offset % range->stride != 0) return code;
  return static_cast<char32_t>(static_cast<int32_t>(code) + range->delta);
}

const char32_t* FindExpansion(char32_t code) {
  const auto all = UpperExpansions();
  const auto it = std::partition_point(
      all.begin(), all.end(),
      [&](const CaseExpansion& one) { return one.character < code; });
  return it == all.end() || it->character != code ? nullptr : it->upper;
}

bool IsBetween(char32_t code, char32_t first, char32_t last) {
  return first <= code && code <= last;
}

char32_t UpperOf(char32_t code) {
  if (code < 0x80) return IsBetween(code, 'a', 'z') ? code - 32 : code;
  return Mapped(ToUpper(), code);
}

char32_t LowerOf(char32_t code) {
  if (code < 0x80) return IsBetween(code, 'A', 'Z') ? code + 32 : code;
  return Mapped(ToLower(), code);
}

}  // namespace

Character CharacterAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> char32_t {
    return static_cast<unsigned char>(text[at + i]);
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) {
    return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  }
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 |
              (byte(3) & 0x3F),
          4};
}

void AppendCharacter(char32_t code, std::string& out) {
  const auto tail = [&](int shift) {
    out.push_back(static_cast<char>(0x80 | (code >> shift & 0x3F)));
  };
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out.push_back(static_cast<char>(0xC0 | code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out.push_back(static_cast<char>(0xE0 | code >> 12));
    tail(6);
    tail(0);
  } else {
    out.push_back(static_cast<char>(0xF0 | code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string MendUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = WellFormedStart(text);
    out.append(bytes > 0 ? text.substr(0, bytes) : kReplacement);
    text.remove_prefix(std::max<size_t>(1, bytes));
  }
  return out;
}

bool IsWellFormed(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = WellFormedStart(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

bool IsSpace(char32_t code) {
  return IsBetween(code, 9, 13) || IsBetween(code, 28, 32) || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || IsBetween(code, 0x2000, 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

bool IsLetter(char32_t code) {
  if (code < 0x80) {
    return IsBetween(code, 'a', 'z') || IsBetween(code, 'A', 'Z');
  }
  return FindRange(Letters(), code) != nullptr;
}

bool IsDecimal(char32_t code) {
  if (code < 0x80) return IsBetween(code, '0', '9');
  return FindRange(Decimals(), code) != nullptr;
}

bool IsDigit(char32_t code) {
  return IsDecimal(code) ||
         (code >= 0x80 && FindRange(OtherDigits(), code) != nullptr);
}

bool IsUpper(char32_t code) { return LowerOf(code) != code; }

bool IsLower(char32_t code) {
  return UpperOf(code) != code || FindExpansion(code) != nullptr;
}

bool IsPrintable(char32_t code) {
  if (code < 0x80) return IsBetween(code, 0x20, 0x7E);
  return FindRange(Unprintable(), code) == nullptr;
}

void AppendUpper(char32_t code, std::string& out) {
  if (const char32_t* all = FindExpansion(code); all != nullptr) {
    for (; *all != 0; ++all) AppendCharacter(*all, out);
  } else {
    AppendCharacter(UpperOf(code), out);
  }
}

void AppendLower(char32_t code, std::string& out) {
  constexpr char32_t kDottedI = 0x130;
  if (code == kDottedI) {
    out += "i\xCC\x87";
  } else {
    AppendCharacter(LowerOf(code), out);
  }
}

void AppendTitle(char32_t code, std::string& out) {
  if (const char32_t* all = FindExpansion(code); all != nullptr) {
    AppendCharacter(*all, out);
    for (++all; *all != 0; ++all) AppendLower(*all, out);
  } else {
    AppendCharacter(UpperOf(code), out);
  }
}

}  // namespace kvasir::jinja

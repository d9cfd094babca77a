#include "engine/model/utf8.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

// What may follow a leading byte: how many continuation bytes, and the range of
// the first of them; the others are always in [0x80, 0xBF].
struct Lead {
  int continuations;  // -1: no character starts with this byte
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Lead ReadLead(uint8_t byte) {
  if (byte < 0x80) return {0};
  if (byte < 0xC2) return {-1};
  if (byte < 0xE0) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};  // below: overlong
  if (byte == 0xED) return {2, 0x80, 0x9F};  // above: surrogates
  if (byte < 0xF0) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};  // below: overlong
  if (byte < 0xF4) return {3};
  if (byte == 0xF4) return {3, 0x80, 0x8F};  // above: beyond U+10FFFF
  return {-1};
}

}  // namespace

Utf8Start ReadUtf8(std::string_view text) {
  KV_DCHECK(!text.empty());
  const Lead lead = ReadLead(static_cast<uint8_t>(text[0]));
  if (lead.continuations < 0) return {Utf8Start::Kind::kIllFormed, 1};
  uint8_t low = lead.low;
  uint8_t high = lead.high;
  for (int i = 1; i <= lead.continuations; ++i) {
    if (static_cast<size_t>(i) == text.size()) {
      return {Utf8Start::Kind::kUnfinished, i};
    }
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < low || byte > high) return {Utf8Start::Kind::kIllFormed, i};
    low = 0x80;
    high = 0xBF;
  }
  return {Utf8Start::Kind::kCharacter, lead.continuations + 1};
}

Utf8Text ReplaceIllFormed(std::string_view bytes) {
  Utf8Text out;
  while (!bytes.empty()) {
    const Utf8Start start = ReadUtf8(bytes);
    switch (start.kind) {
      case Utf8Start::Kind::kCharacter:
        out.text.append(bytes.substr(0, start.bytes));
        break;
      case Utf8Start::Kind::kIllFormed:
        out.text.append(kReplacementCharacter);
        break;
      case Utf8Start::Kind::kUnfinished:
        out.held = bytes;
        return out;
    }
    bytes.remove_prefix(start.bytes);
  }
  return out;
}

size_t WellFormedBytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Utf8Start start = ReadUtf8(text.substr(at));
    if (start.kind != Utf8Start::Kind::kCharacter) break;
    at += static_cast<size_t>(start.bytes);
  }
  return at;
}

std::string QuoteText(std::string_view text) {
  const bool is_cut = text.size() > kMaxQuotedBytes;
  const Utf8Text shown = ReplaceIllFormed(text.substr(0, kMaxQuotedBytes));
  return absl::StrCat("\"", absl::Utf8SafeCEscape(shown.text),
                      is_cut ? "...\"" : "\"");
}

}  // namespace kvasir

#include "server/client_text.h"

#include <cstdint>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "server/text.h"

namespace kvasir {
namespace {

// Of a text that is quoted; its length in escapes may be four times as much.
constexpr size_t kMaxQuotedBytes = 100;

// The length of the character that begins with `first`, and the range of its
// second byte, which is where overlong forms, surrogates and what lies beyond
// U+10FFFF show. Length 0: no character begins so.
struct Lead {
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
};

Lead LeadOf(uint8_t first) {
  if (first < 0x80) return {1};
  if (first < 0xC2) return {};
  if (first < 0xE0) return {2};
  if (first == 0xE0) return {3, 0xA0, 0xBF};
  if (first == 0xED) return {3, 0x80, 0x9F};
  if (first < 0xF0) return {3};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first < 0xF4) return {4};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

// The length of the character that `text` begins with; 0 if it is ill-formed.
size_t CharacterLength(std::string_view text) {
  const Lead lead = LeadOf(static_cast<uint8_t>(text[0]));
  if (lead.length == 0 || lead.length > text.size()) return 0;
  for (size_t i = 1; i < lead.length; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const uint8_t low = i == 1 ? lead.low : 0x80;
    const uint8_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return 0;
  }
  return lead.length;
}

}  // namespace

size_t Utf8Prefix(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const size_t length = CharacterLength(text.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

std::string QuoteClientText(std::string_view text) {
  size_t end = text.size();
  if (end > kMaxQuotedBytes) {
    end = kMaxQuotedBytes;
    while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  }
  return absl::StrCat("\"", absl::Utf8SafeCEscape(View(text.substr(0, end))),
                      end < text.size() ? "\"..." : "\"");
}

}  // namespace kvasir

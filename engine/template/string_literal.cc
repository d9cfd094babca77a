#include "engine/template/string_literal.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"

namespace kvasir::jinja {
namespace {

constexpr std::string_view kSimple = "abfnrtv\\'\"";
constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";

int DigitValue(char c) {
  if (absl::ascii_isdigit(c)) return c - '0';
  return absl::ascii_tolower(c) - 'a' + 10;
}

// Appends the character whose code stands in `digits`.
absl::Status AppendCode(std::string_view digits, int base, size_t wanted,
                        std::string& out) {
  if (digits.size() < wanted) {
    return absl::InvalidArgumentError("an unfinished escape in a string");
  }
  char32_t code = 0;
  for (const char c : digits) {
    if (base == 16 && !absl::ascii_isxdigit(c)) {
      return absl::InvalidArgumentError("an unfinished escape in a string");
    }
    code = code * static_cast<char32_t>(base) +
           static_cast<char32_t>(DigitValue(c));
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    return absl::InvalidArgumentError(
        "an escape in a string that stands for no character");
  }
  AppendCharacter(code, out);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> Unescape(std::string_view literal) {
  std::string out;
  out.reserve(literal.size());
  for (size_t i = 0; i < literal.size(); ++i) {
    if (literal[i] != '\\' || i + 1 == literal.size()) {
      out.push_back(literal[i]);
      continue;
    }
    const char c = literal[++i];
    if (const size_t known = kSimple.find(c); known != std::string_view::npos) {
      out.push_back(kMeanings[known]);
    } else if (c == '\n') {
      // A line that goes on.
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      RETURN_IF_ERROR(AppendCode(literal.substr(i + 1, size), 16, size, out));
      i += size;
    } else if (c >= '0' && c <= '7') {
      size_t size = 1;
      while (size < 3 && i + size < literal.size() &&
             literal[i + size] >= '0' && literal[i + size] <= '7') {
        ++size;
      }
      RETURN_IF_ERROR(AppendCode(literal.substr(i, size), 8, size, out));
      i += size - 1;
    } else if (c == 'N') {
      return absl::InvalidArgumentError(
          "an escape that names a character, which is not built");
    } else {
      out.push_back('\\');
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace kvasir::jinja

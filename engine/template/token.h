#ifndef KVASIR_ENGINE_TEMPLATE_TOKEN_H_
#define KVASIR_ENGINE_TEMPLATE_TOKEN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kvasir::jinja {

struct Token {
  enum class Kind : uint8_t {
    kData,           // text outside of tags, as it is printed
    kVariableBegin,  // {{
    kVariableEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,
    kInteger,
    kFloat,
    kOperator,
    kEnd,
  };
  Kind kind = Kind::kEnd;
  // Data and strings without their escapes; names, numbers and operators as
  // they are written, numbers without underscores.
  std::string text;
  int line = 1;

  bool Is(Kind wanted, std::string_view what) const {
    return kind == wanted && text == what;
  }
  bool IsName(std::string_view what) const { return Is(Kind::kName, what); }
  bool IsOperator(std::string_view what) const {
    return Is(Kind::kOperator, what);
  }
};

// Cuts a template into tokens as jinja2 does with trim_blocks and lstrip_blocks
// on and keep_trailing_newline off: a line break after a block or a comment
// goes, blanks before one that starts its line go, `-` strips on its side and
// `+` leaves what is there. Comments and {% raw %} leave no tokens but text.
// The last token is kEnd. `source` is well-formed UTF-8.
//
// INVALID_ARGUMENT as by Fault().
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

// "chat template, line 3: ..."
absl::Status Fault(int line, std::string_view what);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_TOKEN_H_

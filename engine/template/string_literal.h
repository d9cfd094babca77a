#ifndef KVASIR_ENGINE_TEMPLATE_STRING_LITERAL_H_
#define KVASIR_ENGINE_TEMPLATE_STRING_LITERAL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kvasir::jinja {

// What stands between the quotes of a literal, with Python's escapes resolved;
// one that Python does not know stays as it is written. INVALID_ARGUMENT for an
// unfinished escape, one that names a character, and one of no character.
absl::StatusOr<std::string> Unescape(std::string_view literal);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_STRING_LITERAL_H_

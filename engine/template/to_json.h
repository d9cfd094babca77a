#ifndef KVASIR_ENGINE_TEMPLATE_TO_JSON_H_
#define KVASIR_ENGINE_TEMPLATE_TO_JSON_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "engine/template/runtime.h"
#include "engine/template/text.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

inline constexpr int64_t kMaxJsonIndent = 1024;

// The arguments of json.dumps().
struct JsonStyle {
  bool ensure_ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;  // nothing: all on one line
  std::string separator = ", ";
  std::string colon = ": ";
};

// What Python's json.dumps() gives, and nothing escaped for HTML. Characters of
// texts keep their trust unless they are escaped; the rest is not trusted, as
// the form of data is data.
//
// INVALID_ARGUMENT for what JSON has no words for, such as an undefined value.
absl::StatusOr<Text> ToJson(Runtime& runtime, const Value& value,
                            const JsonStyle& style);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_TO_JSON_H_

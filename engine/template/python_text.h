#ifndef KVASIR_ENGINE_TEMPLATE_PYTHON_TEXT_H_
#define KVASIR_ENGINE_TEMPLATE_PYTHON_TEXT_H_

#include <string>

#include "absl/status/statusor.h"

#include "engine/template/runtime.h"
#include "engine/template/text.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

// What Python's str() gives: a string as it is, with its trust; anything else
// untrusted. Nothing for an undefined value. Charged to the budget.
absl::StatusOr<Text> Str(Runtime& runtime, const Value& value);

// The same, appended to `out`.
absl::Status AppendStr(Runtime& runtime, const Value& value, Text& out);

// What Python's repr() gives.
absl::StatusOr<std::string> Repr(Runtime& runtime, const Value& value);

// repr() of a float: the fewest digits that give it back, with an exponent
// below 1e-4 and from 1e16 on.
std::string FloatRepr(double value);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_PYTHON_TEXT_H_

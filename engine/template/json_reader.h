#ifndef KVASIR_ENGINE_TEMPLATE_JSON_READER_H_
#define KVASIR_ENGINE_TEMPLATE_JSON_READER_H_

#include <string_view>

#include "absl/status/statusor.h"

#include "engine/template/value.h"

namespace kvasir::jinja {

// A JSON text as the value that Python's json.loads() gives, its texts
// untrusted: keys in their order, the last of equal ones, whole numbers as
// integers and others as floats. Takes no recursion, and memory in proportion
// to the text.
//
// INVALID_ARGUMENT with what is wrong where: no JSON, an integer of more than
// 64 bits, or lists and objects nested more than kMaxJsonDepth deep.
absl::StatusOr<Value> ReadJson(std::string_view text);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_JSON_READER_H_

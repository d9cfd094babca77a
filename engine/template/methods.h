#ifndef KVASIR_ENGINE_TEMPLATE_METHODS_H_
#define KVASIR_ENGINE_TEMPLATE_METHODS_H_

#include <string_view>

#include "engine/template/runtime.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

// The methods that Python's str, list, tuple and dict have for templates. Those
// that would change a list or a dict are there, and are refused when called, as
// in jinja2's immutable sandbox. Null if `object` has no such method.
NativeFunction FindMethod(const Value& object, std::string_view name);

// By type; null if there is none.
NativeFunction FindTextMethod(std::string_view name);
NativeFunction FindTextTestMethod(std::string_view name);  // isdigit() and such
NativeFunction FindCollectionMethod(const Value& object, std::string_view name);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_METHODS_H_

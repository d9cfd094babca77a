#ifndef KVASIR_ENGINE_TEMPLATE_METHODS_H_
#define KVASIR_ENGINE_TEMPLATE_METHODS_H_

#include "engine/template/runtime.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

// The methods that Python's str, list, tuple and dict have for templates. Those
// that would change a list or a dict are there, and are refused when called, as
// in jinja2's immutable sandbox. Empty for what has none.
FunctionTable MethodsOf(const Value& object);

FunctionTable TextMethods();

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_METHODS_H_

#ifndef KVASIR_ENGINE_TEMPLATE_ARITHMETIC_H_
#define KVASIR_ENGINE_TEMPLATE_ARITHMETIC_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "engine/template/runtime.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

enum class BinaryOperator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
};

// As Python: texts and lists can be added and repeated, `/` always gives a
// float, `//` and `%` round down, `text % values` formats. INVALID_ARGUMENT for
// types that do not fit, a division by zero, and an integer of more than 64
// bits. Takes `left` over, so that a long text grows in place.
absl::StatusOr<Value> Calculate(Runtime& runtime, BinaryOperator op, Value left,
                                const Value& right);

absl::StatusOr<Value> Negate(const Value& value);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_ARITHMETIC_H_

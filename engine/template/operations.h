#ifndef KVASIR_ENGINE_TEMPLATE_OPERATIONS_H_
#define KVASIR_ENGINE_TEMPLATE_OPERATIONS_H_

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"

#include "engine/template/runtime.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

// What can be done with any value, as Python and jinja2 do it. Errors are
// INVALID_ARGUMENT for a type that cannot, RESOURCE_EXHAUSTED for the budget.

bool IsTruthy(const Value& value);

// a == b; never fails but for the budget.
absl::StatusOr<bool> Equals(Runtime& runtime, const Value& a, const Value& b);
// a < b, of two numbers, strings, lists or tuples.
absl::StatusOr<bool> Less(Runtime& runtime, const Value& a, const Value& b);
// item in container
absl::StatusOr<bool> Contains(Runtime& runtime, const Value& container,
                              const Value& item);

// All that a loop over it sees: characters, items, keys. Empties a generator;
// an undefined value has none.
absl::StatusOr<ValueList> Iterate(Runtime& runtime, const Value& value);
// len(); nothing for what has no length.
std::optional<int64_t> LengthOf(const Value& value);

// object.name and object[key]: undefined if there is none, an error if `object`
// itself is undefined. The first prefers methods and the second items.
absl::StatusOr<Value> GetAttribute(Runtime& runtime, const Value& object,
                                   std::string_view name);
absl::StatusOr<Value> GetItem(Runtime& runtime, const Value& object,
                              const Value& key);

// object[start:stop:step]; a bound of None is an absent one.
absl::StatusOr<Value> GetSlice(Runtime& runtime, const Value& object,
                               const Value& start, const Value& stop,
                               const Value& step);

// The character `index` of a text, as a text.
absl::StatusOr<Value> CharacterOf(Runtime& runtime, const Text& text,
                                  size_t index);

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_OPERATIONS_H_

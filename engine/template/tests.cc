// What can stand behind `is`.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "cache/base/status_macros.h"
#include "engine/template/arithmetic.h"
#include "engine/template/filters.h"
#include "engine/template/methods.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"

namespace kvasir::jinja {
namespace {

template <bool (*kIs)(const Value&)>
absl::StatusOr<Value> Plain(Runtime&, const Value& self,
                            const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  return Value::Bool(kIs(self));
}

bool IsBoolean(const Value& value) {
  return value.kind() == Value::Kind::kBool;
}
bool IsTrue(const Value& value) { return IsBoolean(value) && value.AsBool(); }
bool IsFalse(const Value& value) { return IsBoolean(value) && !value.AsBool(); }
bool IsDefined(const Value& value) { return !value.is_undefined(); }
bool IsUndefined(const Value& value) { return value.is_undefined(); }
bool IsNone(const Value& value) { return value.is_none(); }
bool IsInteger(const Value& value) { return value.kind() == Value::Kind::kInt; }
bool IsFloat(const Value& value) { return value.kind() == Value::Kind::kFloat; }
bool IsNumber(const Value& value) { return value.is_number(); }
bool IsString(const Value& value) { return value.is_string(); }
bool IsMapping(const Value& value) { return value.is_dict(); }
// An undefined value counts as empty here, and as something to call.
bool IsSequence(const Value& value) {
  return LengthOf(value).has_value() &&
         !(value.is_sequence() &&
           value.AsSequence().kind == Sequence::Kind::kView);
}
bool IsIterable(const Value& value) {
  return LengthOf(value).has_value() || value.AsObject<Generator>() != nullptr;
}
bool IsCallable(const Value& value) {
  const auto object = value.AsObject<Object>();
  return value.is_undefined() || (object != nullptr && object->is_callable());
}
bool IsEscaped(const Value& value) {
  return value.is_string() && value.AsText().is_markup();
}

absl::StatusOr<Value> Remainder(Runtime& runtime, const Value& self,
                                const Value& divisor) {
  if (!self.is_number()) return TypeFault("wanted a number", self);
  return Calculate(runtime, BinaryOperator::kModulo, self, divisor);
}

template <int64_t kRest>
absl::StatusOr<Value> IsParity(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(const Value rest, Remainder(runtime, self, Value::Int(2)));
  return Value::Bool(rest.AsFloat() == kRest);
}

absl::StatusOr<Value> IsDivisible(Runtime& runtime, const Value& self,
                                  const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"num"}));
  RETURN_IF_ERROR(Need(bound[0], "num"));
  ASSIGN_OR_RETURN(const Value rest, Remainder(runtime, self, *bound[0]));
  return Value::Bool(rest.AsFloat() == 0);
}

enum class Relation : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe };

template <Relation kRelation>
absl::StatusOr<Value> Relates(Runtime& runtime, const Value& self,
                              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"other"}));
  RETURN_IF_ERROR(Need(bound[0], "other"));
  const Value& other = *bound[0];
  bool holds = false;
  if (kRelation == Relation::kLt || kRelation == Relation::kLe) {
    ASSIGN_OR_RETURN(holds, Less(runtime, self, other));
  } else if (kRelation == Relation::kGt || kRelation == Relation::kGe) {
    ASSIGN_OR_RETURN(holds, Less(runtime, other, self));
  }
  if (holds || kRelation == Relation::kLt || kRelation == Relation::kGt) {
    return Value::Bool(holds);
  }
  ASSIGN_OR_RETURN(const bool same, Equals(runtime, self, other));
  return Value::Bool(same != (kRelation == Relation::kNe));
}

absl::StatusOr<Value> IsIn(Runtime& runtime, const Value& self,
                           const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"seq"}));
  RETURN_IF_ERROR(Need(bound[0], "seq"));
  ASSIGN_OR_RETURN(const bool inside, Contains(runtime, *bound[0], self));
  return Value::Bool(inside);
}

absl::StatusOr<Value> IsSameAs(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"other"}));
  RETURN_IF_ERROR(Need(bound[0], "other"));
  if (self.is_string()) {
    RETURN_IF_ERROR(runtime.budget.Scan(self.AsText().size()));
  }
  return Value::Bool(self.IsSame(*bound[0]));
}

template <bool kUpper>
absl::StatusOr<Value> IsOfCase(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  ASSIGN_OR_RETURN(Text text, Str(runtime, self));
  return FindIn(TextMethods(), kUpper ? "isupper" : "islower")(
      runtime, Value::String(std::move(text)), arguments);
}

template <NativeFunction (*kFind)(std::string_view)>
absl::StatusOr<Value> IsKnown(Runtime&, const Value& self,
                              const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  return Value::Bool(self.is_string() && kFind(self.AsView()) != nullptr);
}

constexpr NamedFunction kTests[] = {
    {"!=", Relates<Relation::kNe>},
    {"<", Relates<Relation::kLt>},
    {"<=", Relates<Relation::kLe>},
    {"==", Relates<Relation::kEq>},
    {">", Relates<Relation::kGt>},
    {">=", Relates<Relation::kGe>},
    {"boolean", Plain<IsBoolean>},
    {"callable", Plain<IsCallable>},
    {"defined", Plain<IsDefined>},
    {"divisibleby", IsDivisible},
    {"eq", Relates<Relation::kEq>},
    {"equalto", Relates<Relation::kEq>},
    {"escaped", Plain<IsEscaped>},
    {"even", IsParity<0>},
    {"false", Plain<IsFalse>},
    {"filter", IsKnown<FindFilter>},
    {"float", Plain<IsFloat>},
    {"ge", Relates<Relation::kGe>},
    {"greaterthan", Relates<Relation::kGt>},
    {"gt", Relates<Relation::kGt>},
    {"in", IsIn},
    {"integer", Plain<IsInteger>},
    {"iterable", Plain<IsIterable>},
    {"le", Relates<Relation::kLe>},
    {"lessthan", Relates<Relation::kLt>},
    {"lower", IsOfCase<false>},
    {"lt", Relates<Relation::kLt>},
    {"mapping", Plain<IsMapping>},
    {"ne", Relates<Relation::kNe>},
    {"none", Plain<IsNone>},
    {"number", Plain<IsNumber>},
    {"odd", IsParity<1>},
    {"sameas", IsSameAs},
    {"sequence", Plain<IsSequence>},
    {"string", Plain<IsString>},
    {"test", IsKnown<FindTest>},
    {"true", Plain<IsTrue>},
    {"undefined", Plain<IsUndefined>},
    {"upper", IsOfCase<true>},
};

}  // namespace

FunctionTable Tests() { return kTests; }

NativeFunction FindTest(std::string_view name) { return FindIn(kTests, name); }

}  // namespace kvasir::jinja

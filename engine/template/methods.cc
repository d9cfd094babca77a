#include "engine/template/methods.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"

namespace kvasir::jinja {
namespace {

absl::StatusOr<Value> Refuse(Runtime&, const Value& self, const Arguments&) {
  return absl::InvalidArgumentError(
      absl::StrCat("methods that change a ", View(self.TypeName()),
                   " are refused: templates run in an immutable sandbox"));
}

absl::StatusOr<Value> IndexOf(Runtime& runtime, const Value& self,
                              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"value"}));
  RETURN_IF_ERROR(Need(bound[0], "value"));
  const ValueList& items = self.AsSequence().items;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const bool same, Equals(runtime, items[i], *bound[0]));
    if (same) return Value::Int(static_cast<int64_t>(i));
  }
  return absl::InvalidArgumentError("the value is not in the list");
}

absl::StatusOr<Value> CountOf(Runtime& runtime, const Value& self,
                              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"value"}));
  RETURN_IF_ERROR(Need(bound[0], "value"));
  int64_t count = 0;
  for (const Value& item : self.AsSequence().items) {
    ASSIGN_OR_RETURN(const bool same, Equals(runtime, item, *bound[0]));
    count += same ? 1 : 0;
  }
  return Value::Int(count);
}

absl::StatusOr<Value> CopyList(Runtime&, const Value& self,
                               const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  return self;
}

absl::StatusOr<Value> Get(Runtime& runtime, const Value& self,
                          const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"key", "default"}));
  RETURN_IF_ERROR(Need(bound[0], "key"));
  ASSIGN_OR_RETURN(const Value* const value,
                   FindKey(runtime, self.AsDict(), *bound[0]));
  if (value != nullptr) return *value;
  return bound[1] == nullptr ? Value::None() : *bound[1];
}

absl::StatusOr<Value> Keys(Runtime& runtime, const Value& self,
                           const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(ValueList keys, Iterate(runtime, self));
  return MakeSequence(runtime, Sequence::Kind::kView, std::move(keys));
}

absl::StatusOr<Value> Values(Runtime& runtime, const Value& self,
                             const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  RETURN_IF_ERROR(runtime.budget.Scan(self.AsDict().size() * sizeof(Value)));
  ValueList values;
  for (const auto& [key, value] : self.AsDict().items()) {
    values.push_back(value);
  }
  return MakeSequence(runtime, Sequence::Kind::kView, std::move(values));
}

absl::StatusOr<Value> Items(Runtime& runtime, const Value& self,
                            const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ValueList items;
  for (const auto& [key, value] : self.AsDict().items()) {
    ASSIGN_OR_RETURN(Value pair, MakeTuple(runtime, {key, value}));
    items.push_back(std::move(pair));
  }
  return MakeSequence(runtime, Sequence::Kind::kView, std::move(items));
}

constexpr NamedFunction kTupleMethods[] = {{"count", CountOf},
                                           {"index", IndexOf}};
constexpr NamedFunction kListMethods[] = {
    {"append", Refuse},  {"clear", Refuse},  {"copy", CopyList},
    {"count", CountOf},  {"extend", Refuse}, {"index", IndexOf},
    {"insert", Refuse},  {"pop", Refuse},    {"remove", Refuse},
    {"reverse", Refuse}, {"sort", Refuse},
};
constexpr NamedFunction kDictMethods[] = {
    {"clear", Refuse},   {"copy", CopyList},     {"get", Get},
    {"items", Items},    {"keys", Keys},         {"pop", Refuse},
    {"popitem", Refuse}, {"setdefault", Refuse}, {"update", Refuse},
    {"values", Values},
};

}  // namespace

FunctionTable MethodsOf(const Value& object) {
  if (object.is_string()) return TextMethods();
  if (object.is_dict()) return kDictMethods;
  if (!object.is_sequence()) return {};
  switch (object.AsSequence().kind) {
    case Sequence::Kind::kList:
      return kListMethods;
    case Sequence::Kind::kTuple:
    case Sequence::Kind::kGroup:
    case Sequence::Kind::kRange:
      return kTupleMethods;
    case Sequence::Kind::kView:
      break;
  }
  return {};
}

}  // namespace kvasir::jinja

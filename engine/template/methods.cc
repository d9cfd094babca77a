#include "engine/template/methods.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"

namespace kvasir::jinja {
namespace {

struct Entry {
  std::string_view name;
  NativeFunction function;
};

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
  if (bound[0]->is_string()) {
    RETURN_IF_ERROR(runtime.budget.Scan(bound[0]->AsText().size()));
  } else if (!HashKey(*bound[0]).has_value()) {
    return TypeFault("unhashable type", *bound[0]);
  }
  const Value* value = self.AsDict().Find(*bound[0]);
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

constexpr Entry kTupleMethods[] = {{"count", CountOf}, {"index", IndexOf}};
constexpr Entry kListMethods[] = {
    {"append", Refuse},  {"clear", Refuse},  {"copy", CopyList},
    {"count", CountOf},  {"extend", Refuse}, {"index", IndexOf},
    {"insert", Refuse},  {"pop", Refuse},    {"remove", Refuse},
    {"reverse", Refuse}, {"sort", Refuse},
};
constexpr Entry kDictMethods[] = {
    {"clear", Refuse},   {"copy", CopyList},     {"get", Get},
    {"items", Items},    {"keys", Keys},         {"pop", Refuse},
    {"popitem", Refuse}, {"setdefault", Refuse}, {"update", Refuse},
    {"values", Values},
};

template <size_t kSize>
NativeFunction FindIn(const Entry (&entries)[kSize], std::string_view name) {
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace

NativeFunction FindCollectionMethod(const Value& object,
                                    std::string_view name) {
  if (object.is_dict()) return FindIn(kDictMethods, name);
  switch (object.AsSequence().kind) {
    case Sequence::Kind::kList:
      return FindIn(kListMethods, name);
    case Sequence::Kind::kTuple:
    case Sequence::Kind::kGroup:
    case Sequence::Kind::kRange:
      return FindIn(kTupleMethods, name);
    case Sequence::Kind::kView:
      break;
  }
  return nullptr;
}

NativeFunction FindMethod(const Value& object, std::string_view name) {
  if (object.is_string()) {
    const NativeFunction method = FindTextMethod(name);
    return method != nullptr ? method : FindTextTestMethod(name);
  }
  if (object.is_dict() || object.is_sequence()) {
    return FindCollectionMethod(object, name);
  }
  return nullptr;
}

}  // namespace kvasir::jinja

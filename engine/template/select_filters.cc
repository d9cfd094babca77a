// Filters that take another filter or a test by name, and FindFilter() itself.
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"
#include "engine/template/filters.h"
#include "engine/template/operations.h"
#include "engine/template/text_functions.h"

namespace kvasir::jinja {
namespace {

// The arguments from `from` on, for the filter or test that is named there.
absl::StatusOr<Arguments> Rest(Runtime& runtime, const Arguments& arguments,
                               size_t from) {
  RETURN_IF_ERROR(runtime.budget.Produce((arguments.positional.size() - from) *
                                         sizeof(Value)));
  for (const auto& named : arguments.named) {
    RETURN_IF_ERROR(runtime.budget.Produce(sizeof(named) + named.first.size()));
  }
  Arguments rest;
  rest.positional.assign(
      arguments.positional.begin() + static_cast<ptrdiff_t>(from),
      arguments.positional.end());
  rest.named = arguments.named;
  return rest;
}

absl::StatusOr<NativeFunction> Named(const Value& name, const char* kind,
                                     NativeFunction (*find)(std::string_view)) {
  if (!name.is_string()) {
    return TypeFault(absl::StrCat("wanted the name of a ", kind), name);
  }
  const NativeFunction function = find(name.AsView());
  if (function != nullptr) return function;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown ", kind, " \"", Shown(name.AsView()), "\""));
}

absl::StatusOr<Value> MapAttribute(Runtime& runtime, const Value& self,
                                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"*attribute", "*default"}));
  ASSIGN_OR_RETURN(const AttributeGetter getter,
                   AttributeGetter::Create(runtime, bound[0]));
  const bool has_default = bound[1] != nullptr && !bound[1]->is_none();
  const Value* const otherwise = has_default ? bound[1] : nullptr;
  ASSIGN_OR_RETURN(ValueList items, Iterate(runtime, self));
  for (Value& item : items) {
    ASSIGN_OR_RETURN(Value value, getter.Get(runtime, item, otherwise));
    item = std::move(value);
  }
  return MakeGenerator(runtime, std::move(items));
}

absl::StatusOr<Value> Map(Runtime& runtime, const Value& self,
                          const Arguments& arguments) {
  if (!IsTruthy(self)) return MakeGenerator(runtime, {});
  if (arguments.positional.empty()) {
    return MapAttribute(runtime, self, arguments);
  }
  ASSIGN_OR_RETURN(const NativeFunction filter,
                   Named(arguments.positional[0], "filter", FindFilter));
  // It may be this one again.
  const DepthLevel level(&runtime);
  RETURN_IF_ERROR(level.Check());
  ASSIGN_OR_RETURN(const Arguments rest, Rest(runtime, arguments, 1));
  ASSIGN_OR_RETURN(ValueList items, Iterate(runtime, self));
  for (Value& item : items) {
    RETURN_IF_ERROR(runtime.budget.Step());
    ASSIGN_OR_RETURN(item, filter(runtime, item, rest));
  }
  return MakeGenerator(runtime, std::move(items));
}

// Items that a test holds for, or does not.
template <bool kWanted, bool kOfAttribute>
absl::StatusOr<Value> Select(Runtime& runtime, const Value& self,
                             const Arguments& arguments) {
  if (!IsTruthy(self)) return MakeGenerator(runtime, {});
  size_t used = 0;
  const Value* attribute = nullptr;
  if (kOfAttribute) {
    if (arguments.positional.empty()) {
      return absl::InvalidArgumentError("wanted an attribute; found none");
    }
    attribute = &arguments.positional[used++];
  }
  ASSIGN_OR_RETURN(const AttributeGetter getter,
                   AttributeGetter::Create(runtime, attribute));
  NativeFunction test = nullptr;
  if (used < arguments.positional.size()) {
    ASSIGN_OR_RETURN(test,
                     Named(arguments.positional[used++], "test", FindTest));
  }
  const DepthLevel level(&runtime);
  RETURN_IF_ERROR(level.Check());
  ASSIGN_OR_RETURN(const Arguments rest, Rest(runtime, arguments, used));
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, self));
  ValueList kept;
  for (const Value& item : items) {
    RETURN_IF_ERROR(runtime.budget.Step());
    ASSIGN_OR_RETURN(Value value, getter.Get(runtime, item));
    if (test != nullptr) {
      ASSIGN_OR_RETURN(value, test(runtime, value, rest));
    }
    if (IsTruthy(value) == kWanted) kept.push_back(item);
  }
  return MakeGenerator(runtime, std::move(kept));
}

constexpr NamedFunction kFilters[] = {
    {"map", Lazy<Map>},
    {"reject", Lazy<Select<false, false>>},
    {"rejectattr", Lazy<Select<false, true>>},
    {"select", Lazy<Select<true, false>>},
    {"selectattr", Lazy<Select<true, true>>},
};

}  // namespace

absl::StatusOr<AttributeGetter> AttributeGetter::Create(
    Runtime& runtime, const Value* attribute) {
  AttributeGetter getter;
  if (attribute == nullptr || attribute->is_none()) return getter;
  if (attribute->is_integer()) {
    getter.path_.push_back(*attribute);
    return getter;
  }
  if (!attribute->is_string()) {
    return TypeFault("wanted an attribute's name", *attribute);
  }
  RETURN_IF_ERROR(runtime.budget.Produce(attribute->AsText().size()));
  for (const absl::string_view part :
       absl::StrSplit(View(attribute->AsView()), '.')) {
    int64_t index = 0;
    const bool is_index =
        !part.empty() &&
        part.find_first_not_of("0123456789") == absl::string_view::npos &&
        absl::SimpleAtoi(part, &index);
    getter.path_.push_back(
        is_index ? Value::Int(index)
                 : Value::String(std::string_view(part.data(), part.size()),
                                 /*trusted=*/false));
    if (getter.path_.size() > static_cast<size_t>(kMaxNesting)) {
      return absl::InvalidArgumentError(
          absl::StrCat("wanted at most ", kMaxNesting,
                       " attributes joined by dots (kMaxNesting)"));
    }
  }
  return getter;
}

absl::StatusOr<Value> AttributeGetter::Get(Runtime& runtime, const Value& item,
                                           const Value* otherwise) const {
  Value value = item;
  for (const Value& key : path_) {
    RETURN_IF_ERROR(runtime.budget.Step());
    ASSIGN_OR_RETURN(value, GetItem(runtime, value, key));
    if (value.is_undefined() && otherwise != nullptr) value = *otherwise;
  }
  return value;
}

absl::StatusOr<Value> FoldCase(Runtime& runtime, const Value& value) {
  if (!value.is_string()) return value;
  ASSIGN_OR_RETURN(Text text,
                   ChangeCase(runtime.budget, value.AsText(), Case::kLower));
  return Value::String(std::move(text));
}

FunctionTable SelectFilters() { return kFilters; }

NativeFunction FindFilter(std::string_view name) {
  for (const auto& table :
       {TextFilters, ListFilters, SelectFilters, ValueFilters}) {
    if (const NativeFunction filter = FindIn(table(), name)) return filter;
  }
  return nullptr;
}

}  // namespace kvasir::jinja

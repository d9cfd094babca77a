#include "engine/template/operations.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"
#include "engine/template/methods.h"
#include "engine/template/text_functions.h"

namespace kvasir::jinja {
namespace {

using Kind = Value::Kind;

absl::StatusOr<bool> EqualItems(Runtime& runtime, const ValueList& a,
                                const ValueList& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSIGN_OR_RETURN(const bool same, Equals(runtime, a[i], b[i]));
    if (!same) return false;
  }
  return true;
}

absl::StatusOr<bool> EqualDicts(Runtime& runtime, const Dict& a,
                                const Dict& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.items()) {
    ASSIGN_OR_RETURN(const Value* const other, FindKey(runtime, b, key));
    if (other == nullptr) return false;
    ASSIGN_OR_RETURN(const bool same, Equals(runtime, value, *other));
    if (!same) return false;
  }
  return true;
}

absl::Status Unordered(const Value& a, const Value& b) {
  if (a.is_undefined()) return UndefinedFault(a);
  if (b.is_undefined()) return UndefinedFault(b);
  return absl::InvalidArgumentError(
      absl::StrCat("wanted two values that can be ordered; found ",
                   View(a.TypeName()), " and ", View(b.TypeName())));
}

// A place in something of `size` items; nothing if it is outside.
std::optional<size_t> PlaceOf(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

absl::StatusOr<std::optional<Value>> FindItem(Runtime& runtime,
                                              const Value& object,
                                              const Value& key) {
  if (object.is_dict()) {
    const auto value = FindKey(runtime, object.AsDict(), key);
    // What can be no key is not there.
    if (absl::IsInvalidArgument(value.status())) return std::optional<Value>();
    RETURN_IF_ERROR(value.status());
    if (*value == nullptr) return std::optional<Value>();
    return std::optional<Value>(**value);
  }
  if (!key.is_integer()) return std::optional<Value>();
  if (object.is_string()) {
    const Text& text = object.AsText();
    const auto place = PlaceOf(key.AsInt(), text.CharacterCount());
    if (!place.has_value()) return std::optional<Value>();
    ASSIGN_OR_RETURN(Value value, CharacterOf(runtime, text, *place));
    return std::optional<Value>(std::move(value));
  }
  if (object.is_sequence() &&
      object.AsSequence().kind != Sequence::Kind::kView) {
    const ValueList& items = object.AsSequence().items;
    const auto place = PlaceOf(key.AsInt(), items.size());
    if (place.has_value()) return std::optional<Value>(items[*place]);
  }
  return std::optional<Value>();
}

absl::StatusOr<std::optional<Value>> FindAttribute(Runtime& runtime,
                                                   const Value& object,
                                                   std::string_view name) {
  if (const auto any = object.AsObject<Object>(); any != nullptr) {
    return any->Attribute(runtime, name);
  }
  if (object.is_sequence() &&
      object.AsSequence().kind == Sequence::Kind::kGroup) {
    const ValueList& items = object.AsSequence().items;
    if (name == "grouper") return std::optional<Value>(items[0]);
    if (name == "list") return std::optional<Value>(items[1]);
  }
  const NativeFunction method = FindIn(MethodsOf(object), name);
  if (method == nullptr) return std::optional<Value>();
  ASSIGN_OR_RETURN(Value bound, MakeCallable(runtime, method, object));
  return std::optional<Value>(std::move(bound));
}

absl::StatusOr<Value> NoSuch(Runtime& runtime, const Value& object,
                             std::string_view name) {
  return MakeUndefined(
      runtime, absl::StrCat("'", View(object.TypeName()),
                            " object' has no attribute '", Shown(name), "'"));
}

// What Python makes of the bounds of a slice of `size` items.
struct SliceBounds {
  int64_t start;
  int64_t stop;
  int64_t step;
};

absl::StatusOr<int64_t> Bound(const Value& value, int64_t otherwise,
                              int64_t size, int64_t least, int64_t most) {
  if (value.is_none()) return otherwise;
  if (!value.is_integer()) {
    return TypeFault("wanted integers or None in a slice", value);
  }
  int64_t bound = value.AsInt();
  if (bound < 0) bound = bound < -size ? least : bound + size;
  return std::clamp(bound, least, most);
}

absl::StatusOr<SliceBounds> ResolveSlice(int64_t size, const Value& start,
                                         const Value& stop, const Value& step) {
  SliceBounds out = {0, 0, 1};
  if (!step.is_none()) {
    if (!step.is_integer()) {
      return TypeFault("wanted integers or None in a slice", step);
    }
    // Anything beyond the size does the same, and cannot overflow.
    out.step = std::clamp(step.AsInt(), -size - 1, size + 1);
  }
  if (out.step == 0) {
    return absl::InvalidArgumentError(
        "wanted a slice step other than zero; found 0");
  }
  const bool forward = out.step > 0;
  const int64_t least = forward ? 0 : -1;
  const int64_t most = forward ? size : size - 1;
  ASSIGN_OR_RETURN(out.start,
                   Bound(start, forward ? least : most, size, least, most));
  ASSIGN_OR_RETURN(out.stop,
                   Bound(stop, forward ? most : least, size, least, most));
  return out;
}

// The range that a slice of a range is. INVALID_ARGUMENT if its bounds take
// more than 64 bits.
absl::StatusOr<RangeBounds> SliceRange(const RangeBounds& range,
                                       const SliceBounds& slice,
                                       const Value& step) {
  RangeBounds out;
  const int64_t by = step.is_none() ? 1 : step.AsInt();
  int64_t from = 0;
  int64_t to = 0;
  if (__builtin_mul_overflow(range.step, by, &out.step) ||
      __builtin_mul_overflow(range.step, slice.start, &from) ||
      __builtin_add_overflow(range.start, from, &out.start) ||
      __builtin_mul_overflow(range.step, slice.stop, &to) ||
      __builtin_add_overflow(range.start, to, &out.stop)) {
    return absl::InvalidArgumentError(
        "wanted a range of integers of 64 bits; found larger ones");
  }
  return out;
}

Text SliceText(const Text& text, const SliceBounds& bounds) {
  if (bounds.step == 1) {
    const size_t from = text.OffsetOf(static_cast<size_t>(bounds.start));
    const size_t to = text.OffsetOf(static_cast<size_t>(bounds.stop));
    return from < to ? text.Slice(from, to) : Text();
  }
  const std::vector<size_t> starts = CharacterOffsets(text);
  Text out;
  out.set_markup(text.is_markup());
  for (int64_t i = bounds.start;
       bounds.step > 0 ? i < bounds.stop : i > bounds.stop; i += bounds.step) {
    const size_t from = starts[static_cast<size_t>(i)];
    out.Append(text, from, from + CharacterAt(text.bytes(), from).bytes);
  }
  return out;
}

}  // namespace

bool IsTruthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.AsInt() != 0;
    case Kind::kFloat:
      return value.AsFloat() != 0;
    case Kind::kString:
      return !value.AsText().empty();
    case Kind::kSequence:
      return !value.AsSequence().items.empty();
    case Kind::kDict:
      return value.AsDict().size() > 0;
    case Kind::kObject:
      return true;
  }
  return false;
}

absl::StatusOr<bool> Equals(Runtime& runtime, const Value& a, const Value& b) {
  RETURN_IF_ERROR(runtime.budget.Step());
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.AsInt() == b.AsInt();
    return a.AsFloat() == b.AsFloat();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
      return true;
    case Kind::kString:
      RETURN_IF_ERROR(runtime.budget.Scan(a.AsText().size()));
      return a.AsView() == b.AsView();
    case Kind::kSequence:
      if (a.AsSequence().kind != b.AsSequence().kind) return false;
      return EqualItems(runtime, a.AsSequence().items, b.AsSequence().items);
    case Kind::kDict:
      return EqualDicts(runtime, a.AsDict(), b.AsDict());
    default:
      return a.IsSame(b);
  }
}

absl::StatusOr<bool> Less(Runtime& runtime, const Value& a, const Value& b) {
  RETURN_IF_ERROR(runtime.budget.Step());
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.AsInt() < b.AsInt();
    return a.AsFloat() < b.AsFloat();
  }
  if (a.is_string() && b.is_string()) {
    RETURN_IF_ERROR(runtime.budget.Scan(a.AsText().size()));
    return a.AsView() < b.AsView();  // UTF-8 sorts as its code points do
  }
  const bool ordered = a.is_sequence() && b.is_sequence() &&
                       a.AsSequence().kind == b.AsSequence().kind &&
                       a.AsSequence().kind <= Sequence::Kind::kGroup;
  if (!ordered) return Unordered(a, b);
  const ValueList& left = a.AsSequence().items;
  const ValueList& right = b.AsSequence().items;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    ASSIGN_OR_RETURN(const bool same, Equals(runtime, left[i], right[i]));
    if (!same) return Less(runtime, left[i], right[i]);
  }
  return left.size() < right.size();
}

absl::StatusOr<bool> Contains(Runtime& runtime, const Value& container,
                              const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      return TypeFault("'in <string>' requires a string", item);
    }
    RETURN_IF_ERROR(
        runtime.budget.Scan(container.AsText().size() + item.AsText().size()));
    return Find(container.AsView(), item.AsView()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    ASSIGN_OR_RETURN(const Value* const value,
                     FindKey(runtime, container.AsDict(), item));
    return value != nullptr;
  }
  if (container.is_sequence()) {
    for (const Value& one : container.AsSequence().items) {
      ASSIGN_OR_RETURN(const bool same, Equals(runtime, one, item));
      if (same) return true;
    }
    return false;
  }
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, container));
  for (const Value& one : items) {
    ASSIGN_OR_RETURN(const bool same, Equals(runtime, one, item));
    if (same) return true;
  }
  return false;
}

absl::StatusOr<Value> CharacterOf(Runtime& runtime, const Text& text,
                                  size_t index) {
  if (!text.is_ascii()) RETURN_IF_ERROR(runtime.budget.Scan(text.size()));
  const size_t from = text.OffsetOf(index);
  return MakeSlice(runtime, text, from,
                   from + CharacterAt(text.bytes(), from).bytes);
}

absl::StatusOr<ValueList> Iterate(Runtime& runtime, const Value& value) {
  ValueList out;
  switch (value.kind()) {
    case Kind::kUndefined:
      return out;
    case Kind::kString: {
      const Text& text = value.AsText();
      RETURN_IF_ERROR(runtime.budget.Produce(text.CharacterCount() *
                                             (sizeof(Value) + sizeof(Text))));
      for (TextCursor at(text); !at.done(); at.Next()) {
        out.push_back(
            Value::String(Text(std::string(at.bytes()), at.origin())));
      }
      return out;
    }
    case Kind::kSequence: {
      const ValueList& items = value.AsSequence().items;
      RETURN_IF_ERROR(runtime.budget.Produce(items.size() * sizeof(Value)));
      return items;
    }
    case Kind::kDict:
      RETURN_IF_ERROR(
          runtime.budget.Produce(value.AsDict().size() * sizeof(Value)));
      for (const auto& [key, item] : value.AsDict().items()) out.push_back(key);
      return out;
    default:
      break;
  }
  if (const auto generator = value.AsObject<Generator>()) {
    return generator->TakeRest();
  }
  return TypeFault("wanted something to iterate over", value);
}

std::optional<int64_t> LengthOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(value.AsText().CharacterCount());
    case Kind::kSequence:
      return static_cast<int64_t>(value.AsSequence().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.AsDict().size());
    default:
      return std::nullopt;
  }
}

absl::StatusOr<Value> GetAttribute(Runtime& runtime, const Value& object,
                                   std::string_view name) {
  if (object.is_undefined()) return UndefinedFault(object);
  RETURN_IF_ERROR(runtime.budget.Scan(name.size()));
  ASSIGN_OR_RETURN(std::optional<Value> attribute,
                   FindAttribute(runtime, object, name));
  if (attribute.has_value()) return *std::move(attribute);
  if (object.is_dict()) {
    const Value* value = object.AsDict().Find(name);
    if (value != nullptr) return *value;
  }
  return NoSuch(runtime, object, name);
}

absl::StatusOr<Value> GetItem(Runtime& runtime, const Value& object,
                              const Value& key) {
  if (object.is_undefined()) return UndefinedFault(object);
  ASSIGN_OR_RETURN(std::optional<Value> item, FindItem(runtime, object, key));
  if (item.has_value()) return *std::move(item);
  if (key.is_string()) {
    RETURN_IF_ERROR(runtime.budget.Scan(key.AsText().size()));
    ASSIGN_OR_RETURN(std::optional<Value> attribute,
                     FindAttribute(runtime, object, key.AsView()));
    if (attribute.has_value()) return *std::move(attribute);
    return NoSuch(runtime, object, key.AsView());
  }
  return MakeUndefined(
      runtime,
      absl::StrCat(View(object.TypeName()), " object has no element ",
                   key.is_integer()
                       ? absl::StrCat(key.AsInt())
                       : absl::StrCat("of type ", View(key.TypeName()))));
}

absl::StatusOr<Value> GetSlice(Runtime& runtime, const Value& object,
                               const Value& start, const Value& stop,
                               const Value& step) {
  if (object.is_undefined()) return UndefinedFault(object);
  const bool is_list =
      object.is_sequence() && object.AsSequence().kind != Sequence::Kind::kView;
  if (!object.is_string() && !is_list) {
    return TypeFault("wanted something with slices", object);
  }
  const auto bounds = ResolveSlice(*LengthOf(object), start, stop, step);
  if (!bounds.ok()) return bounds.status();
  if (object.is_string()) {
    RETURN_IF_ERROR(runtime.budget.Produce(object.AsText().size()));
    if (bounds->step != 1) {
      RETURN_IF_ERROR(runtime.budget.Produce(object.AsText().CharacterCount() *
                                             sizeof(size_t)));
    }
    return MakeText(runtime, SliceText(object.AsText(), *bounds));
  }
  const ValueList& items = object.AsSequence().items;
  RETURN_IF_ERROR(runtime.budget.Scan(
      items.size() / static_cast<size_t>(std::abs(bounds->step)) *
      sizeof(Value)));
  ValueList out;
  for (int64_t i = bounds->start;
       bounds->step > 0 ? i < bounds->stop : i > bounds->stop;
       i += bounds->step) {
    out.push_back(items[static_cast<size_t>(i)]);
  }
  if (object.AsSequence().kind == Sequence::Kind::kRange) {
    ASSIGN_OR_RETURN(const RangeBounds range,
                     SliceRange(object.AsSequence().bounds, *bounds, step));
    return MakeRange(runtime, range, std::move(out));
  }
  return MakeSequence(runtime, object.AsSequence().kind, std::move(out));
}

}  // namespace kvasir::jinja

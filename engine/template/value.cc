#include "engine/template/value.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "engine/template/characters.h"

namespace kvasir::jinja {
namespace {

// Up to here looking through all keys is as fast as a table of them.
constexpr size_t kFewKeys = 8;

// Appends what no other key's text starts with; false for what can be no key,
// and for an item that makes a tuple's too long.
bool AppendKey(const Value& value, HashedKey& key) {
  std::string& out = key.name;
  ++key.looked_at;
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      out += 'u';
      return true;
    case Value::Kind::kNone:
      out += 'n';
      return true;
    case Value::Kind::kBool:
    case Value::Kind::kInt:
      absl::StrAppend(&out, "i", value.AsInt(), ";");
      return true;
    case Value::Kind::kFloat: {
      const double number = value.AsFloat();
      constexpr double kExact = 9007199254740992.0;  // 2^53
      if (std::trunc(number) == number && std::abs(number) <= kExact) {
        absl::StrAppend(&out, "i", static_cast<int64_t>(number), ";");
      } else {
        out += 'f';
        out.append(reinterpret_cast<const char*>(&number), sizeof(number));
      }
      return true;
    }
    case Value::Kind::kString:
      if (out.size() + value.AsText().size() > kMaxTupleKeyBytes) return false;
      absl::StrAppend(&out, "s", value.AsText().size(), ":",
                      value.AsText().bytes());
      return true;
    case Value::Kind::kSequence:
      if (value.AsSequence().kind == Sequence::Kind::kList) return false;
      absl::StrAppend(&out, "t", value.AsSequence().items.size(), ":");
      for (const Value& item : value.AsSequence().items) {
        if (!AppendKey(item, key)) return false;
        if (out.size() > kMaxTupleKeyBytes) return false;
      }
      return true;
    case Value::Kind::kDict:
      return false;
    case Value::Kind::kObject:
      absl::StrAppend(
          &out, "o",
          reinterpret_cast<uintptr_t>(value.AsObject<Object>().get()), ";");
      return true;
  }
  return false;
}

}  // namespace

int DeepestOf(const ValueList& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth;
}

Value Value::Undefined(std::string why) {
  return Value(
      Data(Missing{std::make_shared<const std::string>(std::move(why))}));
}

Value Value::String(Text text) {
  return Value(Data(std::make_shared<Text>(std::move(text))));
}

Value Value::String(std::string_view bytes, bool trusted) {
  return String(bytes, trusted ? Origin::kTemplate : Origin::kData);
}

Value Value::String(std::string_view bytes, Origin origin) {
  return String(
      Text(IsWellFormed(bytes) ? std::string(bytes) : MendUtf8(bytes), origin));
}

Value Value::List(ValueList items, SequenceKind kind) {
  Sequence list;
  list.kind = kind;
  list.depth = 1 + DeepestOf(items);
  list.items = std::move(items);
  return Value(Data(std::make_shared<const Sequence>(std::move(list))));
}

Value Value::Range(const RangeBounds& bounds, ValueList items) {
  Sequence range;
  range.kind = SequenceKind::kRange;
  range.bounds = bounds;
  range.items = std::move(items);
  return Value(Data(std::make_shared<const Sequence>(std::move(range))));
}

Value Value::FromDict(Dict dict) {
  return Value(Data(std::make_shared<const Dict>(std::move(dict))));
}

Value Value::FromObject(std::shared_ptr<Object> object) {
  return Value(Data(std::move(object)));
}

bool Value::is_integer() const {
  return kind() == Kind::kInt || kind() == Kind::kBool;
}

int64_t Value::AsInt() const {
  if (kind() == Kind::kBool) return AsBool() ? 1 : 0;
  return std::get<int64_t>(data_);
}

double Value::AsFloat() const {
  if (kind() == Kind::kFloat) return std::get<double>(data_);
  return static_cast<double>(AsInt());
}

Text* Value::UniqueText() {
  auto* text = std::get_if<TextRef>(&data_);
  return text != nullptr && text->use_count() == 1 ? text->get() : nullptr;
}

int Value::depth() const {
  if (is_sequence()) return AsSequence().depth;
  if (is_dict()) return AsDict().depth();
  const auto* object = std::get_if<ObjectRef>(&data_);
  return object == nullptr ? 0 : (*object)->depth();
}

std::string Value::WhyUndefined() const {
  const auto* missing = std::get_if<Missing>(&data_);
  if (missing == nullptr || missing->why == nullptr) return "undefined value";
  return *missing->why;
}

std::string_view Value::TypeName() const {
  switch (kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return std::get<ObjectRef>(data_)->type_name();
    case Kind::kSequence:
      break;
  }
  switch (AsSequence().kind) {
    case Sequence::Kind::kList:
      return "list";
    case Sequence::Kind::kTuple:
    case Sequence::Kind::kGroup:
      return "tuple";
    case Sequence::Kind::kRange:
      return "range";
    case Sequence::Kind::kView:
      return "dict_view";
  }
  return "";
}

bool Value::IsSame(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::kUndefined:
      return std::get<Missing>(data_).why == std::get<Missing>(other.data_).why;
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
      return AsInt() == other.AsInt();
    case Kind::kFloat:
      return AsFloat() == other.AsFloat();
    case Kind::kString:
      return AsView() == other.AsView();
    case Kind::kSequence:
      return &AsSequence() == &other.AsSequence();
    case Kind::kDict:
      return &AsDict() == &other.AsDict();
    case Kind::kObject:
      return std::get<ObjectRef>(data_) == std::get<ObjectRef>(other.data_);
  }
  return false;
}

const Value* Dict::Find(std::string_view key) const {
  if (!places_.empty()) {
    const auto it = places_.find(
        absl::StrCat("s", absl::string_view(key.data(), key.size())));
    return it == places_.end() ? nullptr : &items_[it->second].second;
  }
  for (const auto& [name, value] : items_) {
    if (name.is_string() && name.AsView() == key) return &value;
  }
  return nullptr;
}

const Value* Dict::FindHashed(const std::string& key) const {
  if (!places_.empty()) {
    const auto it = places_.find(key);
    return it == places_.end() ? nullptr : &items_[it->second].second;
  }
  for (const auto& [name, value] : items_) {
    const bool same =
        name.is_string()
            ? key[0] == 's' && name.AsView() == std::string_view(key).substr(1)
            : HashKey(name) == key;
    if (same) return &value;
  }
  return nullptr;
}

void Dict::Set(Value key, Value value) {
  depth_ = std::max({depth_, 1 + key.depth(), 1 + value.depth()});
  const std::optional<std::string> hashed =
      key.is_string() ? std::nullopt : HashKey(key);
  KV_CHECK(key.is_string() || hashed.has_value()) << key.TypeName();
  const Value* old =
      hashed.has_value() ? FindHashed(*hashed) : Find(key.AsView());
  if (old != nullptr) {
    *const_cast<Value*>(old) = std::move(value);
    return;
  }
  // Tuples take time to look through, whatever is looked for.
  const bool is_slow = key.is_sequence();
  items_.emplace_back(std::move(key), std::move(value));
  if (places_.empty() && items_.size() <= kFewKeys && !is_slow) return;
  for (size_t i = places_.size(); i < items_.size(); ++i) {
    std::optional<std::string> name = HashKey(items_[i].first);
    KV_CHECK(name.has_value()) << items_[i].first.TypeName();
    places_.emplace(*std::move(name), i);
  }
}

void Dict::Set(std::string_view key, Value value) {
  Set(Value::String(key, /*trusted=*/false), std::move(value));
}

std::optional<std::string> HashKey(const Value& value) {
  HashedKey key = WriteHashKey(value);
  if (!key.is_key) return std::nullopt;
  return std::move(key.name);
}

HashedKey WriteHashKey(const Value& value) {
  HashedKey key = {/*is_key=*/true, {}, /*looked_at=*/0};
  if (value.is_string()) {
    key.name = "s" + value.AsText().bytes();
  } else {
    key.is_key = AppendKey(value, key);
  }
  return key;
}

absl::StatusOr<std::optional<Value>> Generator::Next() {
  if (!fault_.ok()) return fault_;
  if (next_ == items_.size()) return std::optional<Value>();
  return std::optional<Value>(std::move(items_[next_++]));
}

absl::StatusOr<ValueList> Generator::TakeRest() {
  if (!fault_.ok()) return fault_;
  ValueList rest(
      std::make_move_iterator(items_.begin() + static_cast<ptrdiff_t>(next_)),
      std::make_move_iterator(items_.end()));
  items_.clear();
  next_ = 0;
  return rest;
}

Object::Found Namespace::Attribute(Runtime&, std::string_view name) {
  const Value* value = attributes_.Find(name);
  return value == nullptr ? std::nullopt : std::optional<Value>(*value);
}

void Namespace::Set(std::string_view name, Value value) {
  attributes_.Set(name, std::move(value));
}

}  // namespace kvasir::jinja

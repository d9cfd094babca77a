#ifndef KVASIR_ENGINE_TEMPLATE_VALUE_H_
#define KVASIR_ENGINE_TEMPLATE_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "engine/template/text.h"

namespace kvasir::jinja {

class Dict;
class Object;
struct Runtime;
struct RangeBounds;
struct Sequence;

enum class SequenceKind : uint8_t {
  kList,
  kTuple,
  kGroup,  // a tuple whose two items have names, of the filter groupby
  kRange,
  kView,  // of a dict's keys, values or items: has no items by number
};

// Anything that a template can hold: what Python objects are to jinja2. Cheap
// to copy; what it refers to is shared and, but for objects, immutable, since
// the sandbox of chat templates lets nobody change a list or a dict. One thread
// at a time, like all that is made while rendering.
class Value {
 public:
  enum class Kind : uint8_t {  // in the order of the variant below
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kString,
    kSequence,
    kDict,
    kObject,
  };

  Value() = default;  // undefined
  // Undefined for a reason that an error will give: "'x' is undefined".
  static Value Undefined(std::string why);
  static Value None() { return Value(Data(std::monostate())); }
  static Value Bool(bool value) { return Value(Data(value)); }
  static Value Int(int64_t value) { return Value(Data(value)); }
  static Value Float(double value) { return Value(Data(value)); }
  static Value String(Text text);
  // `bytes` may be any; see MendUtf8().
  static Value String(std::string_view bytes, bool trusted);
  static Value String(std::string_view bytes, Origin origin);
  // Of the host's making, nested less than kMaxJsonDepth; what a template makes
  // comes from MakeSequence() and MakeDict(), which check.
  static Value List(std::vector<Value> items,
                    SequenceKind kind = SequenceKind::kList);
  static Value Range(const RangeBounds& bounds, std::vector<Value> items);
  static Value FromDict(Dict dict);
  static Value FromObject(std::shared_ptr<Object> object);

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_sequence() const { return kind() == Kind::kSequence; }
  bool is_dict() const { return kind() == Kind::kDict; }
  // A bool is an integer to Python.
  bool is_integer() const;
  bool is_number() const { return is_integer() || kind() == Kind::kFloat; }

  // Each only of its kind; AsInt() and AsFloat() of any number, and AsInt() of
  // no float.
  bool AsBool() const { return std::get<bool>(data_); }
  int64_t AsInt() const;
  double AsFloat() const;
  const Text& AsText() const { return *std::get<TextRef>(data_); }
  std::string_view AsView() const { return AsText().view(); }
  const Sequence& AsSequence() const { return *std::get<SequenceRef>(data_); }
  const Dict& AsDict() const { return *std::get<DictRef>(data_); }
  // Null if this is no object, or one of another class.
  template <typename Class>
  std::shared_ptr<Class> AsObject() const {
    const auto* object = std::get_if<ObjectRef>(&data_);
    return object == nullptr ? nullptr
                             : std::dynamic_pointer_cast<Class>(*object);
  }
  // The text, if nobody else refers to it: it may then be appended to.
  Text* UniqueText();

  // How what holds values is nested in it: lists, dicts, objects. 0 if it holds
  // none.
  int depth() const;
  // Why it is undefined.
  std::string WhyUndefined() const;
  // As Python names it: "str", "NoneType".
  std::string_view TypeName() const;
  // Whether both are the same object.
  bool IsSame(const Value& other) const;

 private:
  struct Missing {
    std::shared_ptr<const std::string> why;
  };
  using TextRef = std::shared_ptr<Text>;
  using SequenceRef = std::shared_ptr<const Sequence>;
  using DictRef = std::shared_ptr<const Dict>;
  using ObjectRef = std::shared_ptr<Object>;
  using Data = std::variant<Missing, std::monostate, bool, int64_t, double,
                            TextRef, SequenceRef, DictRef, ObjectRef>;
  explicit Value(Data data) : data_(std::move(data)) {}

  Data data_;
};

using ValueList = std::vector<Value>;

// What a range was made with, which its items do not always say.
struct RangeBounds {
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;
};

struct Sequence {
  using Kind = SequenceKind;
  Kind kind = Kind::kList;
  ValueList items;
  RangeBounds bounds;  // of a range
  int depth = 1;
};

// Keys in the order in which they came, as Python's.
class Dict {
 public:
  using Items = std::vector<std::pair<Value, Value>>;

  const Items& items() const { return items_; }
  size_t size() const { return items_.size(); }
  int depth() const { return depth_; }

  // Null if there is no such key. A key is a text, or a HashKey().
  const Value* Find(std::string_view key) const;
  const Value* FindHashed(const std::string& key) const;

  // A key that is there keeps its place. `key` must have a HashKey().
  void Set(Value key, Value value);
  void Set(std::string_view key, Value value);  // an untrusted one

 private:
  Items items_;
  int depth_ = 1;
  absl::flat_hash_map<std::string, size_t> places_;  // by HashKey()
};

// Of a tuple as a key. Tuples that share items can be far longer than what they
// are made of.
inline constexpr size_t kMaxTupleKeyBytes = size_t{1} << 16;

// Equal for values that are equal as keys of a dict (1, 1.0 and True are).
// Nothing for lists, dicts and what holds them, which can be no keys, nor for
// tuples of more than kMaxTupleKeyBytes.
std::optional<std::string> HashKey(const Value& value);

// The same with what it took, also where there is no key.
struct HashedKey {
  bool is_key;
  std::string name;  // as far as it was written
  size_t looked_at;  // values, counted once for each time they come up
};
HashedKey WriteHashKey(const Value& value);

// How deep the deepest of them is; 0 if there are none.
int DeepestOf(const ValueList& items);

// What is more than a value: namespaces, macros, loops, functions.
class Object {
 public:
  // `depth` counts this and what is nested in the values that it holds from
  // the beginning. Whoever makes an object that holds values checks it, see
  // MakeObject(), since they are freed one inside of the other. Values that it
  // takes up later do not count: see Runtime::changing.
  explicit Object(int depth = 0) : depth_(depth) {}
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  // Nothing if it has no such attribute.
  using Found = absl::StatusOr<std::optional<Value>>;
  virtual Found Attribute(Runtime& runtime, std::string_view name) {
    return std::optional<Value>();
  }
  virtual bool is_callable() const { return false; }
  // Lets go of the values that it took up later.
  virtual void Clear() {}
  int depth() const { return depth_; }

 private:
  int depth_;
};

// What Python calls a generator: its items can be had once. They are made at
// once, but an error in making them shows only where they are asked for.
class Generator : public Object {
 public:
  explicit Generator(ValueList items)
      : Object(1 + DeepestOf(items)), items_(std::move(items)) {}
  explicit Generator(absl::Status fault) : fault_(std::move(fault)) {}
  std::string_view type_name() const override { return "generator"; }
  // Nothing if there are no more.
  absl::StatusOr<std::optional<Value>> Next();
  absl::StatusOr<ValueList> TakeRest();

 private:
  absl::Status fault_;
  ValueList items_;
  size_t next_ = 0;
};

// namespace(): the one thing whose attributes a template can set.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  Found Attribute(Runtime& runtime, std::string_view name) override;
  void Set(std::string_view name, Value value);
  void Clear() override { attributes_ = Dict(); }

 private:
  Dict attributes_;
};

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_VALUE_H_

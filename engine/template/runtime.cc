#include "engine/template/runtime.h"

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"

namespace kvasir::jinja {
namespace {

// What looking at an item of a tuple for its key costs.
constexpr size_t kBytesPerKeyItem = 8;

absl::Status CheckSize(size_t items, int depth) {
  if (items > kMaxItems) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "wanted at most ", kMaxItems, " items (kMaxItems); found ", items));
  }
  if (depth > kMaxValueDepth) {
    return absl::ResourceExhaustedError(
        absl::StrCat("wanted values nested at most ", kMaxValueDepth,
                     " deep (kMaxValueDepth); found more"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status DepthLevel::Check() const {
  if (runtime_->depth > kMaxEvaluationDepth) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "wanted calls and blocks nested at most ", kMaxEvaluationDepth,
        " deep (kMaxEvaluationDepth); found more"));
  }
  return runtime_->budget.Step();
}

NativeFunction FindIn(FunctionTable table, std::string_view name) {
  for (const NamedFunction& one : table) {
    if (one.name == name) return one.function;
  }
  return nullptr;
}

absl::StatusOr<Bound> Bind(const Arguments& arguments,
                           std::initializer_list<const char*> parameters) {
  Bound bound(parameters.size());
  size_t next = 0;
  for (const Value& argument : arguments.positional) {
    if (next == parameters.size() || parameters.begin()[next][0] == '*') {
      return absl::InvalidArgumentError(
          absl::StrCat("wanted at most ", next, " positional arguments; found ",
                       arguments.positional.size()));
    }
    bound[next++] = &argument;
  }
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    while (i < parameters.size() &&
           name != parameters.begin()[i] +
                       (parameters.begin()[i][0] == '*' ? 1 : 0)) {
      ++i;
    }
    if (i == parameters.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown keyword argument \"", name, "\""));
    }
    if (bound[i] != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("two values for argument \"", name, "\""));
    }
    bound[i] = &value;
  }
  return bound;
}

absl::StatusOr<int64_t> IntOr(const Value* argument, int64_t otherwise) {
  if (argument == nullptr) return otherwise;
  if (argument->is_undefined()) return UndefinedFault(*argument);
  if (!argument->is_integer()) return TypeFault("wanted an integer", *argument);
  return argument->AsInt();
}

absl::StatusOr<std::string_view> BytesOr(const Value* argument,
                                         std::string_view otherwise) {
  if (argument == nullptr) return otherwise;
  if (!argument->is_string()) return TypeFault("wanted a string", *argument);
  return argument->AsView();
}

bool TruthOr(const Value* argument, bool otherwise) {
  return argument == nullptr ? otherwise : IsTruthy(*argument);
}

absl::StatusOr<Text> TextOr(Runtime& runtime, const Value* argument,
                            std::string_view otherwise) {
  if (argument == nullptr) return Text(std::string(otherwise), true);
  return Str(runtime, *argument);
}

absl::Status Need(const Value* argument, absl::string_view name) {
  if (argument != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("wanted an argument \"", name, "\"; found none"));
}

absl::StatusOr<Value> MakeSequence(Runtime& runtime, Sequence::Kind kind,
                                   ValueList items) {
  RETURN_IF_ERROR(
      runtime.budget.Produce(sizeof(Sequence) + items.size() * sizeof(Value)));
  Value value = Value::List(std::move(items), kind);
  RETURN_IF_ERROR(CheckSize(value.AsSequence().items.size(), value.depth()));
  return value;
}

absl::StatusOr<Value> MakeRange(Runtime& runtime, const RangeBounds& bounds,
                                ValueList items) {
  RETURN_IF_ERROR(
      runtime.budget.Produce(sizeof(Sequence) + items.size() * sizeof(Value)));
  RETURN_IF_ERROR(CheckSize(items.size(), /*depth=*/1));
  return Value::Range(bounds, std::move(items));
}

absl::StatusOr<Value> MakeList(Runtime& runtime, ValueList items) {
  return MakeSequence(runtime, Sequence::Kind::kList, std::move(items));
}

absl::StatusOr<Value> MakeTuple(Runtime& runtime, ValueList items) {
  return MakeSequence(runtime, Sequence::Kind::kTuple, std::move(items));
}

absl::StatusOr<Value> MakeDict(Runtime& runtime, Dict dict) {
  // The keys are there twice, and the table of them is half empty.
  constexpr size_t kItemBytes = 8 * sizeof(Value);
  size_t bytes = sizeof(Dict) + dict.size() * kItemBytes;
  for (const auto& [key, value] : dict.items()) {
    if (key.is_string()) bytes += key.AsText().size();
  }
  RETURN_IF_ERROR(runtime.budget.Produce(bytes));
  RETURN_IF_ERROR(CheckSize(dict.size(), dict.depth()));
  return Value::FromDict(std::move(dict));
}

absl::StatusOr<Value> MakeText(Runtime& runtime, Text text) {
  RETURN_IF_ERROR(runtime.budget.Produce(text.MemoryBytes()));
  return Value::String(std::move(text));
}

absl::StatusOr<Value> MakeSlice(Runtime& runtime, const Text& text, size_t from,
                                size_t to) {
  RETURN_IF_ERROR(runtime.budget.Scan(to - from));
  return MakeText(runtime, text.Slice(from, to));
}

absl::StatusOr<Value> MakeGenerator(Runtime& runtime, ValueList items) {
  RETURN_IF_ERROR(CheckSize(items.size(), /*depth=*/0));
  const size_t bytes = sizeof(Generator) + items.size() * sizeof(Value);
  return MakeObject(runtime, bytes,
                    std::make_shared<Generator>(std::move(items)));
}

absl::StatusOr<Value> MakeFaultyGenerator(Runtime& runtime,
                                          absl::Status fault) {
  const size_t bytes = sizeof(Generator) + fault.message().size();
  return MakeObject(runtime, bytes,
                    std::make_shared<Generator>(std::move(fault)));
}

absl::StatusOr<Value> MakeCallable(Runtime& runtime, NativeFunction function,
                                   Value self) {
  return MakeObject(
      runtime, sizeof(NativeCallable),
      std::make_shared<NativeCallable>(function, std::move(self)));
}

absl::StatusOr<Value> MakeObject(Runtime& runtime, size_t bytes,
                                 std::shared_ptr<Object> object) {
  RETURN_IF_ERROR(runtime.budget.Produce(bytes));
  RETURN_IF_ERROR(CheckSize(/*items=*/0, object->depth()));
  return Value::FromObject(std::move(object));
}

absl::StatusOr<std::string> KeyOf(Runtime& runtime, const Value& key) {
  if (key.is_string()) {
    RETURN_IF_ERROR(runtime.budget.Produce(key.AsText().size()));
  }
  HashedKey hashed = WriteHashKey(key);
  if (key.is_sequence()) {
    // Only now is it known how much there was to look at, which is bounded.
    RETURN_IF_ERROR(runtime.budget.Produce(hashed.name.size()));
    RETURN_IF_ERROR(runtime.budget.Scan(hashed.looked_at * kBytesPerKeyItem));
  }
  if (!hashed.is_key) return TypeFault("unhashable type", key);
  return std::move(hashed.name);
}

absl::StatusOr<const Value*> FindKey(Runtime& runtime, const Dict& dict,
                                     const Value& key) {
  if (key.is_string()) {
    RETURN_IF_ERROR(runtime.budget.Scan(key.AsText().size()));
    return dict.Find(key.AsView());
  }
  ASSIGN_OR_RETURN(const std::string name, KeyOf(runtime, key));
  return dict.FindHashed(name);
}

absl::Status SetItem(Runtime& runtime, Dict& dict, Value key, Value value) {
  RETURN_IF_ERROR(KeyOf(runtime, key).status());
  RETURN_IF_ERROR(runtime.budget.Step());
  dict.Set(std::move(key), std::move(value));
  return absl::OkStatus();
}

absl::StatusOr<Value> MakeUndefined(Runtime& runtime, std::string why) {
  RETURN_IF_ERROR(runtime.budget.Produce(sizeof(std::string) + why.size()));
  return Value::Undefined(std::move(why));
}

absl::Status TypeFault(absl::string_view what, const Value& value) {
  if (value.is_undefined()) return UndefinedFault(value);
  return absl::InvalidArgumentError(
      absl::StrCat(what, "; found ", View(value.TypeName())));
}

std::string Shown(std::string_view text) {
  constexpr size_t kMaxShownBytes = 80;
  if (text.size() <= kMaxShownBytes) return std::string(text);
  return MendUtf8(text.substr(0, kMaxShownBytes)) + "...";
}

absl::Status UndefinedFault(const Value& value) {
  return absl::InvalidArgumentError(value.WhyUndefined());
}

}  // namespace kvasir::jinja

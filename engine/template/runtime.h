#ifndef KVASIR_ENGINE_TEMPLATE_RUNTIME_H_
#define KVASIR_ENGINE_TEMPLATE_RUNTIME_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "engine/template/budget.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

// What one rendering shares. One thread.
struct Runtime {
  Budget budget;
  absl::Time now;  // for strftime_now(), which takes it as UTC
  // How deep the walk of the template stands, with filters that call filters;
  // see DepthLevel.
  int depth = 0;
  // Objects that take up values later. They may come to refer to themselves, or
  // make chains of any length; so they are kept to the end, when whoever made
  // this clears each.
  std::vector<std::shared_ptr<Object>> changing;
};

// Counts a level of depth for as long as it lives. Whatever may call itself by
// way of a template has one: the evaluator, and filters that call others.
class DepthLevel {
 public:
  explicit DepthLevel(Runtime* runtime) : runtime_(runtime) {
    ++runtime_->depth;
  }
  DepthLevel(const DepthLevel&) = delete;
  DepthLevel& operator=(const DepthLevel&) = delete;
  ~DepthLevel() { --runtime_->depth; }
  // RESOURCE_EXHAUSTED beyond kMaxEvaluationDepth. Counts a step.
  absl::Status Check() const;

 private:
  Runtime* runtime_;
};

// What stands between the parentheses of a call.
struct Arguments {
  ValueList positional;
  std::vector<std::pair<std::string, Value>> named;
};

// A filter of `self`, a method of it, or a function, whose `self` is undefined.
using NativeFunction = absl::StatusOr<Value> (*)(Runtime& runtime,
                                                 const Value& self,
                                                 const Arguments& arguments);

// Functions by their names, as templates know them.
struct NamedFunction {
  std::string_view name;
  NativeFunction function;
};
using FunctionTable = absl::Span<const NamedFunction>;

// Null if there is none.
NativeFunction FindIn(FunctionTable table, std::string_view name);

// A function or a bound method as a value.
class NativeCallable : public Object {
 public:
  NativeCallable(NativeFunction function, Value self)
      : Object(1 + self.depth()), function_(function), self_(std::move(self)) {}
  std::string_view type_name() const override { return "function"; }
  bool is_callable() const override { return true; }
  absl::StatusOr<Value> Call(Runtime& runtime, const Arguments& arguments) {
    return function_(runtime, self_, arguments);
  }

 private:
  NativeFunction function_;
  Value self_;
};

// The arguments in the order of a function's parameters. Parameters that start
// with a `*` are taken by name only. Absent ones are null.
//
// INVALID_ARGUMENT for too many, unknown or doubled ones.
using Bound = std::vector<const Value*>;
absl::StatusOr<Bound> Bind(const Arguments& arguments,
                           std::initializer_list<const char*> parameters);

// Readers of bound arguments, which give `otherwise` where one is absent and
// INVALID_ARGUMENT where it is of another type.
absl::StatusOr<int64_t> IntOr(const Value* argument, int64_t otherwise);
absl::StatusOr<std::string_view> BytesOr(const Value* argument,
                                         std::string_view otherwise);
bool TruthOr(const Value* argument, bool otherwise);
absl::StatusOr<Text> TextOr(Runtime& runtime, const Value* argument,
                            std::string_view otherwise);  // a trusted one

// INVALID_ARGUMENT, unless `argument` is there.
absl::Status Need(const Value* argument, absl::string_view name);

// Lists, tuples, views, dicts and objects, with their cost charged.
// RESOURCE_EXHAUSTED beyond the limits of their size and depth.
absl::StatusOr<Value> MakeSequence(Runtime& runtime, Sequence::Kind kind,
                                   ValueList items);
absl::StatusOr<Value> MakeList(Runtime& runtime, ValueList items);
// `items` are those of the range.
absl::StatusOr<Value> MakeRange(Runtime& runtime, const RangeBounds& bounds,
                                ValueList items);
absl::StatusOr<Value> MakeTuple(Runtime& runtime, ValueList items);
absl::StatusOr<Value> MakeDict(Runtime& runtime, Dict dict);
absl::StatusOr<Value> MakeText(Runtime& runtime, Text text);
// Part of a text.
absl::StatusOr<Value> MakeSlice(Runtime& runtime, const Text& text, size_t from,
                                size_t to);
absl::StatusOr<Value> MakeGenerator(Runtime& runtime, ValueList items);
// One that gives an error.
absl::StatusOr<Value> MakeFaultyGenerator(Runtime& runtime, absl::Status fault);
absl::StatusOr<Value> MakeCallable(Runtime& runtime, NativeFunction function,
                                   Value self);
// `bytes` of the object and what it holds.
absl::StatusOr<Value> MakeObject(Runtime& runtime, size_t bytes,
                                 std::shared_ptr<Object> object);

// HashKey(), charged for all that it looks at. INVALID_ARGUMENT for what can
// be no key.
absl::StatusOr<std::string> KeyOf(Runtime& runtime, const Value& key);
// Null if there is no such key. INVALID_ARGUMENT as above.
absl::StatusOr<const Value*> FindKey(Runtime& runtime, const Dict& dict,
                                     const Value& key);
// Sets a key. INVALID_ARGUMENT as above.
absl::Status SetItem(Runtime& runtime, Dict& dict, Value key, Value value);

// A value that says why there is none.
absl::StatusOr<Value> MakeUndefined(Runtime& runtime, std::string why);

// INVALID_ARGUMENT errors in Python's words.
absl::Status TypeFault(absl::string_view what, const Value& value);
absl::Status UndefinedFault(const Value& value);

// The start of a foreign text, for an error.
std::string Shown(std::string_view text);

inline absl::string_view View(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_RUNTIME_H_

#include "engine/template/callables.h"

#include <cstdint>
#include <utility>

#include "absl/status/status.h"

#include "cache/base/status_macros.h"
#include "engine/template/operations.h"

namespace kvasir::jinja {
namespace {

Object::Found Method(Runtime& runtime, NativeFunction function,
                     std::shared_ptr<Object> self) {
  ASSIGN_OR_RETURN(
      Value method,
      MakeCallable(runtime, function, Value::FromObject(std::move(self))));
  return std::optional<Value>(std::move(method));
}

absl::StatusOr<Value> CallCycle(Runtime&, const Value& self,
                                const Arguments& arguments) {
  const ValueList& choices = arguments.positional;
  if (choices.empty()) {
    return absl::InvalidArgumentError("no items for cycling given");
  }
  return choices[self.AsObject<Loop>()->index() % choices.size()];
}

absl::StatusOr<Value> CallChanged(Runtime& runtime, const Value& self,
                                  const Arguments& arguments) {
  ASSIGN_OR_RETURN(const bool changed, self.AsObject<Loop>()->Changed(
                                           runtime, arguments.positional));
  return Value::Bool(changed);
}

absl::StatusOr<Value> CallNext(Runtime&, const Value& self, const Arguments&) {
  return self.AsObject<Cycler>()->Next();
}

absl::StatusOr<Value> CallReset(Runtime&, const Value& self, const Arguments&) {
  self.AsObject<Cycler>()->Reset();
  return Value::None();
}

}  // namespace

Object::Found Macro::Attribute(Runtime& runtime, std::string_view name) {
  if (name != "name") return std::optional<Value>();
  ASSIGN_OR_RETURN(Value value,
                   MakeText(runtime, Text(body_->name, /*trusted=*/true)));
  return std::optional<Value>(std::move(value));
}

Object::Found Loop::Count(Runtime& runtime, std::string_view name) const {
  const auto index = static_cast<int64_t>(index_);
  const auto length = static_cast<int64_t>(items_.size());
  if (name == "index") return Value::Int(index + 1);
  if (name == "index0") return Value::Int(index);
  if (name == "revindex") return Value::Int(length - index);
  if (name == "revindex0") return Value::Int(length - index - 1);
  if (name == "first") return Value::Bool(index == 0);
  if (name == "last") return Value::Bool(index + 1 == length);
  if (name == "length") return Value::Int(length);
  if (name == "depth") return Value::Int(recursion_ + 1);
  if (name == "depth0") return Value::Int(recursion_);
  if (name == "previtem") {
    if (index == 0) return MakeUndefined(runtime, "there is no previous item");
    return items_[index_ - 1];
  }
  if (name == "nextitem") {
    if (index + 1 == length) {
      return MakeUndefined(runtime, "there is no next item");
    }
    return items_[index_ + 1];
  }
  return std::optional<Value>();
}

Object::Found Loop::Attribute(Runtime& runtime, std::string_view name) {
  if (name == "cycle") return Method(runtime, CallCycle, shared_from_this());
  if (name == "changed") {
    return Method(runtime, CallChanged, shared_from_this());
  }
  return Count(runtime, name);
}

absl::StatusOr<bool> Loop::Changed(Runtime& runtime, const ValueList& values) {
  bool same = last_.has_value() && last_->size() == values.size();
  for (size_t i = 0; same && i < values.size(); ++i) {
    ASSIGN_OR_RETURN(same, Equals(runtime, (*last_)[i], values[i]));
  }
  if (!same) {
    // The values may hold this loop, or one that holds it.
    if (!last_.has_value()) runtime.changing.push_back(shared_from_this());
    last_ = values;
  }
  return !same;
}

Object::Found Cycler::Attribute(Runtime& runtime, std::string_view name) {
  if (name == "next") return Method(runtime, CallNext, shared_from_this());
  if (name == "reset") return Method(runtime, CallReset, shared_from_this());
  return name == "current" ? std::optional<Value>(items_[index_])
                           : std::nullopt;
}

Value Cycler::Next() {
  const Value& current = items_[index_];
  index_ = (index_ + 1) % items_.size();
  return current;
}

Value Joiner::Next() {
  if (!used_) {
    used_ = true;
    return Value::String(Text());
  }
  return separator_;
}

}  // namespace kvasir::jinja

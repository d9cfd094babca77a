#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/evaluator.h"
#include "engine/template/globals.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"

namespace kvasir::jinja {

using Kind = Expression::Kind;

absl::StatusOr<Value> Evaluator::Evaluate(const Expression& expression,
                                          Scope& scope) {
  const Level level(this);
  RETURN_IF_ERROR(level.Check(expression.line));
  switch (expression.kind) {
    case Kind::kLiteral:
      return expression.literal;
    case Kind::kName:
      return EvaluateName(expression.name, scope);
    case Kind::kList: {
      ASSIGN_OR_RETURN(ValueList items,
                       EvaluateAll(expression.operands, scope));
      return MakeList(runtime_, std::move(items));
    }
    case Kind::kTuple: {
      ASSIGN_OR_RETURN(ValueList items,
                       EvaluateAll(expression.operands, scope));
      return MakeTuple(runtime_, std::move(items));
    }
    case Kind::kDict:
      return EvaluateDict(expression, scope);
    case Kind::kAttribute:
    case Kind::kItem:
    case Kind::kSlice:
      return EvaluateAccess(expression, scope);
    case Kind::kCall:
      return EvaluateCall(expression, scope);
    case Kind::kFilter:
    case Kind::kTest:
      return EvaluateFilter(expression, scope);
    case Kind::kNot:
    case Kind::kAnd:
    case Kind::kOr:
    case Kind::kConditional:
      return EvaluateLogic(expression, scope);
    default:
      return EvaluateOperator(expression, scope);
  }
}

absl::StatusOr<Value> Evaluator::EvaluateName(NameId name, const Scope& scope) {
  // Few scopes are part of the step that a name is.
  constexpr int64_t kScopesPerStep = 4;
  int64_t looked = 0;
  const Value* variable = scope.Find(name, looked);
  RETURN_IF_ERROR(
      runtime_.budget.Step(static_cast<size_t>(looked / kScopesPerStep)));
  if (variable != nullptr) return *variable;
  const std::string& word = tree_.names[static_cast<size_t>(name)];
  RETURN_IF_ERROR(runtime_.budget.Scan(word.size()));
  if (const Value* value = context_.Find(word); value != nullptr) return *value;
  if (const NativeFunction function = FindIn(Globals(), word)) {
    return MakeCallable(runtime_, function, Value());
  }
  return MakeUndefined(runtime_,
                       absl::StrCat("'", Shown(word), "' is undefined"));
}

absl::StatusOr<ValueList> Evaluator::EvaluateAll(
    const std::vector<ExpressionPtr>& expressions, Scope& scope) {
  ValueList values;
  values.reserve(expressions.size());
  for (const ExpressionPtr& one : expressions) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*one, scope));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Value> Evaluator::EvaluateDict(const Expression& expression,
                                              Scope& scope) {
  ASSIGN_OR_RETURN(ValueList all, EvaluateAll(expression.operands, scope));
  Dict dict;
  for (size_t i = 0; i + 1 < all.size(); i += 2) {
    RETURN_IF_ERROR(
        SetItem(runtime_, dict, std::move(all[i]), std::move(all[i + 1])));
  }
  return MakeDict(runtime_, std::move(dict));
}

absl::StatusOr<Value> Evaluator::EvaluateLogic(const Expression& expression,
                                               Scope& scope) {
  const auto& operands = expression.operands;
  ASSIGN_OR_RETURN(Value value, Evaluate(*operands[0], scope));
  if (expression.kind == Kind::kNot) return Value::Bool(!IsTruthy(value));
  if (expression.kind == Kind::kConditional) {
    if (IsTruthy(value)) return Evaluate(*operands[1], scope);
    if (operands[2] != nullptr) return Evaluate(*operands[2], scope);
    return MakeUndefined(runtime_,
                         "the inline if-expression was false and has no else");
  }
  const bool stops_at = expression.kind == Kind::kOr;
  for (size_t i = 1; i < operands.size() && IsTruthy(value) != stops_at; ++i) {
    ASSIGN_OR_RETURN(value, Evaluate(*operands[i], scope));
  }
  return value;
}

absl::StatusOr<Value> Evaluator::EvaluateOperator(const Expression& expression,
                                                  Scope& scope) {
  switch (expression.kind) {
    case Kind::kArithmetic:
      return EvaluateArithmetic(expression, scope);
    case Kind::kConcat:
      return EvaluateConcat(expression, scope);
    case Kind::kCompare:
      return EvaluateCompare(expression, scope);
    default:
      break;
  }
  ASSIGN_OR_RETURN(Value value, Evaluate(*expression.operands[0], scope));
  line_ = expression.line;
  if (expression.kind == Kind::kNegative) return Negate(value);
  if (value.is_number()) {
    return value.kind() == Value::Kind::kBool ? Value::Int(value.AsInt())
                                              : value;
  }
  return TypeFault("wanted a number after +", value);
}

absl::StatusOr<Value> Evaluator::EvaluateArithmetic(
    const Expression& expression, Scope& scope) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*expression.operands[0], scope));
  for (size_t i = 0; i < expression.arithmetic.size(); ++i) {
    ASSIGN_OR_RETURN(const Value right,
                     Evaluate(*expression.operands[i + 1], scope));
    line_ = expression.line;
    ASSIGN_OR_RETURN(left, Calculate(runtime_, expression.arithmetic[i],
                                     std::move(left), right));
  }
  return left;
}

absl::StatusOr<Value> Evaluator::EvaluateConcat(const Expression& expression,
                                                Scope& scope) {
  RETURN_IF_ERROR(runtime_.budget.Produce(sizeof(Text)));
  Text joined;
  for (const ExpressionPtr& operand : expression.operands) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*operand, scope));
    RETURN_IF_ERROR(AppendStr(runtime_, value, joined));
  }
  return Value::String(std::move(joined));
}

absl::StatusOr<bool> Evaluator::Compare(CompareOperator op, const Value& left,
                                        const Value& right) {
  switch (op) {
    case CompareOperator::kEqual:
      return Equals(runtime_, left, right);
    case CompareOperator::kNotEqual: {
      ASSIGN_OR_RETURN(const bool same, Equals(runtime_, left, right));
      return !same;
    }
    case CompareOperator::kLess:
      return Less(runtime_, left, right);
    case CompareOperator::kGreater:
      return Less(runtime_, right, left);
    case CompareOperator::kLessOrEqual:
    case CompareOperator::kGreaterOrEqual: {
      const bool turned = op == CompareOperator::kGreaterOrEqual;
      ASSIGN_OR_RETURN(const bool less, Less(runtime_, turned ? right : left,
                                             turned ? left : right));
      if (less) return true;
      return Equals(runtime_, left, right);
    }
    case CompareOperator::kIn:
      return Contains(runtime_, right, left);
    case CompareOperator::kNotIn: {
      ASSIGN_OR_RETURN(const bool inside, Contains(runtime_, right, left));
      return !inside;
    }
  }
  return false;
}

absl::StatusOr<Value> Evaluator::EvaluateCompare(const Expression& expression,
                                                 Scope& scope) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*expression.operands[0], scope));
  for (size_t i = 0; i < expression.compare.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, Evaluate(*expression.operands[i + 1], scope));
    line_ = expression.line;
    ASSIGN_OR_RETURN(const bool holds,
                     Compare(expression.compare[i], left, right));
    if (!holds) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

absl::StatusOr<Value> Evaluator::EvaluateAccess(const Expression& expression,
                                                Scope& scope) {
  const auto& operands = expression.operands;
  ASSIGN_OR_RETURN(const Value object, Evaluate(*operands[0], scope));
  line_ = expression.line;
  if (expression.kind == Kind::kAttribute) {
    return GetAttribute(runtime_, object, expression.word);
  }
  if (expression.kind == Kind::kItem) {
    ASSIGN_OR_RETURN(const Value key, Evaluate(*operands[1], scope));
    line_ = expression.line;
    return GetItem(runtime_, object, key);
  }
  Value bounds[3] = {Value::None(), Value::None(), Value::None()};
  for (size_t i = 0; i < 3; ++i) {
    if (operands[i + 1] == nullptr) continue;
    ASSIGN_OR_RETURN(bounds[i], Evaluate(*operands[i + 1], scope));
  }
  line_ = expression.line;
  return GetSlice(runtime_, object, bounds[0], bounds[1], bounds[2]);
}

absl::StatusOr<Value> Evaluator::EvaluateFilter(const Expression& expression,
                                                Scope& scope) {
  Value value;
  if (expression.operands[0] == nullptr) {
    value = *captured_;
  } else {
    ASSIGN_OR_RETURN(value, Evaluate(*expression.operands[0], scope));
  }
  ASSIGN_OR_RETURN(const Arguments arguments,
                   EvaluateArguments(expression.call.get(), scope));
  line_ = expression.line;
  const char* kind = expression.kind == Kind::kFilter ? "filter" : "test";
  if (expression.function == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("unknown ", kind, " \"", Shown(expression.word), "\""));
  }
  absl::StatusOr<Value> out = expression.function(runtime_, value, arguments);
  if (out.ok() || !absl::IsInvalidArgument(out.status())) return out;
  return absl::InvalidArgumentError(absl::StrCat(
      kind, " \"", expression.word, "\": ", out.status().message()));
}

absl::StatusOr<Arguments> Evaluator::EvaluateArguments(
    const Expression::Call* call, Scope& scope) {
  Arguments arguments;
  if (call == nullptr) return arguments;
  // A call block's caller is for the outermost call alone.
  const Value* const caller = std::exchange(caller_, nullptr);
  ASSIGN_OR_RETURN(arguments.positional, EvaluateAll(call->positional, scope));
  if (call->more_positional != nullptr) {
    ASSIGN_OR_RETURN(const Value more, Evaluate(*call->more_positional, scope));
    ASSIGN_OR_RETURN(ValueList items, Iterate(runtime_, more));
    for (Value& item : items) {
      arguments.positional.push_back(std::move(item));
    }
  }
  for (const auto& [name, expression] : call->named) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*expression, scope));
    RETURN_IF_ERROR(runtime_.budget.Produce(name.size()));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (call->more_named != nullptr) {
    ASSIGN_OR_RETURN(const Value more, Evaluate(*call->more_named, scope));
    if (!more.is_dict()) return TypeFault("** wants a dict", more);
    for (const auto& [key, value] : more.AsDict().items()) {
      if (!key.is_string()) return TypeFault("keywords must be strings", key);
      RETURN_IF_ERROR(
          runtime_.budget.Produce(sizeof(Value) + key.AsText().size()));
      arguments.named.emplace_back(key.AsText().bytes(), value);
    }
  }
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  return arguments;
}

absl::StatusOr<Value> Evaluator::EvaluateCall(const Expression& expression,
                                              Scope& scope) {
  const Expression& callee = *expression.operands[0];
  const Value* const caller = std::exchange(caller_, nullptr);
  ASSIGN_OR_RETURN(const Value function, Evaluate(callee, scope));
  caller_ = caller;
  if (function.is_undefined() && callee.kind == Kind::kName) {
    return absl::InvalidArgumentError(absl::StrCat(
        "unknown function \"",
        Shown(tree_.names[static_cast<size_t>(callee.name)]), "\""));
  }
  ASSIGN_OR_RETURN(const Arguments arguments,
                   EvaluateArguments(expression.call.get(), scope));
  line_ = expression.line;
  return Call(function, arguments);
}

absl::StatusOr<Value> Evaluator::Call(const Value& function,
                                      const Arguments& arguments) {
  if (function.is_undefined()) return UndefinedFault(function);
  if (const auto native = function.AsObject<NativeCallable>()) {
    return native->Call(runtime_, arguments);
  }
  if (const auto macro = function.AsObject<Macro>()) {
    return CallMacro(*macro, arguments);
  }
  if (const auto loop = function.AsObject<Loop>()) {
    return CallLoop(*loop, arguments);
  }
  if (const auto joiner = function.AsObject<Joiner>()) {
    RETURN_IF_ERROR(Bind(arguments, {}).status());
    return joiner->Next();
  }
  return TypeFault("wanted something to call", function);
}

}  // namespace kvasir::jinja

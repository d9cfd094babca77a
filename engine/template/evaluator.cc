#include "engine/template/evaluator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"

namespace kvasir::jinja {

Evaluator::~Evaluator() {
  for (const ScopePtr& scope : closures_) scope->Clear();
}

absl::StatusOr<Text> Evaluator::Run() {
  const auto scope = std::make_shared<Scope>(nullptr);
  Flow flow = Flow::kNext;
  return Capture(tree_.body, scope, flow);
}

Evaluator::FlowOr Evaluator::RunBlock(const Block& block,
                                      const ScopePtr& scope) {
  for (const auto& statement : block) {
    ASSIGN_OR_RETURN(const Flow flow, RunStatement(*statement, scope));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::FlowOr Evaluator::RunStatement(const Statement& statement,
                                          const ScopePtr& scope) {
  const Level level(this);
  RETURN_IF_ERROR(level.Check(statement.line));
  switch (statement.kind) {
    case Statement::Kind::kText:
      RETURN_IF_ERROR(Print(statement.text));
      return Flow::kNext;
    case Statement::Kind::kOutput:
      return RunOutput(statement, scope);
    case Statement::Kind::kIf:
      return RunIf(statement, scope);
    case Statement::Kind::kFor:
      return RunFor(statement, scope);
    case Statement::Kind::kSet: {
      ASSIGN_OR_RETURN(const Value value,
                       Evaluate(*statement.expression, *scope));
      RETURN_IF_ERROR(Assign(statement.target, value, *scope));
      return Flow::kNext;
    }
    case Statement::Kind::kSetBlock:
      return RunSetBlock(statement, scope);
    case Statement::Kind::kMacro: {
      ASSIGN_OR_RETURN(Value macro, MakeMacro(statement.macro.get(), scope));
      scope->Set(statement.name, std::move(macro));
      return Flow::kNext;
    }
    case Statement::Kind::kCallBlock:
      return RunCallBlock(statement, scope);
    case Statement::Kind::kFilterBlock:
      return RunFilterBlock(statement, scope);
    case Statement::Kind::kWith:
      return RunWith(statement, scope);
    case Statement::Kind::kBreak:
      return Flow::kBreak;
    case Statement::Kind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

absl::Status Evaluator::Print(const Value& value) {
  RETURN_IF_ERROR(AppendStr(runtime_, value, *out_));
  if (out_->size() <= kMaxOutputBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("wanted at most ", kMaxOutputBytes,
                   " bytes of output (kMaxOutputBytes); found more"));
}

Evaluator::FlowOr Evaluator::RunOutput(const Statement& statement,
                                       const ScopePtr& scope) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.expression, *scope));
  RETURN_IF_ERROR(Print(value));
  return Flow::kNext;
}

Evaluator::FlowOr Evaluator::RunIf(const Statement& statement,
                                   const ScopePtr& scope) {
  for (const Statement::Branch& branch : statement.branches) {
    ASSIGN_OR_RETURN(const Value condition,
                     Evaluate(*branch.condition, *scope));
    if (IsTruthy(condition)) return RunBlock(branch.body, scope);
  }
  return RunBlock(statement.otherwise, scope);
}

Evaluator::FlowOr Evaluator::RunFor(const Statement& statement,
                                    const ScopePtr& scope) {
  ASSIGN_OR_RETURN(const Value over, Evaluate(*statement.expression, *scope));
  return RunLoop(statement, over, scope, /*recursion=*/0);
}

Evaluator::FlowOr Evaluator::RunLoop(const Statement& statement,
                                     const Value& over, const ScopePtr& outside,
                                     int recursion) {
  ASSIGN_OR_RETURN(ValueList items, Iterate(runtime_, over));
  if (statement.filter != nullptr) {
    ASSIGN_OR_RETURN(items, KeepWanted(statement, std::move(items), outside));
  }
  if (statement.recursive) closures_.push_back(outside);
  const auto loop =
      std::make_shared<Loop>(std::move(items), recursion, &statement,
                             statement.recursive ? outside : nullptr);
  ASSIGN_OR_RETURN(const Value variable,
                   MakeObject(runtime_, sizeof(Loop), loop));
  ScopePtr scope;
  // As in jinja2, a turn that is cut short does not count as one.
  bool has_turned = false;
  for (size_t i = 0; i < loop->items().size(); ++i) {
    RETURN_IF_ERROR(runtime_.budget.Step());
    loop->MoveTo(i);
    if (scope != nullptr && scope.use_count() == 1) {
      scope->Clear();
    } else {
      scope = std::make_shared<Scope>(outside);
    }
    scope->Set(statement.loop, variable);
    RETURN_IF_ERROR(Assign(statement.target, loop->items()[i], *scope));
    ASSIGN_OR_RETURN(const Flow flow, RunBlock(statement.body, scope));
    has_turned |= flow == Flow::kNext;
    if (flow == Flow::kBreak) break;
  }
  if (has_turned) return Flow::kNext;
  return RunBlock(statement.otherwise, std::make_shared<Scope>(outside));
}

absl::StatusOr<ValueList> Evaluator::KeepWanted(const Statement& statement,
                                                ValueList items,
                                                const ScopePtr& outside) {
  ValueList kept;
  const auto scope = std::make_shared<Scope>(outside);
  for (Value& item : items) {
    RETURN_IF_ERROR(Assign(statement.target, item, *scope));
    ASSIGN_OR_RETURN(const Value wanted, Evaluate(*statement.filter, *scope));
    if (IsTruthy(wanted)) kept.push_back(std::move(item));
  }
  return kept;
}

absl::Status Evaluator::Assign(const Target& target, const Value& value,
                               Scope& scope) {
  if (!target.attribute.empty()) {
    ASSIGN_OR_RETURN(const Value object, EvaluateName(target.name, scope));
    const auto space = object.AsObject<Namespace>();
    if (space == nullptr) {
      return absl::InvalidArgumentError(
          "cannot assign attribute on non-namespace object");
    }
    RETURN_IF_ERROR(
        runtime_.budget.Produce(2 * sizeof(Value) + target.attribute.size()));
    space->Set(target.attribute, value);
    return absl::OkStatus();
  }
  if (target.parts.empty()) {
    scope.Set(target.name, value);
    return absl::OkStatus();
  }
  if (value.is_undefined()) return UndefinedFault(value);
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime_, value));
  if (items.size() != target.parts.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted ", target.parts.size(),
                     " values to unpack; found ", items.size()));
  }
  for (size_t i = 0; i < items.size(); ++i) {
    RETURN_IF_ERROR(Assign(target.parts[i], items[i], scope));
  }
  return absl::OkStatus();
}

absl::StatusOr<Text> Evaluator::Capture(const Block& block,
                                        const ScopePtr& scope, Flow& flow) {
  RETURN_IF_ERROR(runtime_.budget.Produce(sizeof(Text)));
  Text text;
  Text* const outside = std::exchange(out_, &text);
  FlowOr end = RunBlock(block, scope);
  out_ = outside;
  RETURN_IF_ERROR(end.status());
  flow = *end;
  return text;
}

absl::StatusOr<Value> Evaluator::FilterBlockText(const Expression& filter,
                                                 Text text, Scope& scope) {
  const Value value = Value::String(std::move(text));
  const Value* const outside = std::exchange(captured_, &value);
  absl::StatusOr<Value> filtered = Evaluate(filter, scope);
  captured_ = outside;
  return filtered;
}

Evaluator::FlowOr Evaluator::RunSetBlock(const Statement& statement,
                                         const ScopePtr& scope) {
  Flow flow = Flow::kNext;
  ASSIGN_OR_RETURN(
      Text text, Capture(statement.body, std::make_shared<Scope>(scope), flow));
  if (flow != Flow::kNext) return flow;
  Value value;
  if (statement.expression == nullptr) {
    value = Value::String(std::move(text));
  } else {
    ASSIGN_OR_RETURN(
        value, FilterBlockText(*statement.expression, std::move(text), *scope));
  }
  RETURN_IF_ERROR(Assign(statement.target, value, *scope));
  return flow;
}

Evaluator::FlowOr Evaluator::RunFilterBlock(const Statement& statement,
                                            const ScopePtr& scope) {
  Flow flow = Flow::kNext;
  ASSIGN_OR_RETURN(
      Text text, Capture(statement.body, std::make_shared<Scope>(scope), flow));
  if (flow != Flow::kNext) return flow;
  ASSIGN_OR_RETURN(const Value value, FilterBlockText(*statement.expression,
                                                      std::move(text), *scope));
  RETURN_IF_ERROR(Print(value));
  return flow;
}

Evaluator::FlowOr Evaluator::RunCallBlock(const Statement& statement,
                                          const ScopePtr& scope) {
  ASSIGN_OR_RETURN(const Value caller, MakeMacro(statement.macro.get(), scope));
  caller_ = &caller;
  absl::StatusOr<Value> value = Evaluate(*statement.expression, *scope);
  caller_ = nullptr;
  RETURN_IF_ERROR(value.status());
  RETURN_IF_ERROR(Print(*value));
  return Flow::kNext;
}

Evaluator::FlowOr Evaluator::RunWith(const Statement& statement,
                                     const ScopePtr& scope) {
  const auto inside = std::make_shared<Scope>(scope);
  for (const auto& [target, expression] : statement.settings) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*expression, *scope));
    RETURN_IF_ERROR(Assign(target, value, *inside));
  }
  return RunBlock(statement.body, inside);
}

absl::StatusOr<Value> Evaluator::MakeMacro(const MacroBody* body,
                                           const ScopePtr& scope) {
  // The object, its closure and what that keeps alive.
  constexpr size_t kMacroBytes = sizeof(Macro) + 2 * sizeof(Scope);
  RETURN_IF_ERROR(runtime_.budget.Produce(kMacroBytes));
  if (closures_.empty() || closures_.back() != scope) {
    closures_.push_back(scope);
  }
  return Value::FromObject(std::make_shared<Macro>(body, scope));
}

absl::Status Evaluator::BindParameters(const Macro& macro,
                                       const Arguments& arguments,
                                       Scope& scope) {
  const MacroBody& body = macro.body();
  // Each name is looked for among the parameters.
  RETURN_IF_ERROR(runtime_.budget.Step(body.parameters.size() *
                                       (1 + arguments.named.size())));
  std::vector<const Value*> bound(body.parameters.size());
  ValueList more;
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < bound.size()) {
      bound[i] = &arguments.positional[i];
    } else {
      more.push_back(arguments.positional[i]);
    }
  }
  Dict named;
  for (const auto& [word, value] : arguments.named) {
    const auto parameter = std::find_if(
        body.parameters.begin(), body.parameters.end(),
        [&wanted = word](const Parameter& one) { return one.word == wanted; });
    if (parameter != body.parameters.end()) {
      const Value*& place =
          bound[static_cast<size_t>(parameter - body.parameters.begin())];
      if (place != nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(
            "macro \"", body.name, "\": two values for argument ", word));
      }
      place = &value;
    } else if (word == "caller" && body.caller >= 0) {
      scope.Set(body.caller, value);
    } else if (body.kwargs >= 0) {
      RETURN_IF_ERROR(runtime_.budget.Produce(word.size()));
      named.Set(word, value);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "macro \"", body.name, "\" takes no keyword argument ", word));
    }
  }
  if (!more.empty() && body.varargs < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("macro \"", body.name, "\" takes not more than ",
                     bound.size(), " argument(s)"));
  }
  for (size_t i = 0; i < bound.size(); ++i) {
    const Parameter& parameter = body.parameters[i];
    Value value;
    if (bound[i] != nullptr) {
      value = *bound[i];
    } else if (parameter.otherwise != nullptr) {
      ASSIGN_OR_RETURN(value, Evaluate(*parameter.otherwise, scope));
    } else {
      ASSIGN_OR_RETURN(
          value, MakeUndefined(runtime_, absl::StrCat("parameter '",
                                                      Shown(parameter.word),
                                                      "' was not provided")));
    }
    scope.Set(parameter.name, std::move(value));
  }
  if (body.varargs >= 0) {
    ASSIGN_OR_RETURN(Value rest, MakeTuple(runtime_, std::move(more)));
    scope.Set(body.varargs, std::move(rest));
  }
  if (body.kwargs >= 0) {
    ASSIGN_OR_RETURN(Value rest, MakeDict(runtime_, std::move(named)));
    scope.Set(body.kwargs, std::move(rest));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Evaluator::CallMacro(const Macro& macro,
                                           const Arguments& arguments) {
  const auto scope = std::make_shared<Scope>(macro.closure());
  if (macro.body().caller >= 0) {
    ASSIGN_OR_RETURN(Value none, MakeUndefined(runtime_, "No caller defined"));
    scope->Set(macro.body().caller, std::move(none));
  }
  RETURN_IF_ERROR(BindParameters(macro, arguments, *scope));
  Flow flow = Flow::kNext;
  ASSIGN_OR_RETURN(Text text, Capture(macro.body().body, scope, flow));
  return Value::String(std::move(text));
}

absl::StatusOr<Value> Evaluator::CallLoop(const Loop& loop,
                                          const Arguments& arguments) {
  if (!loop.is_callable()) {
    return absl::InvalidArgumentError(
        "the loop must have the 'recursive' marker to be called recursively");
  }
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"iterable"}));
  RETURN_IF_ERROR(Need(bound[0], "iterable"));
  RETURN_IF_ERROR(runtime_.budget.Produce(sizeof(Text)));
  Text text;
  Text* const outside = std::exchange(out_, &text);
  const FlowOr end = RunLoop(loop.statement(), *bound[0], loop.outside(),
                             loop.recursion() + 1);
  out_ = outside;
  RETURN_IF_ERROR(end.status());
  return Value::String(std::move(text));
}

}  // namespace kvasir::jinja

#ifndef KVASIR_ENGINE_TEMPLATE_EVALUATOR_H_
#define KVASIR_ENGINE_TEMPLATE_EVALUATOR_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "engine/template/ast.h"
#include "engine/template/callables.h"
#include "engine/template/runtime.h"
#include "engine/template/scope.h"

namespace kvasir::jinja {

// Walks the tree of a template and prints. One rendering each; one thread. The
// walk is as deep as kMaxEvaluationDepth at most.
class Evaluator {
 public:
  // All outlive this.
  Evaluator(const ParsedTemplate* tree, const Dict* context, Runtime* runtime)
      : tree_(*tree), context_(*context), runtime_(*runtime) {}
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;
  // Unties what refers to itself.
  ~Evaluator();

  // What the whole template prints. Errors say no line; line() does.
  absl::StatusOr<Text> Run();

  // Where the last thing that was evaluated stands.
  int line() const { return line_; }

 private:
  // How a statement ends.
  enum class Flow : uint8_t { kNext, kBreak, kContinue };
  using FlowOr = absl::StatusOr<Flow>;

  // Counts a step and, for as long as it lives, a level of depth.
  class Level {
   public:
    explicit Level(Evaluator* evaluator)
        : evaluator_(evaluator), depth_(&evaluator->runtime_) {}
    absl::Status Check(int line) const {
      evaluator_->line_ = line;
      return depth_.Check();
    }

   private:
    Evaluator* evaluator_;
    DepthLevel depth_;
  };

  // evaluator.cc
  FlowOr RunBlock(const Block& block, const ScopePtr& scope);
  FlowOr RunStatement(const Statement& statement, const ScopePtr& scope);
  absl::Status Print(const Value& value);
  FlowOr RunOutput(const Statement& statement, const ScopePtr& scope);
  FlowOr RunIf(const Statement& statement, const ScopePtr& scope);
  FlowOr RunFor(const Statement& statement, const ScopePtr& scope);
  FlowOr RunSetBlock(const Statement& statement, const ScopePtr& scope);
  FlowOr RunFilterBlock(const Statement& statement, const ScopePtr& scope);
  FlowOr RunCallBlock(const Statement& statement, const ScopePtr& scope);
  FlowOr RunWith(const Statement& statement, const ScopePtr& scope);
  FlowOr RunLoop(const Statement& statement, const Value& over,
                 const ScopePtr& outside, int recursion);
  absl::StatusOr<ValueList> KeepWanted(const Statement& statement,
                                       ValueList items,
                                       const ScopePtr& outside);
  absl::Status Assign(const Target& target, const Value& value, Scope& scope);
  // What `block` prints.
  absl::StatusOr<Text> Capture(const Block& block, const ScopePtr& scope,
                               Flow& flow);
  // A filter whose operand is what a block printed.
  absl::StatusOr<Value> FilterBlockText(const Expression& filter, Text text,
                                        Scope& scope);
  absl::StatusOr<Value> MakeMacro(const MacroBody* body, const ScopePtr& scope);
  absl::StatusOr<Value> CallMacro(const Macro& macro,
                                  const Arguments& arguments);
  absl::Status BindParameters(const Macro& macro, const Arguments& arguments,
                              Scope& scope);
  absl::StatusOr<Value> CallLoop(const Loop& loop, const Arguments& arguments);

  // expression_evaluator.cc
  absl::StatusOr<Value> Evaluate(const Expression& expression, Scope& scope);
  absl::StatusOr<Value> EvaluateLogic(const Expression& expression,
                                      Scope& scope);
  absl::StatusOr<Value> EvaluateOperator(const Expression& expression,
                                         Scope& scope);
  absl::StatusOr<Value> EvaluateAccess(const Expression& expression,
                                       Scope& scope);
  absl::StatusOr<Value> EvaluateName(NameId name, const Scope& scope);
  absl::StatusOr<Value> EvaluateDict(const Expression& expression,
                                     Scope& scope);
  absl::StatusOr<ValueList> EvaluateAll(
      const std::vector<ExpressionPtr>& expressions, Scope& scope);
  absl::StatusOr<Value> EvaluateArithmetic(const Expression& expression,
                                           Scope& scope);
  absl::StatusOr<Value> EvaluateConcat(const Expression& expression,
                                       Scope& scope);
  absl::StatusOr<Value> EvaluateCompare(const Expression& expression,
                                        Scope& scope);
  absl::StatusOr<bool> Compare(CompareOperator op, const Value& left,
                               const Value& right);
  absl::StatusOr<Value> EvaluateFilter(const Expression& expression,
                                       Scope& scope);
  absl::StatusOr<Value> EvaluateCall(const Expression& expression,
                                     Scope& scope);
  absl::StatusOr<Arguments> EvaluateArguments(const Expression::Call* call,
                                              Scope& scope);
  absl::StatusOr<Value> Call(const Value& function, const Arguments& arguments);

  const ParsedTemplate& tree_;
  const Dict& context_;
  Runtime& runtime_;
  Text* out_ = nullptr;              // where statements print now
  const Value* captured_ = nullptr;  // the text that a block's filter is for
  const Value* caller_ = nullptr;    // of a call block, for its one call
  int line_ = 1;
  std::vector<ScopePtr> closures_;  // that macros or loops refer to
};

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_EVALUATOR_H_

#ifndef KVASIR_ENGINE_TEMPLATE_CALLABLES_H_
#define KVASIR_ENGINE_TEMPLATE_CALLABLES_H_

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "engine/template/ast.h"
#include "engine/template/runtime.h"
#include "engine/template/scope.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

// Objects that only the evaluator can call, since they run parts of the
// template. They point into it; it outlives the rendering that made them. What
// scopes hold counts for no depth: the evaluator keeps every scope that a macro
// or a loop refers to, and clears them one by one.

class Macro : public Object {
 public:
  Macro(const MacroBody* body, ScopePtr closure)
      : body_(body), closure_(std::move(closure)) {}
  std::string_view type_name() const override { return "Macro"; }
  bool is_callable() const override { return true; }
  Found Attribute(Runtime& runtime, std::string_view name) override;

  const MacroBody& body() const { return *body_; }
  // Where it was defined: what its body sees.
  const ScopePtr& closure() const { return closure_; }

 private:
  const MacroBody* body_;
  ScopePtr closure_;
};

// The variable `loop`.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  // `statement` and `outside` are for a recursive one.
  Loop(ValueList items, int recursion, const Statement* statement,
       ScopePtr outside)
      : Object(1 + DeepestOf(items)),
        items_(std::move(items)),
        recursion_(recursion),
        statement_(statement),
        outside_(std::move(outside)) {}

  std::string_view type_name() const override { return "LoopContext"; }
  bool is_callable() const override { return statement_->recursive; }
  Found Attribute(Runtime& runtime, std::string_view name) override;

  const ValueList& items() const { return items_; }
  size_t index() const { return index_; }
  void MoveTo(size_t index) { index_ = index; }
  int recursion() const { return recursion_; }
  const Statement& statement() const { return *statement_; }
  const ScopePtr& outside() const { return outside_; }

  // Whether these differ from those of the last time.
  absl::StatusOr<bool> Changed(Runtime& runtime, const ValueList& values);
  void Clear() override { last_ = std::nullopt; }

 private:
  // The attributes that are no methods.
  Found Count(Runtime& runtime, std::string_view name) const;

  ValueList items_;
  size_t index_ = 0;
  int recursion_;  // from 0
  const Statement* statement_;
  ScopePtr outside_;
  std::optional<ValueList> last_;
};

// cycler() and joiner().
class Cycler : public Object, public std::enable_shared_from_this<Cycler> {
 public:
  explicit Cycler(ValueList items)
      : Object(1 + DeepestOf(items)), items_(std::move(items)) {}
  std::string_view type_name() const override { return "Cycler"; }
  Found Attribute(Runtime& runtime, std::string_view name) override;
  Value Next();
  void Reset() { index_ = 0; }

 private:
  ValueList items_;  // at least one
  size_t index_ = 0;
};

class Joiner : public Object {
 public:
  explicit Joiner(Value separator)
      : Object(1 + separator.depth()), separator_(std::move(separator)) {}
  std::string_view type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  // Nothing the first time, the separator from then on.
  Value Next();

 private:
  Value separator_;
  bool used_ = false;
};

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_CALLABLES_H_

#ifndef KVASIR_ENGINE_TEMPLATE_AST_H_
#define KVASIR_ENGINE_TEMPLATE_AST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/template/arithmetic.h"
#include "engine/template/runtime.h"
#include "engine/template/value.h"

namespace kvasir::jinja {

// A parsed template. Immutable once made, so that any thread may render it. No
// node is nested deeper than kMaxNesting, which bounds every walk over it.

// Index into ParsedTemplate::names.
using NameId = int32_t;

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

enum class CompareOperator : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
  kIn,
  kNotIn,
};

struct Expression {
  enum class Kind : uint8_t {
    kLiteral,      // literal
    kName,         // name
    kList,         // operands
    kTuple,        // operands
    kDict,         // operands: key, value, key, value, ...
    kAttribute,    // operands[0].word
    kItem,         // operands[0][operands[1]]
    kSlice,        // operands[0][operands[1]:operands[2]:operands[3]]
    kCall,         // operands[0](call)
    kFilter,       // operands[0]|word(call); null: what a block printed
    kTest,         // operands[0] is word(call)
    kNot,          // operands[0]
    kNegative,     // operands[0]
    kPositive,     // operands[0]
    kArithmetic,   // operands joined by arithmetic, from the left
    kConcat,       // operands joined by ~
    kCompare,      // operands joined by compare
    kAnd,          // operands[0] and operands[1] and ...
    kOr,           // operands[0] or operands[1] or ...
    kConditional,  // operands[1] if operands[0] else operands[2] (may be null)
  };

  struct Call {
    std::vector<ExpressionPtr> positional;
    std::vector<std::pair<std::string, ExpressionPtr>> named;
    ExpressionPtr more_positional;  // *expression
    ExpressionPtr more_named;       // **expression
  };

  Kind kind = Kind::kLiteral;
  int line = 0;
  int depth = 1;  // of nesting, at most kMaxNesting
  Value literal;
  NameId name = -1;
  std::string word;
  // Of kFilter and kTest; null for one that does not exist, in a branch that
  // may never be taken.
  NativeFunction function = nullptr;
  std::vector<ExpressionPtr> operands;
  std::vector<BinaryOperator> arithmetic;  // one less than operands
  std::vector<CompareOperator> compare;    // one less than operands
  std::unique_ptr<const Call> call;
};

// What an assignment or a loop sets.
struct Target {
  NameId name = -1;           // of a variable, or of a namespace if
  std::string attribute;      // this is not empty
  std::vector<Target> parts;  // or else of a tuple
};

struct Statement;
using Block = std::vector<std::unique_ptr<const Statement>>;

struct Parameter {
  NameId name = -1;
  std::string word;
  ExpressionPtr otherwise;  // null: undefined
};

// What a macro or the body of a call block is.
struct MacroBody {
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
  // Ids of the names that it gives its further arguments; -1 where the body
  // does not use them, and then there may be none.
  NameId varargs = -1;
  NameId kwargs = -1;
  NameId caller = -1;
};

struct Statement {
  enum class Kind : uint8_t {
    kText,         // text
    kOutput,       // expression
    kIf,           // branches, otherwise
    kFor,          // target, expression, filter, body, otherwise
    kSet,          // target, expression
    kSetBlock,     // target, body, expression (a filter) if not null
    kMacro,        // name, macro
    kCallBlock,    // expression (a call), macro
    kFilterBlock,  // expression (a filter), body
    kWith,         // settings, body
    kBreak,
    kContinue,
  };

  struct Branch {
    ExpressionPtr condition;
    Block body;
  };

  Kind kind = Kind::kText;
  int line = 0;
  Value text;
  ExpressionPtr expression;
  Target target;
  NameId name = -1;
  NameId loop = -1;        // of kFor: the id of "loop"
  bool recursive = false;  // of kFor
  ExpressionPtr filter;
  std::vector<Branch> branches;
  Block body;
  Block otherwise;
  std::vector<std::pair<Target, ExpressionPtr>> settings;
  std::unique_ptr<const MacroBody> macro;
};

struct ParsedTemplate {
  Block body;
  std::vector<std::string> names;
};

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_AST_H_

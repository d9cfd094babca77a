#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/filters.h"
#include "engine/template/limits.h"
#include "engine/template/parser.h"

namespace kvasir::jinja {
namespace {

using Kind = Expression::Kind;

struct ComparePair {
  std::string_view symbol;
  CompareOperator op;
};

constexpr ComparePair kCompares[] = {
    {"==", CompareOperator::kEqual},  {"!=", CompareOperator::kNotEqual},
    {"<", CompareOperator::kLess},    {"<=", CompareOperator::kLessOrEqual},
    {">", CompareOperator::kGreater}, {">=", CompareOperator::kGreaterOrEqual},
};

int DepthOf(const ExpressionPtr& expression) {
  return expression == nullptr ? 0 : expression->depth;
}

int DepthOf(const Expression::Call* call) {
  if (call == nullptr) return 0;
  int depth =
      std::max(DepthOf(call->more_positional), DepthOf(call->more_named));
  for (const auto& one : call->positional) {
    depth = std::max(depth, DepthOf(one));
  }
  for (const auto& [name, one] : call->named) {
    depth = std::max(depth, DepthOf(one));
  }
  return depth;
}

}  // namespace

Parser::MutableExpression Parser::Make(Kind kind, int line) {
  auto out = std::make_unique<Expression>();
  out->kind = kind;
  out->line = line;
  return out;
}

absl::StatusOr<ExpressionPtr> Parser::Finish(MutableExpression expression) {
  int depth = DepthOf(expression->call.get());
  for (const auto& operand : expression->operands) {
    depth = std::max(depth, DepthOf(operand));
  }
  expression->depth = depth + 1;
  if (expression->depth > kMaxNesting) {
    return Fault(expression->line,
                 absl::StrCat("wanted expressions nested at most ", kMaxNesting,
                              " deep (kMaxNesting); found more"));
  }
  return ExpressionPtr(std::move(expression));
}

absl::StatusOr<ExpressionPtr> Parser::Operate(Kind kind, int line,
                                              ExpressionPtr operand) {
  MutableExpression out = Make(kind, line);
  out->operands.push_back(std::move(operand));
  return Finish(std::move(out));
}

bool Parser::EndsTuple(const Token& token) {
  return token.kind == Token::Kind::kVariableEnd ||
         token.kind == Token::Kind::kBlockEnd ||
         token.kind == Token::Kind::kEnd || token.IsOperator(")") ||
         token.IsName("recursive");
}

absl::StatusOr<ExpressionPtr> Parser::ParseExpression() {
  return ParseConditional();
}

absl::StatusOr<ExpressionPtr> Parser::ParseTuple(bool with_conditional) {
  const int line = token().line;
  MutableExpression tuple = Make(Kind::kTuple, line);
  bool is_tuple = false;
  while (!EndsTuple(token())) {
    ASSIGN_OR_RETURN(ExpressionPtr item,
                     with_conditional ? ParseConditional() : ParseOr());
    tuple->operands.push_back(std::move(item));
    if (!Skip(",")) break;
    is_tuple = true;
  }
  if (tuple->operands.empty()) return Unexpected("an expression");
  if (is_tuple) return Finish(std::move(tuple));
  return std::move(tuple->operands[0]);
}

absl::StatusOr<ExpressionPtr> Parser::ParseConditional() {
  const Nested nested(this);
  RETURN_IF_ERROR(nested.Check());
  const int line = token().line;
  ASSIGN_OR_RETURN(ExpressionPtr value, ParseOr());
  while (SkipName("if")) {
    MutableExpression out = Make(Kind::kConditional, line);
    ++branches_;
    ASSIGN_OR_RETURN(ExpressionPtr condition, ParseOr());
    ExpressionPtr otherwise;
    if (SkipName("else")) {
      ASSIGN_OR_RETURN(otherwise, ParseConditional());
    }
    --branches_;
    out->operands.push_back(std::move(condition));
    out->operands.push_back(std::move(value));
    out->operands.push_back(std::move(otherwise));
    ASSIGN_OR_RETURN(value, Finish(std::move(out)));
  }
  return value;
}

absl::StatusOr<ExpressionPtr> Parser::ParseOr() {
  const int line = token().line;
  ASSIGN_OR_RETURN(ExpressionPtr first, ParseAnd());
  if (!token().IsName("or")) return first;
  MutableExpression out = Make(Kind::kOr, line);
  out->operands.push_back(std::move(first));
  while (SkipName("or")) {
    ASSIGN_OR_RETURN(ExpressionPtr next, ParseAnd());
    out->operands.push_back(std::move(next));
  }
  return Finish(std::move(out));
}

absl::StatusOr<ExpressionPtr> Parser::ParseAnd() {
  const int line = token().line;
  ASSIGN_OR_RETURN(ExpressionPtr first, ParseNot());
  if (!token().IsName("and")) return first;
  MutableExpression out = Make(Kind::kAnd, line);
  out->operands.push_back(std::move(first));
  while (SkipName("and")) {
    ASSIGN_OR_RETURN(ExpressionPtr next, ParseNot());
    out->operands.push_back(std::move(next));
  }
  return Finish(std::move(out));
}

absl::StatusOr<ExpressionPtr> Parser::ParseNot() {
  if (!token().IsName("not")) return ParseCompare();
  const Nested nested(this);
  RETURN_IF_ERROR(nested.Check());
  const int line = Take().line;
  ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  return Operate(Kind::kNot, line, std::move(operand));
}

absl::StatusOr<ExpressionPtr> Parser::ParseCompare() {
  MutableExpression out = Make(Kind::kCompare, token().line);
  for (;;) {
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseSum());
    out->operands.push_back(std::move(operand));
    const ComparePair* found = nullptr;
    for (const ComparePair& one : kCompares) {
      if (token().IsOperator(one.symbol)) found = &one;
    }
    if (found != nullptr) {
      Take();
      out->compare.push_back(found->op);
    } else if (SkipName("in")) {
      out->compare.push_back(CompareOperator::kIn);
    } else if (token().IsName("not") && at_ + 1 < tokens_.size() &&
               tokens_[at_ + 1].IsName("in")) {
      Take();
      Take();
      out->compare.push_back(CompareOperator::kNotIn);
    } else {
      break;
    }
  }
  if (out->compare.empty()) return std::move(out->operands[0]);
  return Finish(std::move(out));
}

absl::StatusOr<ExpressionPtr> Parser::ParseSum() {
  MutableExpression out = Make(Kind::kArithmetic, token().line);
  for (;;) {
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseConcat());
    out->operands.push_back(std::move(operand));
    if (Skip("+")) {
      out->arithmetic.push_back(BinaryOperator::kAdd);
    } else if (Skip("-")) {
      out->arithmetic.push_back(BinaryOperator::kSubtract);
    } else {
      break;
    }
  }
  if (out->arithmetic.empty()) return std::move(out->operands[0]);
  return Finish(std::move(out));
}

absl::StatusOr<ExpressionPtr> Parser::ParseConcat() {
  MutableExpression out = Make(Kind::kConcat, token().line);
  do {
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseProduct());
    out->operands.push_back(std::move(operand));
  } while (Skip("~"));
  if (out->operands.size() == 1) return std::move(out->operands[0]);
  return Finish(std::move(out));
}

absl::StatusOr<ExpressionPtr> Parser::ParseProduct() {
  MutableExpression out = Make(Kind::kArithmetic, token().line);
  for (;;) {
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParsePower());
    out->operands.push_back(std::move(operand));
    if (Skip("*")) {
      out->arithmetic.push_back(BinaryOperator::kMultiply);
    } else if (Skip("/")) {
      out->arithmetic.push_back(BinaryOperator::kDivide);
    } else if (Skip("//")) {
      out->arithmetic.push_back(BinaryOperator::kFloorDivide);
    } else if (Skip("%")) {
      out->arithmetic.push_back(BinaryOperator::kModulo);
    } else {
      break;
    }
  }
  if (out->arithmetic.empty()) return std::move(out->operands[0]);
  return Finish(std::move(out));
}

absl::StatusOr<ExpressionPtr> Parser::ParsePower() {
  MutableExpression out = Make(Kind::kArithmetic, token().line);
  for (;;) {
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(/*with_filter=*/true));
    out->operands.push_back(std::move(operand));
    if (!Skip("**")) break;
    out->arithmetic.push_back(BinaryOperator::kPower);
  }
  if (out->arithmetic.empty()) return std::move(out->operands[0]);
  return Finish(std::move(out));
}

absl::StatusOr<ExpressionPtr> Parser::ParseUnary(bool with_filter) {
  const Nested nested(this);
  RETURN_IF_ERROR(nested.Check());
  const int line = token().line;
  ExpressionPtr expression;
  if (token().IsOperator("-") || token().IsOperator("+")) {
    const Kind kind =
        token().IsOperator("-") ? Kind::kNegative : Kind::kPositive;
    Take();
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(/*with_filter=*/false));
    ASSIGN_OR_RETURN(expression, Operate(kind, line, std::move(operand)));
  } else {
    ASSIGN_OR_RETURN(expression, ParsePrimary());
  }
  ASSIGN_OR_RETURN(expression, ParsePostfix(std::move(expression)));
  if (!with_filter) return expression;
  return ParseFilters(std::move(expression));
}

absl::StatusOr<ExpressionPtr> Parser::ParseNumber() {
  const Token number = Take();
  MutableExpression out = Make(Kind::kLiteral, number.line);
  bool fits = false;
  if (number.kind == Token::Kind::kFloat) {
    double value = 0;
    fits = absl::SimpleAtod(number.text, &value);
    out->literal = Value::Float(value);
  } else {
    const std::string& text = number.text;
    const char mark = text.size() > 1 ? text[1] : ' ';
    const int base = mark == 'x' || mark == 'X'   ? 16
                     : mark == 'o' || mark == 'O' ? 8
                     : mark == 'b' || mark == 'B' ? 2
                                                  : 10;
    int64_t value = 0;
    const std::string digits = base == 10 ? text : text.substr(2);
    const char* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, value, base);
    fits = read.ec == std::errc() && read.ptr == end;
    if (base == 10 && text.size() > 1 && text[0] == '0') {
      fits = fits && value == 0;
    }
    out->literal = Value::Int(value);
  }
  if (fits) return Finish(std::move(out));
  return Fault(number.line,
               absl::StrCat("wanted a number of at most 64 bits; found ",
                            Shown(number.text)));
}

absl::StatusOr<ExpressionPtr> Parser::ParsePrimary() {
  const int line = token().line;
  MutableExpression out = Make(Kind::kLiteral, line);
  switch (token().kind) {
    case Token::Kind::kName: {
      const std::string name = Take().text;
      if (name == "true" || name == "True") {
        out->literal = Value::Bool(true);
      } else if (name == "false" || name == "False") {
        out->literal = Value::Bool(false);
      } else if (name == "none" || name == "None") {
        out->literal = Value::None();
      } else {
        out->kind = Kind::kName;
        out->name = IdOf(name);
        if (macro_ != nullptr && name == "varargs") macro_->varargs = out->name;
        if (macro_ != nullptr && name == "kwargs") macro_->kwargs = out->name;
        if (macro_ != nullptr && name == "caller") macro_->caller = out->name;
      }
      return Finish(std::move(out));
    }
    case Token::Kind::kString: {
      std::string text;
      while (token().kind == Token::Kind::kString) text += Take().text;
      out->literal = Value::String(Text(std::move(text), /*trusted=*/true));
      return Finish(std::move(out));
    }
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      return ParseNumber();
    default:
      break;
  }
  if (Skip("(")) {
    if (Skip(")")) {
      out->kind = Kind::kTuple;
      return Finish(std::move(out));
    }
    ASSIGN_OR_RETURN(ExpressionPtr inner, ParseTuple(true));
    RETURN_IF_ERROR(Expect(")"));
    return inner;
  }
  if (token().IsOperator("[")) return ParseListLiteral();
  if (token().IsOperator("{")) return ParseDictLiteral();
  return Unexpected("an expression");
}

absl::StatusOr<ExpressionPtr> Parser::ParseListLiteral() {
  MutableExpression out = Make(Kind::kList, Take().line);
  while (!token().IsOperator("]")) {
    if (!out->operands.empty()) RETURN_IF_ERROR(Expect(","));
    if (token().IsOperator("]")) break;
    ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    out->operands.push_back(std::move(item));
  }
  RETURN_IF_ERROR(Expect("]"));
  return Finish(std::move(out));
}

absl::StatusOr<ExpressionPtr> Parser::ParseDictLiteral() {
  MutableExpression out = Make(Kind::kDict, Take().line);
  while (!token().IsOperator("}")) {
    if (!out->operands.empty()) RETURN_IF_ERROR(Expect(","));
    if (token().IsOperator("}")) break;
    ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    RETURN_IF_ERROR(Expect(":"));
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    out->operands.push_back(std::move(key));
    out->operands.push_back(std::move(value));
  }
  RETURN_IF_ERROR(Expect("}"));
  return Finish(std::move(out));
}

absl::StatusOr<ExpressionPtr> Parser::ParsePostfix(ExpressionPtr expression) {
  for (;;) {
    const int line = token().line;
    if (Skip(".")) {
      if (token().kind == Token::Kind::kInteger) {
        ASSIGN_OR_RETURN(ExpressionPtr index, ParseNumber());
        MutableExpression out = Make(Kind::kItem, line);
        out->operands.push_back(std::move(expression));
        out->operands.push_back(std::move(index));
        ASSIGN_OR_RETURN(expression, Finish(std::move(out)));
        continue;
      }
      MutableExpression out = Make(Kind::kAttribute, line);
      ASSIGN_OR_RETURN(out->word, TakeName());
      out->operands.push_back(std::move(expression));
      ASSIGN_OR_RETURN(expression, Finish(std::move(out)));
    } else if (token().IsOperator("[")) {
      ASSIGN_OR_RETURN(expression, ParseSubscript(std::move(expression)));
    } else if (token().IsOperator("(")) {
      ASSIGN_OR_RETURN(expression, ParseCall(std::move(expression)));
    } else {
      return expression;
    }
  }
}

absl::StatusOr<ExpressionPtr> Parser::ParseSubscript(ExpressionPtr object) {
  const int line = Take().line;
  ExpressionPtr parts[3];
  int part = 0;
  while (!token().IsOperator("]")) {
    if (Skip(":")) {
      if (++part > 2) return Unexpected("\"]\"");
      continue;
    }
    if (parts[part] != nullptr) return Unexpected("\"]\"");
    ASSIGN_OR_RETURN(parts[part], ParseExpression());
    if (part == 0 && token().IsOperator(",")) {  // a tuple as a key
      MutableExpression tuple = Make(Kind::kTuple, line);
      tuple->operands.push_back(std::move(parts[0]));
      while (Skip(",")) {
        ASSIGN_OR_RETURN(ExpressionPtr next, ParseExpression());
        tuple->operands.push_back(std::move(next));
      }
      ASSIGN_OR_RETURN(parts[0], Finish(std::move(tuple)));
    }
  }
  RETURN_IF_ERROR(Expect("]"));
  if (part == 0 && parts[0] == nullptr) return Unexpected("an index");
  MutableExpression out = Make(part == 0 ? Kind::kItem : Kind::kSlice, line);
  out->operands.push_back(std::move(object));
  for (int i = 0; i < (part == 0 ? 1 : 3); ++i) {
    out->operands.push_back(std::move(parts[i]));
  }
  return Finish(std::move(out));
}

absl::StatusOr<std::string> Parser::ParseDottedName() {
  ASSIGN_OR_RETURN(std::string name, TakeName());
  while (Skip(".")) {
    ASSIGN_OR_RETURN(const std::string part, TakeName());
    absl::StrAppend(&name, ".", part);
  }
  return name;
}

absl::StatusOr<ExpressionPtr> Parser::ParseFilters(ExpressionPtr expression) {
  for (;;) {
    if (token().IsOperator("|")) {
      ASSIGN_OR_RETURN(expression,
                       ParseFilterChain(std::move(expression), false));
    } else if (token().IsName("is")) {
      ASSIGN_OR_RETURN(expression, ParseTest(std::move(expression)));
    } else if (token().IsOperator("(")) {
      ASSIGN_OR_RETURN(expression, ParseCall(std::move(expression)));
    } else {
      return expression;
    }
  }
}

absl::StatusOr<ExpressionPtr> Parser::ParseFilterChain(ExpressionPtr expression,
                                                       bool starts_inline) {
  while (starts_inline || token().IsOperator("|")) {
    if (!starts_inline) Take();
    starts_inline = false;
    MutableExpression out = Make(Kind::kFilter, token().line);
    ASSIGN_OR_RETURN(out->word, ParseDottedName());
    out->function = FindFilter(out->word);
    if (out->function == nullptr && branches_ == 0) {
      return Fault(out->line,
                   absl::StrCat("unknown filter \"", Shown(out->word), "\""));
    }
    if (token().IsOperator("(")) {
      ASSIGN_OR_RETURN(out->call, ParseArguments());
    }
    out->operands.push_back(std::move(expression));
    ASSIGN_OR_RETURN(expression, Finish(std::move(out)));
  }
  return expression;
}

absl::StatusOr<ExpressionPtr> Parser::ParseTest(ExpressionPtr expression) {
  const int line = Take().line;
  const bool is_negated = SkipName("not");
  MutableExpression out = Make(Kind::kTest, line);
  ASSIGN_OR_RETURN(out->word, ParseDottedName());
  out->function = FindTest(out->word);
  if (out->function == nullptr && branches_ == 0) {
    return Fault(line, absl::StrCat("unknown test \"", Shown(out->word), "\""));
  }
  const Token& next = token();
  const bool is_operand =
      next.kind == Token::Kind::kString || next.kind == Token::Kind::kInteger ||
      next.kind == Token::Kind::kFloat || next.IsOperator("[") ||
      next.IsOperator("{") ||
      (next.kind == Token::Kind::kName && !next.IsName("else") &&
       !next.IsName("or") && !next.IsName("and") && !next.IsName("if") &&
       !next.IsName("in") && !next.IsName("not") && !next.IsName("recursive"));
  if (next.IsOperator("(")) {
    ASSIGN_OR_RETURN(out->call, ParseArguments());
  } else if (next.IsName("is")) {
    return Fault(next.line, "tests cannot be chained with \"is\"");
  } else if (is_operand) {
    auto call = std::make_unique<Expression::Call>();
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParsePrimary());
    ASSIGN_OR_RETURN(operand, ParsePostfix(std::move(operand)));
    call->positional.push_back(std::move(operand));
    out->call = std::move(call);
  }
  out->operands.push_back(std::move(expression));
  ASSIGN_OR_RETURN(ExpressionPtr test, Finish(std::move(out)));
  if (!is_negated) return test;
  return Operate(Kind::kNot, line, std::move(test));
}

absl::StatusOr<ExpressionPtr> Parser::ParseCall(ExpressionPtr function) {
  MutableExpression out = Make(Kind::kCall, token().line);
  ASSIGN_OR_RETURN(out->call, ParseArguments());
  out->operands.push_back(std::move(function));
  return Finish(std::move(out));
}

absl::StatusOr<std::unique_ptr<const Expression::Call>>
Parser::ParseArguments() {
  RETURN_IF_ERROR(Expect("("));
  auto call = std::make_unique<Expression::Call>();
  bool is_first = true;
  while (!token().IsOperator(")")) {
    if (!is_first) RETURN_IF_ERROR(Expect(","));
    is_first = false;
    if (token().IsOperator(")")) break;
    if (Skip("*")) {
      ASSIGN_OR_RETURN(call->more_positional, ParseExpression());
    } else if (Skip("**")) {
      ASSIGN_OR_RETURN(call->more_named, ParseExpression());
    } else if (token().kind == Token::Kind::kName && at_ + 1 < tokens_.size() &&
               tokens_[at_ + 1].IsOperator("=")) {
      std::string name = Take().text;
      Take();
      ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      call->named.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call->named.empty()) {
        return Fault(token().line,
                     "a positional argument follows a keyword one");
      }
      ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      call->positional.push_back(std::move(value));
    }
  }
  RETURN_IF_ERROR(Expect(")"));
  return std::unique_ptr<const Expression::Call>(std::move(call));
}

}  // namespace kvasir::jinja

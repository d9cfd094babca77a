#ifndef KVASIR_ENGINE_TEMPLATE_PARSER_H_
#define KVASIR_ENGINE_TEMPLATE_PARSER_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "engine/template/ast.h"
#include "engine/template/token.h"

namespace kvasir::jinja {

// Turns tokens into a tree, by recursive descent as deep as kMaxNesting. Every
// error is INVALID_ARGUMENT with the line, see Fault(). One template each; one
// thread.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  absl::StatusOr<std::shared_ptr<const ParsedTemplate>> Parse();

 private:
  // Where a list of statements ends: at a tag of one of these names, which is
  // then the current token.
  using EndTags = std::initializer_list<std::string_view>;
  using MutableExpression = std::unique_ptr<Expression>;

  const Token& token() const { return tokens_[at_]; }
  Token Take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool Skip(std::string_view op);
  bool SkipName(std::string_view name);
  absl::Status Expect(std::string_view op);
  absl::Status ExpectName(std::string_view name);
  absl::StatusOr<std::string> TakeName();
  absl::Status ExpectBlockEnd();
  absl::Status Unexpected(std::string_view wanted) const;
  NameId IdOf(const std::string& name);

  // statement_parser.cc
  absl::StatusOr<Block> ParseBlock(EndTags ends, std::string_view opener,
                                   int opened_at);
  absl::StatusOr<std::unique_ptr<Statement>> ParseStatement();
  absl::Status ParseOutput(Block& block);
  absl::Status ParseIf(Statement& statement);
  absl::Status ParseFor(Statement& statement);
  absl::Status ParseSet(Statement& statement);
  absl::Status ParseMacro(Statement& statement);
  absl::Status ParseCallBlock(Statement& statement);
  absl::Status ParseFilterBlock(Statement& statement);
  absl::Status ParseWith(Statement& statement);
  absl::Status ParseGeneration(Statement& statement);
  absl::Status ParseLoopControl(Statement& statement);
  absl::Status ParseParameters(MacroBody& macro);
  absl::Status ParseMacroBody(std::string_view end, int line, MacroBody& macro);
  // Through the end tag of a block whose first tag is read up to its end.
  absl::StatusOr<Block> ParseBody(std::string_view end, int line);
  absl::StatusOr<Target> ParseTarget(bool with_namespace);
  absl::StatusOr<Target> ParseOneTarget(bool with_namespace);

  // expression_parser.cc
  absl::StatusOr<ExpressionPtr> ParseExpression();  // with a conditional
  absl::StatusOr<ExpressionPtr> ParseTuple(bool with_conditional);
  absl::StatusOr<ExpressionPtr> ParseConditional();
  absl::StatusOr<ExpressionPtr> ParseOr();
  absl::StatusOr<ExpressionPtr> ParseAnd();
  absl::StatusOr<ExpressionPtr> ParseNot();
  absl::StatusOr<ExpressionPtr> ParseCompare();
  absl::StatusOr<ExpressionPtr> ParseSum();
  absl::StatusOr<ExpressionPtr> ParseConcat();
  absl::StatusOr<ExpressionPtr> ParseProduct();
  absl::StatusOr<ExpressionPtr> ParsePower();
  absl::StatusOr<ExpressionPtr> ParseUnary(bool with_filter);
  absl::StatusOr<ExpressionPtr> ParsePrimary();
  absl::StatusOr<ExpressionPtr> ParseNumber();
  absl::StatusOr<ExpressionPtr> ParseListLiteral();
  absl::StatusOr<ExpressionPtr> ParseDictLiteral();
  absl::StatusOr<ExpressionPtr> ParsePostfix(ExpressionPtr expression);
  absl::StatusOr<ExpressionPtr> ParseSubscript(ExpressionPtr object);
  absl::StatusOr<ExpressionPtr> ParseFilters(ExpressionPtr expression);
  absl::StatusOr<ExpressionPtr> ParseFilterChain(ExpressionPtr expression,
                                                 bool starts_inline);
  absl::StatusOr<ExpressionPtr> ParseTest(ExpressionPtr expression);
  absl::StatusOr<ExpressionPtr> ParseCall(ExpressionPtr function);
  absl::StatusOr<std::unique_ptr<const Expression::Call>> ParseArguments();
  absl::StatusOr<std::string> ParseDottedName();

  // Sets the line and the depth, and checks the latter.
  static MutableExpression Make(Expression::Kind kind, int line);
  static absl::StatusOr<ExpressionPtr> Finish(MutableExpression expression);
  static absl::StatusOr<ExpressionPtr> Operate(Expression::Kind kind, int line,
                                               ExpressionPtr operand);
  static bool EndsTuple(const Token& token);

  // Counts how deep the descent is, for as long as it lives.
  class Nested {
   public:
    explicit Nested(Parser* parser) : parser_(parser) { ++parser_->nesting_; }
    ~Nested() { --parser_->nesting_; }
    absl::Status Check() const;

   private:
    Parser* parser_;
  };

  std::vector<Token> tokens_;  // the last is kEnd
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;     // around the current statement, inside of its macro
  int branches_ = 0;  // that may not be taken, around the current expression
  MacroBody* macro_ = nullptr;  // around the current expression
  absl::flat_hash_map<std::string, NameId> ids_;
  std::vector<std::string> names_;
};

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_PARSER_H_

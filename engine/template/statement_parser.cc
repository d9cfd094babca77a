#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/limits.h"
#include "engine/template/parser.h"

namespace kvasir::jinja {

using Kind = Token::Kind;

absl::Status Parser::Nested::Check() const {
  if (parser_->nesting_ <= kMaxNesting) return absl::OkStatus();
  return Fault(parser_->token().line,
               absl::StrCat("wanted blocks and expressions nested at most ",
                            kMaxNesting, " deep (kMaxNesting); found more"));
}

bool Parser::Skip(std::string_view op) {
  if (!token().IsOperator(op)) return false;
  Take();
  return true;
}

bool Parser::SkipName(std::string_view name) {
  if (!token().IsName(name)) return false;
  Take();
  return true;
}

absl::Status Parser::Expect(std::string_view op) {
  if (Skip(op)) return absl::OkStatus();
  return Unexpected(absl::StrCat("\"", View(op), "\""));
}

absl::Status Parser::ExpectName(std::string_view name) {
  if (SkipName(name)) return absl::OkStatus();
  return Unexpected(absl::StrCat("\"", View(name), "\""));
}

absl::StatusOr<std::string> Parser::TakeName() {
  if (token().kind != Kind::kName) return Unexpected("a name");
  return Take().text;
}

absl::Status Parser::ExpectBlockEnd() {
  if (token().kind != Kind::kBlockEnd) return Unexpected("the end of the tag");
  Take();
  return absl::OkStatus();
}

absl::Status Parser::Unexpected(std::string_view wanted) const {
  std::string found;
  switch (token().kind) {
    case Kind::kEnd:
      found = "the end of the template";
      break;
    case Kind::kBlockEnd:
    case Kind::kVariableEnd:
      found = "the end of the tag";
      break;
    default:
      found = absl::StrCat("\"", Shown(token().text), "\"");
  }
  return Fault(token().line,
               absl::StrCat("wanted ", View(wanted), "; found ", found));
}

NameId Parser::IdOf(const std::string& name) {
  const auto [place, is_new] =
      ids_.try_emplace(name, static_cast<NameId>(names_.size()));
  if (is_new) names_.push_back(name);
  return place->second;
}

absl::StatusOr<std::shared_ptr<const ParsedTemplate>> Parser::Parse() {
  auto out = std::make_shared<ParsedTemplate>();
  ASSIGN_OR_RETURN(out->body, ParseBlock({}, "", 0));
  out->names = std::move(names_);
  return std::shared_ptr<const ParsedTemplate>(std::move(out));
}

absl::StatusOr<Block> Parser::ParseBlock(EndTags ends, std::string_view opener,
                                         int opened_at) {
  const Nested nested(this);
  RETURN_IF_ERROR(nested.Check());
  Block block;
  for (;;) {
    switch (token().kind) {
      case Kind::kData: {
        auto text = std::make_unique<Statement>();
        text->kind = Statement::Kind::kText;
        text->line = token().line;
        text->text = Value::String(Text(Take().text, /*trusted=*/true));
        block.push_back(std::move(text));
        break;
      }
      case Kind::kVariableBegin:
        RETURN_IF_ERROR(ParseOutput(block));
        break;
      case Kind::kBlockBegin: {
        Take();
        const Token& tag = token();
        if (tag.kind == Kind::kName &&
            std::find(ends.begin(), ends.end(), tag.text) != ends.end()) {
          return block;
        }
        ASSIGN_OR_RETURN(std::unique_ptr<Statement> statement,
                         ParseStatement());
        block.push_back(std::move(statement));
        break;
      }
      default:
        if (ends.size() == 0) return block;
        return Fault(opened_at,
                     absl::StrCat("tag \"", View(opener), "\" without its \"",
                                  View(*(ends.end() - 1)), "\""));
    }
  }
}

absl::Status Parser::ParseOutput(Block& block) {
  auto output = std::make_unique<Statement>();
  output->kind = Statement::Kind::kOutput;
  output->line = Take().line;
  ASSIGN_OR_RETURN(output->expression, ParseTuple(/*with_conditional=*/true));
  if (token().kind != Kind::kVariableEnd) return Unexpected("\"}}\"");
  Take();
  block.push_back(std::move(output));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Statement>> Parser::ParseStatement() {
  const Token tag = token();
  if (tag.kind != Kind::kName) return Unexpected("the name of a tag");
  struct Tag {
    std::string_view name;
    absl::Status (Parser::*parse)(Statement&);
  };
  static constexpr Tag kTags[] = {
      {"if", &Parser::ParseIf},
      {"for", &Parser::ParseFor},
      {"set", &Parser::ParseSet},
      {"macro", &Parser::ParseMacro},
      {"call", &Parser::ParseCallBlock},
      {"filter", &Parser::ParseFilterBlock},
      {"with", &Parser::ParseWith},
      {"generation", &Parser::ParseGeneration},
      {"break", &Parser::ParseLoopControl},
      {"continue", &Parser::ParseLoopControl},
  };
  for (const Tag& known : kTags) {
    if (tag.text != known.name) continue;
    auto statement = std::make_unique<Statement>();
    statement->line = tag.line;
    Take();
    RETURN_IF_ERROR((this->*known.parse)(*statement));
    return statement;
  }
  return Fault(tag.line, absl::StrCat("unknown tag \"", Shown(tag.text), "\""));
}

absl::StatusOr<Block> Parser::ParseBody(std::string_view end, int line) {
  RETURN_IF_ERROR(ExpectBlockEnd());
  ASSIGN_OR_RETURN(Block body, ParseBlock({end}, end.substr(3), line));
  Take();
  RETURN_IF_ERROR(ExpectBlockEnd());
  return body;
}

absl::Status Parser::ParseIf(Statement& statement) {
  statement.kind = Statement::Kind::kIf;
  ++branches_;
  for (;;) {
    Statement::Branch branch;
    ASSIGN_OR_RETURN(branch.condition, ParseTuple(/*with_conditional=*/false));
    RETURN_IF_ERROR(ExpectBlockEnd());
    ASSIGN_OR_RETURN(branch.body, ParseBlock({"elif", "else", "endif"}, "if",
                                             statement.line));
    statement.branches.push_back(std::move(branch));
    if (!SkipName("elif")) break;
  }
  if (SkipName("else")) {
    RETURN_IF_ERROR(ExpectBlockEnd());
    ASSIGN_OR_RETURN(statement.otherwise,
                     ParseBlock({"endif"}, "if", statement.line));
  }
  --branches_;
  RETURN_IF_ERROR(ExpectName("endif"));
  return ExpectBlockEnd();
}

absl::Status Parser::ParseFor(Statement& statement) {
  statement.kind = Statement::Kind::kFor;
  statement.loop = IdOf("loop");
  ASSIGN_OR_RETURN(statement.target, ParseTarget(/*with_namespace=*/false));
  RETURN_IF_ERROR(ExpectName("in"));
  ASSIGN_OR_RETURN(statement.expression,
                   ParseTuple(/*with_conditional=*/false));
  if (SkipName("if")) {
    ASSIGN_OR_RETURN(statement.filter, ParseExpression());
  }
  statement.recursive = SkipName("recursive");
  RETURN_IF_ERROR(ExpectBlockEnd());
  ++loops_;
  ASSIGN_OR_RETURN(statement.body,
                   ParseBlock({"else", "endfor"}, "for", statement.line));
  --loops_;
  if (SkipName("else")) {
    RETURN_IF_ERROR(ExpectBlockEnd());
    ASSIGN_OR_RETURN(statement.otherwise,
                     ParseBlock({"endfor"}, "for", statement.line));
  }
  RETURN_IF_ERROR(ExpectName("endfor"));
  return ExpectBlockEnd();
}

absl::Status Parser::ParseSet(Statement& statement) {
  ASSIGN_OR_RETURN(statement.target, ParseTarget(/*with_namespace=*/true));
  if (Skip("=")) {
    statement.kind = Statement::Kind::kSet;
    ASSIGN_OR_RETURN(statement.expression,
                     ParseTuple(/*with_conditional=*/true));
    return ExpectBlockEnd();
  }
  statement.kind = Statement::Kind::kSetBlock;
  if (token().IsOperator("|")) {
    ASSIGN_OR_RETURN(statement.expression,
                     ParseFilterChain(nullptr, /*starts_inline=*/false));
  }
  ASSIGN_OR_RETURN(statement.body, ParseBody("endset", statement.line));
  return absl::OkStatus();
}

absl::Status Parser::ParseParameters(MacroBody& macro) {
  RETURN_IF_ERROR(Expect("("));
  while (!token().IsOperator(")")) {
    if (!macro.parameters.empty()) RETURN_IF_ERROR(Expect(","));
    Parameter parameter;
    ASSIGN_OR_RETURN(parameter.word, TakeName());
    parameter.name = IdOf(parameter.word);
    if (Skip("=")) {
      ASSIGN_OR_RETURN(parameter.otherwise, ParseExpression());
    } else if (!macro.parameters.empty() &&
               macro.parameters.back().otherwise != nullptr) {
      return Fault(token().line,
                   "a parameter without a default follows one with a default");
    }
    macro.parameters.push_back(std::move(parameter));
  }
  return Expect(")");
}

absl::Status Parser::ParseMacroBody(std::string_view end, int line,
                                    MacroBody& macro) {
  // No loop reaches into a macro.
  const int loops = std::exchange(loops_, 0);
  MacroBody* const outer = std::exchange(macro_, &macro);
  absl::StatusOr<Block> body = ParseBody(end, line);
  loops_ = loops;
  macro_ = outer;
  RETURN_IF_ERROR(body.status());
  macro.body = *std::move(body);
  return absl::OkStatus();
}

absl::Status Parser::ParseMacro(Statement& statement) {
  statement.kind = Statement::Kind::kMacro;
  auto macro = std::make_unique<MacroBody>();
  ASSIGN_OR_RETURN(macro->name, TakeName());
  statement.name = IdOf(macro->name);
  RETURN_IF_ERROR(ParseParameters(*macro));
  RETURN_IF_ERROR(ParseMacroBody("endmacro", statement.line, *macro));
  statement.macro = std::move(macro);
  return absl::OkStatus();
}

absl::Status Parser::ParseCallBlock(Statement& statement) {
  statement.kind = Statement::Kind::kCallBlock;
  auto macro = std::make_unique<MacroBody>();
  macro->name = "caller";
  if (token().IsOperator("(")) RETURN_IF_ERROR(ParseParameters(*macro));
  ASSIGN_OR_RETURN(statement.expression, ParseExpression());
  if (statement.expression->kind != Expression::Kind::kCall) {
    return Fault(statement.line, "tag \"call\" wants a call");
  }
  RETURN_IF_ERROR(ParseMacroBody("endcall", statement.line, *macro));
  statement.macro = std::move(macro);
  return absl::OkStatus();
}

absl::Status Parser::ParseFilterBlock(Statement& statement) {
  statement.kind = Statement::Kind::kFilterBlock;
  ASSIGN_OR_RETURN(statement.expression,
                   ParseFilterChain(nullptr, /*starts_inline=*/true));
  ASSIGN_OR_RETURN(statement.body, ParseBody("endfilter", statement.line));
  return absl::OkStatus();
}

absl::Status Parser::ParseWith(Statement& statement) {
  statement.kind = Statement::Kind::kWith;
  while (token().kind != Kind::kBlockEnd) {
    if (!statement.settings.empty()) RETURN_IF_ERROR(Expect(","));
    ASSIGN_OR_RETURN(Target target, ParseOneTarget(/*with_namespace=*/false));
    RETURN_IF_ERROR(Expect("="));
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    statement.settings.emplace_back(std::move(target), std::move(value));
  }
  ASSIGN_OR_RETURN(statement.body, ParseBody("endwith", statement.line));
  return absl::OkStatus();
}

// Marks what the model said, for training; prints its body.
absl::Status Parser::ParseGeneration(Statement& statement) {
  statement.kind = Statement::Kind::kWith;
  ASSIGN_OR_RETURN(statement.body, ParseBody("endgeneration", statement.line));
  return absl::OkStatus();
}

absl::Status Parser::ParseLoopControl(Statement& statement) {
  const std::string& name = tokens_[at_ - 1].text;
  statement.kind =
      name == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
  if (loops_ == 0) {
    return Fault(statement.line,
                 absl::StrCat("tag \"", name, "\" outside of a loop"));
  }
  return ExpectBlockEnd();
}

absl::StatusOr<Target> Parser::ParseOneTarget(bool with_namespace) {
  const Nested nested(this);
  RETURN_IF_ERROR(nested.Check());
  if (Skip("(")) {
    ASSIGN_OR_RETURN(Target target, ParseTarget(/*with_namespace=*/false));
    RETURN_IF_ERROR(Expect(")"));
    return target;
  }
  Target target;
  const int line = token().line;
  ASSIGN_OR_RETURN(const std::string name, TakeName());
  static constexpr std::string_view kConstants[] = {"true", "false", "none",
                                                    "True", "False", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), name) !=
      std::end(kConstants)) {
    return Fault(line, absl::StrCat("cannot assign to \"", name, "\""));
  }
  target.name = IdOf(name);
  if (with_namespace && Skip(".")) {
    ASSIGN_OR_RETURN(target.attribute, TakeName());
  }
  return target;
}

absl::StatusOr<Target> Parser::ParseTarget(bool with_namespace) {
  ASSIGN_OR_RETURN(Target first, ParseOneTarget(with_namespace));
  if (!token().IsOperator(",")) return first;
  Target tuple;
  tuple.parts.push_back(std::move(first));
  while (Skip(",")) {
    if (token().kind != Kind::kName && !token().IsOperator("(")) break;
    if (token().IsName("in")) break;
    ASSIGN_OR_RETURN(Target next, ParseOneTarget(with_namespace));
    tuple.parts.push_back(std::move(next));
  }
  return tuple;
}

}  // namespace kvasir::jinja

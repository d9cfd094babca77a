#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"
#include "engine/template/runtime.h"
#include "engine/template/string_literal.h"
#include "engine/template/token.h"

namespace kvasir::jinja {
namespace {

using Kind = Token::Kind;

// With \n for each line end and without the last one.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

// Longer ones first.
constexpr std::string_view kOperators[] = {
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";",
};

bool IsNameByte(char c) {
  return absl::ascii_isalnum(c) || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  absl::StatusOr<std::vector<Token>> Run();

 private:
  std::string_view rest() const {
    return std::string_view(source_).substr(at_);
  }
  bool StartsWith(std::string_view what) const {
    return rest().substr(0, what.size()) == what;
  }
  void Move(size_t bytes);
  void SkipBlanks();
  void Push(Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  // Text up to `tag`, where a tag of the kind `kind` starts whose opening is
  // followed by `sign`.
  void PushText(size_t tag, char kind, char sign);
  // Moves over what a closing takes with it.
  void AfterClosing(bool strips, bool trims);
  bool AtRaw() const;
  absl::Status ReadComment();
  absl::Status ReadRaw();
  absl::Status ReadTag(bool is_block);
  // True: the tag is closed.
  absl::StatusOr<bool> ReadClosing(bool is_block);
  absl::Status ReadToken();
  absl::Status ReadNumber();
  absl::Status ReadOperator();
  absl::Status ReadString();

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // nothing printed stands before on this line
  std::string brackets_;       // that are open in a tag
  std::vector<Token> tokens_;
};

void Lexer::Move(size_t bytes) {
  const std::string_view passed = rest().substr(0, bytes);
  line_ += static_cast<int>(std::count(passed.begin(), passed.end(), '\n'));
  if (!passed.empty()) line_starting_ = passed.back() == '\n';
  at_ += passed.size();
}

void Lexer::SkipBlanks() {
  while (at_ < source_.size()) {
    const Character c = CharacterAt(source_, at_);
    if (!IsSpace(c.code)) break;
    Move(c.bytes);
  }
}

void Lexer::PushText(size_t tag, char kind, char sign) {
  std::string_view text = rest().substr(0, tag - at_);
  const size_t passed = text.size();
  if (sign == '-') {
    size_t end = 0;
    for (size_t i = 0; i < text.size();) {
      const Character c = CharacterAt(text, i);
      i += c.bytes;
      if (!IsSpace(c.code)) end = i;
    }
    text = text.substr(0, end);
  } else if (sign != '+' && kind != '{') {
    const size_t line = text.rfind('\n') + 1;  // 0 if there is none
    bool is_blank = line < text.size() && (line > 0 || line_starting_);
    for (size_t i = line; is_blank && i < text.size();) {
      const Character c = CharacterAt(text, i);
      is_blank = IsSpace(c.code);
      i += c.bytes;
    }
    if (is_blank) text = text.substr(0, line);
  }
  if (!text.empty()) Push(Kind::kData, std::string(text));
  Move(passed);
}

void Lexer::AfterClosing(bool strips, bool trims) {
  if (strips) {
    SkipBlanks();
  } else if (trims && StartsWith("\n")) {
    Move(1);
  }
}

bool Lexer::AtRaw() const {
  std::string_view tag = rest().substr(2);
  if (!tag.empty() && (tag[0] == '-' || tag[0] == '+')) tag.remove_prefix(1);
  while (!tag.empty() && absl::ascii_isspace(tag[0])) tag.remove_prefix(1);
  if (tag.substr(0, 3) != "raw") return false;
  tag.remove_prefix(3);
  while (!tag.empty() && absl::ascii_isspace(tag[0])) tag.remove_prefix(1);
  return tag.substr(0, 2) == "%}" || tag.substr(0, 3) == "-%}";
}

absl::Status Lexer::ReadComment() {
  const size_t end = source_.find("#}", at_ + 2);
  if (end == std::string::npos) {
    return Fault(line_, "a comment that never ends");
  }
  const char sign = end > at_ + 2 ? source_[end - 1] : ' ';
  Move(end + 2 - at_);
  AfterClosing(sign == '-', sign != '+');
  return absl::OkStatus();
}

absl::Status Lexer::ReadRaw() {
  const int line = line_;
  const size_t opening = source_.find("%}", at_);
  const bool strips = source_[opening - 1] == '-';
  Move(opening + 2 - at_);
  AfterClosing(strips, /*trims=*/false);
  for (size_t tag = at_;;) {
    tag = source_.find("{%", tag);
    if (tag == std::string::npos) {
      return Fault(line, "tag \"raw\" without its \"endraw\"");
    }
    size_t i = tag + 2;
    const char sign = i < source_.size() ? source_[i] : ' ';
    if (sign == '-' || sign == '+') ++i;
    while (i < source_.size() && absl::ascii_isspace(source_[i])) ++i;
    constexpr std::string_view kName = "endraw";
    if (source_.compare(i, kName.size(), kName) != 0) {
      tag += 2;
      continue;
    }
    i += kName.size();
    while (i < source_.size() && absl::ascii_isspace(source_[i])) ++i;
    const char closing = i < source_.size() ? source_[i] : ' ';
    if (closing == '-' || closing == '+') ++i;
    if (source_.compare(i, 2, "%}") != 0) {
      tag += 2;
      continue;
    }
    PushText(tag, '%', sign);
    Move(i + 2 - at_);
    AfterClosing(closing == '-', closing != '+');
    return absl::OkStatus();
  }
}

absl::StatusOr<bool> Lexer::ReadClosing(bool is_block) {
  if (!brackets_.empty()) return false;
  const std::string_view close = is_block ? "%}" : "}}";
  const bool signs = StartsWith("-") || (is_block && StartsWith("+"));
  const char sign = signs ? rest()[0] : ' ';
  if (rest().substr(signs ? 1 : 0, 2) != close) return false;
  Push(is_block ? Kind::kBlockEnd : Kind::kVariableEnd, "");
  Move(signs ? 3 : 2);
  AfterClosing(sign == '-', is_block && sign != '+');
  return true;
}

absl::Status Lexer::ReadString() {
  const char quote = rest()[0];
  size_t end = at_ + 1;
  while (end < source_.size() && source_[end] != quote) {
    end += source_[end] == '\\' ? 2 : 1;
  }
  if (end >= source_.size()) return Fault(line_, "a string that never ends");
  const auto text =
      Unescape(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
  if (!text.ok()) {
    const absl::string_view why = text.status().message();
    return Fault(line_, std::string_view(why.data(), why.size()));
  }
  Push(Kind::kString, *text);
  Move(end + 1 - at_);
  return absl::OkStatus();
}

absl::Status Lexer::ReadNumber() {
  const std::string_view all = rest();
  const auto digits = [&](size_t from) {
    size_t i = from;
    while (i < all.size() &&
           (absl::ascii_isdigit(all[i]) ||
            (all[i] == '_' && i > from && i + 1 < all.size() &&
             absl::ascii_isdigit(all[i + 1])))) {
      ++i;
    }
    return i;
  };
  Kind kind = Kind::kInteger;
  size_t end = digits(0);
  const bool prefixed =
      all[0] == '0' && end == 1 && all.size() > 1 &&
      std::string_view("xXoObB").find(all[1]) != std::string_view::npos;
  if (prefixed) {
    end = 2;
    while (end < all.size() &&
           (absl::ascii_isxdigit(all[end]) || all[end] == '_')) {
      ++end;
    }
  } else {
    // `x.0.1` is an item of an item.
    const bool after_dot = !tokens_.empty() && tokens_.back().IsOperator(".");
    if (!after_dot && end < all.size() && all[end] == '.') {
      const size_t behind = digits(end + 1);
      if (behind > end + 1) {
        kind = Kind::kFloat;
        end = behind;
      }
    }
    if (!after_dot && end < all.size() &&
        (all[end] == 'e' || all[end] == 'E')) {
      size_t from = end + 1;
      if (from < all.size() && (all[from] == '+' || all[from] == '-')) ++from;
      const size_t behind = digits(from);
      if (behind > from) {
        kind = Kind::kFloat;
        end = behind;
      }
    }
  }
  std::string text(all.substr(0, end));
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  Push(kind, std::move(text));
  Move(end);
  return absl::OkStatus();
}

absl::Status Lexer::ReadOperator() {
  for (const std::string_view op : kOperators) {
    if (!StartsWith(op)) continue;
    if (op == "(" || op == "[" || op == "{") {
      brackets_.push_back(op == "(" ? ')' : op == "[" ? ']' : '}');
    } else if (op == ")" || op == "]" || op == "}") {
      if (brackets_.empty() || brackets_.back() != op[0]) {
        return Fault(line_, absl::StrCat("unexpected \"", View(op), "\""));
      }
      brackets_.pop_back();
    }
    Push(Kind::kOperator, std::string(op));
    Move(op.size());
    return absl::OkStatus();
  }
  const size_t bytes = CharacterAt(source_, at_).bytes;
  return Fault(line_, absl::StrCat("unexpected character \"",
                                   View(rest().substr(0, bytes)), "\""));
}

absl::Status Lexer::ReadToken() {
  const char c = rest()[0];
  if (c == '\'' || c == '"') return ReadString();
  if (absl::ascii_isdigit(c)) return ReadNumber();
  if (!IsNameByte(c)) return ReadOperator();
  size_t end = 1;
  while (end < rest().size() && IsNameByte(rest()[end])) ++end;
  Push(Kind::kName, std::string(rest().substr(0, end)));
  Move(end);
  return absl::OkStatus();
}

absl::Status Lexer::ReadTag(bool is_block) {
  const int line = line_;
  Push(is_block ? Kind::kBlockBegin : Kind::kVariableBegin, "");
  Move(2);
  if (StartsWith("-") || StartsWith("+")) Move(1);
  brackets_.clear();
  for (;;) {
    SkipBlanks();
    if (at_ == source_.size()) return Fault(line, "a tag that never ends");
    ASSIGN_OR_RETURN(const bool closed, ReadClosing(is_block));
    if (closed) return absl::OkStatus();
    RETURN_IF_ERROR(ReadToken());
  }
}

absl::StatusOr<std::vector<Token>> Lexer::Run() {
  while (at_ < source_.size()) {
    size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 == source_.size()) {
        tag = source_.size();
        break;
      }
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    if (tag == source_.size()) {
      if (at_ < tag) Push(Kind::kData, std::string(rest()));
      Move(tag - at_);
      break;
    }
    const char kind = source_[tag + 1];
    PushText(tag, kind, tag + 2 < source_.size() ? source_[tag + 2] : ' ');
    if (kind == '#') {
      RETURN_IF_ERROR(ReadComment());
    } else if (kind == '%' && AtRaw()) {
      RETURN_IF_ERROR(ReadRaw());
    } else {
      RETURN_IF_ERROR(ReadTag(kind == '%'));
    }
  }
  Push(Kind::kEnd, "");
  return std::move(tokens_);
}

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(NormalizeLines(source)).Run();
}

absl::Status Fault(int line, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("chat template, line ", line, ": ", View(what)));
}

}  // namespace kvasir::jinja

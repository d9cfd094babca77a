#include "engine/model/chat_ml_template.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

constexpr absl::string_view kSystemStart = "<|im_start|>system\n";
constexpr absl::string_view kMessageEnd = "<|im_end|>\n";

absl::Status NotChatMl(absl::string_view found) {
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.chat_template: wanted a ChatML template (others "
                   "are not interpreted); found ",
                   found));
}

// A tag of a template: {{ printed }}, {% statement %} or {# comment #}.
struct Tag {
  size_t begin;
  size_t end;
  char kind;           // '{', '%' or '#'
  bool strips_before;  // opens with a minus
  bool strips_after;   // closes with one
  absl::string_view body;
};

// The first tag at or after `from`; its kind is 0 if there is none.
absl::StatusOr<Tag> FindTag(absl::string_view source, size_t from) {
  size_t begin = from;
  do {
    begin = source.find('{', begin);
    if (begin == absl::string_view::npos || begin + 1 == source.size()) {
      return Tag{source.size(), source.size(), 0, false, false, ""};
    }
    ++begin;
  } while (!absl::StrContains("{%#", source.substr(begin, 1)));
  const char kind = source[begin];
  const char close = kind == '{' ? '}' : kind;
  char quote = 0;
  for (size_t i = begin + 1; i + 1 < source.size(); ++i) {
    const char c = source[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (kind != '#' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == close && source[i + 1] == '}') {
      absl::string_view body = source.substr(begin + 1, i - begin - 1);
      const bool before = absl::ConsumePrefix(&body, "-");
      const bool after = absl::ConsumeSuffix(&body, "-");
      return Tag{begin - 1, i + 2, kind, before, after, body};
    }
  }
  return NotChatMl(absl::StrCat("a tag that never ends, at byte ", begin - 1));
}

// What Jinja prints of the text between two tags.
absl::string_view Printed(absl::string_view text, const Tag& previous,
                          const Tag& next) {
  bool starts_line = previous.kind == 0;
  if (previous.strips_after) {
    text = absl::StripLeadingAsciiWhitespace(text);
  } else if (previous.kind == '%' || previous.kind == '#') {
    starts_line = absl::ConsumePrefix(&text, "\n");  // trim_blocks
  }
  if (next.kind == 0) {
    absl::ConsumeSuffix(&text, "\n");
  } else if (next.strips_before) {
    text = absl::StripTrailingAsciiWhitespace(text);
  } else if (next.kind != '{') {                          // lstrip_blocks
    const size_t end = text.find_last_not_of(" \t") + 1;  // 0 if all blank
    if (end == 0 ? starts_line : text[end - 1] == '\n') {
      text = text.substr(0, end);
    }
  }
  return text;
}

// A piece of a tag's body: a string literal without its quotes and escapes, or
// the code between two of them without its blanks.
struct Part {
  bool is_literal;
  std::string text;
};

char Unescape(char escaped) {
  switch (escaped) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    default:
      return escaped;
  }
}

// Appends literals and code in turn, beginning and ending with code. Literals
// that are joined by a plus become one; message['role'] becomes message.role.
void AppendParts(absl::string_view body, std::vector<Part>& parts) {
  parts.push_back({false, ""});
  const size_t first = parts.size();
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\'' && body[i] != '"') {
      if (!absl::ascii_isspace(body[i])) parts.back().text.push_back(body[i]);
      continue;
    }
    const char quote = body[i];
    std::string literal;
    for (++i; i < body.size() && body[i] != quote; ++i) {
      const bool is_escape = body[i] == '\\' && i + 1 < body.size();
      literal.push_back(is_escape ? Unescape(body[++i]) : body[i]);
    }
    std::string& code = parts.back().text;
    if (absl::EndsWith(code, "[") &&
        absl::StartsWith(body.substr(i + 1), "]")) {
      code.back() = '.';
      code.append(literal);
      ++i;
    } else if (code == "+" && parts.size() > first) {
      parts[parts.size() - 2].text.append(literal);
      code.clear();
    } else {
      parts.push_back({true, std::move(literal)});
      parts.push_back({false, ""});
    }
  }
}

absl::StatusOr<std::vector<Part>> SplitTemplate(absl::string_view source) {
  std::vector<Part> parts;
  Tag previous{0, 0, 0, false, false, ""};
  while (previous.end < source.size()) {
    ASSIGN_OR_RETURN(const Tag next, FindTag(source, previous.end));
    const absl::string_view text = Printed(
        source.substr(previous.end, next.begin - previous.end), previous, next);
    if (!text.empty()) {
      return NotChatMl(absl::StrCat("text outside of tags: ",
                                    QuoteText({text.data(), text.size()})));
    }
    if (next.kind == '{' || next.kind == '%') AppendParts(next.body, parts);
    previous = next;
  }
  return parts;
}

bool PrintsMessages(const std::vector<Part>& parts) {
  for (size_t i = 1; i + 4 < parts.size(); ++i) {
    const std::string& content = parts[i + 3].text;
    if (parts[i].is_literal && absl::EndsWith(parts[i].text, "<|im_start|>") &&
        parts[i + 1].text == "+message.role+" && parts[i + 2].text == "\n" &&
        (content == "+message.content+" || content == "+content+") &&
        parts[i + 4].text == kMessageEnd) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<ChatMlTemplate> ReadChatMlTemplate(std::string_view source) {
  ASSIGN_OR_RETURN(const std::vector<Part> parts,
                   SplitTemplate({source.data(), source.size()}));
  ChatMlTemplate out;
  bool opens_answer = false;
  bool asks_for_system = false;
  for (const Part& part : parts) {
    absl::string_view text = part.text;
    if (!part.is_literal) {
      out.prints_bos |= absl::StrContains(text, "bos_token");
      asks_for_system |= absl::StrContains(text, "messages[0].role");
      continue;
    }
    opens_answer |= text == "<|im_start|>assistant\n";
    if (!absl::ConsumePrefix(&text, kSystemStart) ||
        !absl::ConsumeSuffix(&text, kMessageEnd) || text.empty()) {
      continue;
    }
    if (!out.default_system.empty() && text != out.default_system) {
      return NotChatMl("two default system messages");
    }
    out.default_system = std::string(text);
  }
  if (!PrintsMessages(parts)) return NotChatMl("no ChatML message");
  if (!opens_answer) return NotChatMl("no opening of an answer in ChatML");
  if (!out.default_system.empty() && !asks_for_system) {
    return NotChatMl("a system message that does not depend on messages[0]");
  }
  return out;
}

}  // namespace kvasir

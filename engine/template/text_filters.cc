// Filters of text. What is no text is taken as str() gives it.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"
#include "engine/template/filters.h"
#include "engine/template/methods.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"
#include "engine/template/string_format.h"
#include "engine/template/text_functions.h"

namespace kvasir::jinja {
namespace {

// A text as it is, also as markup.
absl::StatusOr<Text> SoftStr(Runtime& runtime, const Value& value) {
  ASSIGN_OR_RETURN(Text text, Str(runtime, value));
  text.set_markup(value.is_string() && value.AsText().is_markup());
  return text;
}

template <Case kHow>
absl::StatusOr<Value> CaseFilter(Runtime& runtime, const Value& self,
                                 const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(Text text, SoftStr(runtime, self));
  ASSIGN_OR_RETURN(text, ChangeCase(runtime.budget, text, kHow));
  return Value::String(std::move(text));
}

// Unlike str.title(), only after blanks, hyphens and opening brackets.
absl::StatusOr<Value> Title(Runtime& runtime, const Value& self,
                            const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(const Text text, Str(runtime, self));
  RETURN_IF_ERROR(runtime.budget.Produce(text.MemoryBytes()));
  Text out;
  bool starts_word = true;
  for (TextCursor at(text); !at.done(); at.Next()) {
    std::string changed;
    starts_word ? AppendUpper(at.code(), changed)
                : AppendLower(at.code(), changed);
    out.Append(changed, at.origin());
    starts_word =
        IsSpace(at.code()) ||
        (at.code() < 0x80 && std::string_view("-({[<").find(static_cast<char>(
                                 at.code())) != std::string_view::npos);
  }
  return Value::String(std::move(out));
}

absl::StatusOr<Value> Trim(Runtime& runtime, const Value& self,
                           const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {"chars"}).status());
  ASSIGN_OR_RETURN(Text text, SoftStr(runtime, self));
  return FindIn(TextMethods(), "strip")(runtime, Value::String(std::move(text)),
                                        arguments);
}

absl::StatusOr<Value> ReplaceFilter(Runtime& runtime, const Value& self,
                                    const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"old", "new", "count"}));
  RETURN_IF_ERROR(Need(bound[0], "old"));
  RETURN_IF_ERROR(Need(bound[1], "new"));
  const bool all = bound[2] == nullptr || bound[2]->is_none();
  ASSIGN_OR_RETURN(const int64_t count, IntOr(all ? nullptr : bound[2], -1));
  ASSIGN_OR_RETURN(const Text text, Str(runtime, self));
  ASSIGN_OR_RETURN(const Text from, Str(runtime, *bound[0]));
  ASSIGN_OR_RETURN(const Text to, Str(runtime, *bound[1]));
  ASSIGN_OR_RETURN(Text out,
                   Replace(runtime.budget, text, from.view(), to, count));
  return Value::String(std::move(out));
}

absl::StatusOr<Value> Center(Runtime& runtime, const Value& self,
                             const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"width"}));
  Layout layout;
  layout.centre = true;
  layout.centre_method = true;
  ASSIGN_OR_RETURN(layout.width, IntOr(bound[0], 80));
  RETURN_IF_ERROR(CheckLayout(runtime, layout));
  layout.width = std::max<int64_t>(0, layout.width);
  ASSIGN_OR_RETURN(Text text, Str(runtime, self));
  ASSIGN_OR_RETURN(text, Pad(runtime, layout, std::move(text)));
  return Value::String(std::move(text));
}

absl::StatusOr<Value> FormatFilter(Runtime& runtime, const Value& self,
                                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Text format, Str(runtime, self));
  if (!arguments.named.empty() && !arguments.positional.empty()) {
    return absl::InvalidArgumentError(
        "can't handle positional and keyword arguments at the same time");
  }
  Value values;
  if (arguments.named.empty()) {
    ASSIGN_OR_RETURN(values, MakeTuple(runtime, arguments.positional));
  } else {
    Dict named;
    for (const auto& [name, value] : arguments.named) {
      RETURN_IF_ERROR(runtime.budget.Produce(name.size()));
      named.Set(name, value);
    }
    ASSIGN_OR_RETURN(values, MakeDict(runtime, std::move(named)));
  }
  return PercentFormat(runtime, format, values);
}

absl::StatusOr<Text> Indention(Runtime& runtime, const Value* width) {
  if (width != nullptr && width->is_string()) return Str(runtime, *width);
  Layout layout;
  ASSIGN_OR_RETURN(layout.width, IntOr(width, 4));
  RETURN_IF_ERROR(CheckLayout(runtime, layout));
  const auto blanks = static_cast<size_t>(std::max<int64_t>(0, layout.width));
  return Text(std::string(blanks, ' '), /*trusted=*/true);
}

absl::StatusOr<Value> Indent(Runtime& runtime, const Value& self,
                             const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"width", "first", "blank"}));
  ASSIGN_OR_RETURN(const Text indention, Indention(runtime, bound[0]));
  const bool blank = TruthOr(bound[2], false);
  if (!self.is_string()) return TypeFault("wanted a string", self);
  ASSIGN_OR_RETURN(Text text, Str(runtime, self));
  text.Append("\n", true);
  ASSIGN_OR_RETURN(const std::vector<Text> lines,
                   SplitLines(runtime.budget, text, /*keep_ends=*/false));
  Text out;
  if (TruthOr(bound[1], false)) out.Append(indention);
  for (size_t i = 0; i < lines.size(); ++i) {
    RETURN_IF_ERROR(runtime.budget.Produce(indention.MemoryBytes() +
                                           lines[i].MemoryBytes()));
    if (i > 0) {
      out.Append("\n", true);
      if (blank || !lines[i].empty()) out.Append(indention);
    }
    out.Append(lines[i]);
  }
  return Value::String(std::move(out));
}

absl::StatusOr<Value> Truncate(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"length", "killwords", "end", "leeway"}));
  ASSIGN_OR_RETURN(const int64_t length, IntOr(bound[0], 255));
  const bool no_leeway = bound[3] != nullptr && bound[3]->is_none();
  ASSIGN_OR_RETURN(const int64_t leeway,
                   IntOr(no_leeway ? nullptr : bound[3], 5));
  if (self.is_undefined()) return self;
  if (!self.is_string()) return TypeFault("wanted a string", self);
  ASSIGN_OR_RETURN(const Text text, Str(runtime, self));
  ASSIGN_OR_RETURN(const Text end, TextOr(runtime, bound[2], "..."));
  const auto size = static_cast<int64_t>(text.CharacterCount());
  const auto tail = static_cast<int64_t>(end.CharacterCount());
  if (length < tail || leeway < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted a length of at least ", tail,
                     " and a leeway of at least 0; "
                     "found ",
                     length, " and ", leeway));
  }
  if (size <= leeway || size - leeway <= length) return Value::String(text);
  size_t cut = text.OffsetOf(static_cast<size_t>(length - tail));
  if (!TruthOr(bound[1], false)) {
    const size_t blank = text.view().substr(0, cut).rfind(' ');
    if (blank != std::string_view::npos) cut = blank;
  }
  Text out = text.Slice(0, cut);
  out.Append(end);
  return MakeText(runtime, std::move(out));
}

absl::StatusOr<Value> WordCount(Runtime& runtime, const Value& self,
                                const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(const Text text, Str(runtime, self));
  int64_t count = 0;
  bool inside = false;
  for (TextCursor at(text); !at.done(); at.Next()) {
    const bool is_word =
        IsLetter(at.code()) || IsDigit(at.code()) || at.code() == '_';
    count += is_word && !inside ? 1 : 0;
    inside = is_word;
  }
  return Value::Int(count);
}

absl::StatusOr<Value> Escape(Runtime& runtime, const Value& self,
                             const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (self.is_string() && self.AsText().is_markup()) return self;
  ASSIGN_OR_RETURN(const Text plain, Str(runtime, self));
  ASSIGN_OR_RETURN(Text text, EscapeMarkup(runtime.budget, plain));
  text.set_markup(true);
  return Value::String(std::move(text));
}

absl::StatusOr<Value> Safe(Runtime& runtime, const Value& self,
                           const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(Text text, Str(runtime, self));
  text.set_markup(true);
  return Value::String(std::move(text));
}

// Without tags and comments, with entities resolved and runs of blanks as one.
absl::StatusOr<Value> StripTags(Runtime& runtime, const Value& self,
                                const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(const Text text, Str(runtime, self));
  RETURN_IF_ERROR(runtime.budget.Produce(text.MemoryBytes()));
  Text kept;
  for (size_t at = 0; at < text.size();) {
    const size_t tag = std::min(text.view().find('<', at), text.size());
    kept.Append(text, at, tag);
    if (tag == text.size()) break;
    const bool is_comment = text.view().substr(tag, 4) == "<!--";
    const std::string_view closing = is_comment ? "-->" : ">";
    const size_t end = Find(text.view(), closing, tag);
    if (end == std::string_view::npos) {
      kept.Append(text, tag, text.size());
      break;
    }
    at = end + closing.size();
  }
  ASSIGN_OR_RETURN(const std::vector<Text> words,
                   Split(runtime.budget, kept, "", -1, /*from_right=*/false));
  Text joined;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) joined.Append(" ", false);
    joined.Append(words[i]);
  }
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"},   {"&gt;", ">"},  {"&quot;", "\""},
      {"&#34;", "\""}, {"&#39;", "'"}, {"&amp;", "&"},
  };
  for (const auto& [entity, plain] : kEntities) {
    const Text to(std::string(plain), /*trusted=*/false);
    ASSIGN_OR_RETURN(joined, Replace(runtime.budget, joined, entity, to, -1));
  }
  return Value::String(std::move(joined));
}

// A path keeps its slashes; a query writes blanks as plus signs.
std::string Quote(std::string_view text, bool is_path) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = absl::ascii_isalnum(byte) || c == '_' || c == '.' ||
                       c == '-' || c == '~' || (c == '/' && is_path);
    if (plain) {
      out.push_back(c);
    } else if (c == ' ' && !is_path) {
      out.push_back('+');
    } else {
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

absl::StatusOr<Value> UrlEncode(Runtime& runtime, const Value& self,
                                const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (self.is_string() || !LengthOf(self).has_value()) {
    ASSIGN_OR_RETURN(const Text text, Str(runtime, self));
    RETURN_IF_ERROR(runtime.budget.Produce(3 * text.size()));
    return Value::String(Text(Quote(text.view(), true), /*trusted=*/false));
  }
  std::string out;
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, self));
  for (const Value& item : items) {
    Value key = item;
    Value value;
    if (self.is_dict()) {
      ASSIGN_OR_RETURN(const Value* const found,
                       FindKey(runtime, self.AsDict(), item));
      value = *found;
    } else {
      if (!item.is_sequence() || item.AsSequence().items.size() != 2) {
        return TypeFault("wanted pairs", item);
      }
      key = item.AsSequence().items[0];
      value = item.AsSequence().items[1];
    }
    ASSIGN_OR_RETURN(const Text name, Str(runtime, key));
    ASSIGN_OR_RETURN(const Text text, Str(runtime, value));
    RETURN_IF_ERROR(runtime.budget.Produce(3 * (name.size() + text.size())));
    absl::StrAppend(&out, out.empty() ? "" : "&", Quote(name.view(), false),
                    "=", Quote(text.view(), false));
  }
  return Value::String(Text(std::move(out), /*trusted=*/false));
}

absl::StatusOr<Value> ToString(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (self.is_string()) return self;
  ASSIGN_OR_RETURN(Text text, Str(runtime, self));
  return Value::String(std::move(text));
}

constexpr NamedFunction kFilters[] = {
    {"capitalize", CaseFilter<Case::kCapitalize>},
    {"center", Center},
    {"e", Escape},
    {"escape", Escape},
    {"forceescape", Escape},
    {"format", FormatFilter},
    {"indent", Indent},
    {"lower", CaseFilter<Case::kLower>},
    {"replace", ReplaceFilter},
    {"safe", Safe},
    {"string", ToString},
    {"striptags", StripTags},
    {"title", Title},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", CaseFilter<Case::kUpper>},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount},
};

}  // namespace

FunctionTable TextFilters() { return kFilters; }

}  // namespace kvasir::jinja

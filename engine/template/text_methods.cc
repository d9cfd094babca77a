// The methods of str. Positions that clients see count characters.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"
#include "engine/template/methods.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"
#include "engine/template/string_format.h"
#include "engine/template/text_functions.h"

namespace kvasir::jinja {
namespace {

absl::StatusOr<Value> ListOf(Runtime& runtime,
                             absl::StatusOr<std::vector<Text>> texts) {
  RETURN_IF_ERROR(texts.status());
  ValueList items;
  items.reserve(texts->size());
  for (Text& text : *texts) items.push_back(Value::String(std::move(text)));
  return MakeList(runtime, std::move(items));
}

template <Case kHow>
absl::StatusOr<Value> CaseMethod(Runtime& runtime, const Value& self,
                                 const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  ASSIGN_OR_RETURN(Text text, ChangeCase(runtime.budget, self.AsText(), kHow));
  return Value::String(std::move(text));
}

template <Side kSide>
absl::StatusOr<Value> StripMethod(Runtime& runtime, const Value& self,
                                  const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"chars"}));
  const bool has_set = bound[0] != nullptr && !bound[0]->is_none();
  ASSIGN_OR_RETURN(const std::string_view set,
                   BytesOr(has_set ? bound[0] : nullptr, ""));
  ASSIGN_OR_RETURN(Text text, Strip(runtime.budget, self.AsText(), kSide,
                                    has_set ? &set : nullptr));
  return Value::String(std::move(text));
}

template <bool kFromRight>
absl::StatusOr<Value> SplitMethod(Runtime& runtime, const Value& self,
                                  const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"sep", "maxsplit"}));
  std::string_view separator;
  if (bound[0] != nullptr && !bound[0]->is_none()) {
    ASSIGN_OR_RETURN(separator, BytesOr(bound[0], ""));
    if (separator.empty()) {
      return absl::InvalidArgumentError("empty separator");
    }
  }
  ASSIGN_OR_RETURN(const int64_t limit, IntOr(bound[1], -1));
  return ListOf(runtime, Split(runtime.budget, self.AsText(), separator, limit,
                               kFromRight));
}

absl::StatusOr<Value> SplitLinesMethod(Runtime& runtime, const Value& self,
                                       const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"keepends"}));
  return ListOf(runtime, SplitLines(runtime.budget, self.AsText(),
                                    TruthOr(bound[0], false)));
}

// The part of a text between two positions of str.find() and its like.
absl::StatusOr<std::pair<size_t, size_t>> RangeOf(Runtime& runtime,
                                                  const Text& text,
                                                  const Value* start,
                                                  const Value* end) {
  if (start == nullptr && end == nullptr) return std::pair(0, text.size());
  RETURN_IF_ERROR(runtime.budget.Scan(text.size()));
  const auto count = static_cast<int64_t>(text.CharacterCount());
  const auto place = [&](const Value* value,
                         int64_t otherwise) -> absl::StatusOr<int64_t> {
    if (value == nullptr || value->is_none()) return otherwise;
    ASSIGN_OR_RETURN(int64_t at, IntOr(value, 0));
    if (at < 0) at = std::max<int64_t>(0, at < -count ? 0 : at + count);
    return at;
  };
  ASSIGN_OR_RETURN(const int64_t from, place(start, 0));
  ASSIGN_OR_RETURN(const int64_t to, place(end, count));
  if (from > count || from > to) return std::pair(text.size() + 1, size_t{0});
  return std::pair(text.OffsetOf(static_cast<size_t>(from)),
                   text.OffsetOf(static_cast<size_t>(std::min(to, count))));
}

// The offset of the first or last `part` in the range of the arguments.
template <bool kLast>
absl::StatusOr<size_t> Locate(Runtime& runtime, const Text& text,
                              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"sub", "start", "end"}));
  RETURN_IF_ERROR(Need(bound[0], "sub"));
  ASSIGN_OR_RETURN(const std::string_view part, BytesOr(bound[0], ""));
  RETURN_IF_ERROR(runtime.budget.Scan(text.size() + part.size()));
  const auto range = RangeOf(runtime, text, bound[1], bound[2]);
  RETURN_IF_ERROR(range.status());
  const auto [from, to] = *range;
  if (from > to) return std::string_view::npos;
  const std::string_view inside = text.view().substr(from, to - from);
  size_t found = 0;
  if (kLast) {
    ASSIGN_OR_RETURN(found, FindLast(runtime.budget, inside, part));
  } else {
    found = Find(inside, part);
  }
  return found == std::string_view::npos ? found : from + found;
}

template <bool kLast, bool kMustBe>
absl::StatusOr<Value> FindText(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  const Text& text = self.AsText();
  ASSIGN_OR_RETURN(const size_t at, Locate<kLast>(runtime, text, arguments));
  if (at != std::string_view::npos) {
    const std::string_view before = text.view().substr(0, at);
    return Value::Int(
        std::count_if(before.begin(), before.end(), StartsCharacter));
  }
  if (kMustBe) return absl::InvalidArgumentError("substring not found");
  return Value::Int(-1);
}

absl::StatusOr<Value> CountText(Runtime& runtime, const Value& self,
                                const Arguments& arguments) {
  const Text& text = self.AsText();
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"sub", "start", "end"}));
  RETURN_IF_ERROR(Need(bound[0], "sub"));
  ASSIGN_OR_RETURN(const std::string_view part, BytesOr(bound[0], ""));
  RETURN_IF_ERROR(runtime.budget.Scan(text.size() + part.size()));
  const auto range = RangeOf(runtime, text, bound[1], bound[2]);
  RETURN_IF_ERROR(range.status());
  const auto [from, to] = *range;
  if (from > to) return Value::Int(0);
  const std::string_view inside = text.view().substr(from, to - from);
  if (part.empty()) {
    return Value::Int(
        1 + std::count_if(inside.begin(), inside.end(), StartsCharacter));
  }
  int64_t count = 0;
  for (size_t at = Find(inside, part); at != std::string_view::npos;
       at = Find(inside, part, at + part.size())) {
    ++count;
  }
  return Value::Int(count);
}

template <bool kEnd>
absl::StatusOr<Value> HasAffix(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  const Text& text = self.AsText();
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"prefix", "start", "end"}));
  RETURN_IF_ERROR(Need(bound[0], "prefix"));
  const auto range = RangeOf(runtime, text, bound[1], bound[2]);
  RETURN_IF_ERROR(range.status());
  const auto [from, to] = *range;
  absl::Span<const Value> wanted(bound[0], 1);
  if (bound[0]->is_sequence() &&
      bound[0]->AsSequence().kind == Sequence::Kind::kTuple) {
    wanted = bound[0]->AsSequence().items;
  }
  for (const Value& one : wanted) {
    RETURN_IF_ERROR(runtime.budget.Step());
    ASSIGN_OR_RETURN(const std::string_view affix, BytesOr(&one, ""));
    if (from > to || affix.size() > to - from) continue;
    RETURN_IF_ERROR(runtime.budget.Scan(affix.size()));
    const size_t at = kEnd ? to - affix.size() : from;
    if (text.view().compare(at, affix.size(), affix) == 0) {
      return Value::Bool(true);
    }
  }
  return Value::Bool(false);
}

template <bool kEnd>
absl::StatusOr<Value> RemoveAffix(Runtime& runtime, const Value& self,
                                  const Arguments& arguments) {
  const Text& text = self.AsText();
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"affix"}));
  RETURN_IF_ERROR(Need(bound[0], "affix"));
  ASSIGN_OR_RETURN(const std::string_view affix, BytesOr(bound[0], ""));
  if (affix.size() > text.size()) return self;
  RETURN_IF_ERROR(runtime.budget.Scan(affix.size()));
  const size_t at = kEnd ? text.size() - affix.size() : 0;
  if (text.view().compare(at, affix.size(), affix) != 0) return self;
  return kEnd ? MakeSlice(runtime, text, 0, at)
              : MakeSlice(runtime, text, affix.size(), text.size());
}

absl::StatusOr<Value> ReplaceMethod(Runtime& runtime, const Value& self,
                                    const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"old", "new", "count"}));
  RETURN_IF_ERROR(Need(bound[0], "old"));
  RETURN_IF_ERROR(Need(bound[1], "new"));
  ASSIGN_OR_RETURN(const std::string_view from, BytesOr(bound[0], ""));
  if (!bound[1]->is_string()) return TypeFault("wanted a string", *bound[1]);
  ASSIGN_OR_RETURN(const int64_t count, IntOr(bound[2], -1));
  ASSIGN_OR_RETURN(Text text, Replace(runtime.budget, self.AsText(), from,
                                      bound[1]->AsText(), count));
  return Value::String(std::move(text));
}

absl::StatusOr<Value> Join(Runtime& runtime, const Value& self,
                           const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"iterable"}));
  RETURN_IF_ERROR(Need(bound[0], "iterable"));
  ASSIGN_OR_RETURN(const ValueList items, Iterate(runtime, *bound[0]));
  Text out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_string()) {
      return TypeFault("join: wanted strings", items[i]);
    }
    if (i > 0) RETURN_IF_ERROR(AppendStr(runtime, self, out));
    RETURN_IF_ERROR(AppendStr(runtime, items[i], out));
  }
  return Value::String(std::move(out));
}

absl::StatusOr<Value> Format(Runtime& runtime, const Value& self,
                             const Arguments& arguments) {
  return BraceFormat(runtime, self.AsText(), arguments);
}

absl::StatusOr<Value> ZeroFill(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"width"}));
  RETURN_IF_ERROR(Need(bound[0], "width"));
  Layout layout;
  layout.fill = "0";
  ASSIGN_OR_RETURN(layout.width, IntOr(bound[0], 0));
  RETURN_IF_ERROR(CheckLayout(runtime, layout));
  const Text& text = self.AsText();
  RETURN_IF_ERROR(runtime.budget.Produce(text.MemoryBytes()));
  const char first = text.empty() ? ' ' : text.view()[0];
  const size_t sign = first == '-' || first == '+' ? 1 : 0;
  layout.width =
      std::max<int64_t>(0, layout.width - static_cast<int64_t>(sign));
  ASSIGN_OR_RETURN(const Text padded,
                   Pad(runtime, layout, text.Slice(sign, text.size())));
  Text out = text.Slice(0, sign);
  out.Append(padded);
  return Value::String(std::move(out));
}

enum class Place : uint8_t { kLeft, kCentre, kRight };

template <Place kPlace>
absl::StatusOr<Value> Justify(Runtime& runtime, const Value& self,
                              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"width", "fillchar"}));
  RETURN_IF_ERROR(Need(bound[0], "width"));
  Layout layout;
  layout.left = kPlace == Place::kLeft;
  layout.centre = kPlace == Place::kCentre;
  layout.centre_method = true;
  ASSIGN_OR_RETURN(layout.width, IntOr(bound[0], 0));
  RETURN_IF_ERROR(CheckLayout(runtime, layout));
  ASSIGN_OR_RETURN(const std::string_view fill, BytesOr(bound[1], " "));
  layout.fill = std::string(fill.substr(0, 8));
  if (Text(layout.fill, false).CharacterCount() != 1) {
    return absl::InvalidArgumentError("fillchar: wanted one character");
  }
  if (layout.width < 0) return self;
  RETURN_IF_ERROR(runtime.budget.Produce(self.AsText().MemoryBytes()));
  ASSIGN_OR_RETURN(Text out, Pad(runtime, layout, self.AsText()));
  return Value::String(std::move(out));
}

template <bool kLast>
absl::StatusOr<Value> Partition(Runtime& runtime, const Value& self,
                                const Arguments& arguments) {
  const Text& text = self.AsText();
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"sep"}));
  RETURN_IF_ERROR(Need(bound[0], "sep"));
  ASSIGN_OR_RETURN(const std::string_view separator, BytesOr(bound[0], ""));
  if (separator.empty()) return absl::InvalidArgumentError("empty separator");
  RETURN_IF_ERROR(runtime.budget.Produce(text.MemoryBytes() * 2));
  size_t at = Find(text.view(), separator);
  if (kLast) {
    ASSIGN_OR_RETURN(at, FindLast(runtime.budget, text.view(), separator));
  }
  const Value none = Value::String(Text());
  if (at == std::string_view::npos) {
    return MakeTuple(runtime, kLast ? ValueList{none, none, self}
                                    : ValueList{self, none, none});
  }
  const size_t behind = at + separator.size();
  return MakeTuple(runtime, {Value::String(text.Slice(0, at)),
                             Value::String(text.Slice(at, behind)),
                             Value::String(text.Slice(behind, text.size()))});
}

// Whether all characters are of a kind, and there is one.
template <bool (*kIs)(char32_t)>
absl::StatusOr<Value> AllAre(Runtime& runtime, const Value& self,
                             const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  RETURN_IF_ERROR(runtime.budget.Scan(self.AsText().size()));
  bool all = !self.AsText().empty();
  for (TextCursor at(self.AsText()); all && !at.done(); at.Next()) {
    all = kIs(at.code());
  }
  return Value::Bool(all);
}

// Whether there are letters of one case and none of the other.
template <bool kUpper>
absl::StatusOr<Value> IsOfCase(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  RETURN_IF_ERROR(runtime.budget.Scan(self.AsText().size()));
  bool some = false;
  for (TextCursor at(self.AsText()); !at.done(); at.Next()) {
    if (kUpper ? IsLower(at.code()) : IsUpper(at.code())) {
      return Value::Bool(false);
    }
    some |= kUpper ? IsUpper(at.code()) : IsLower(at.code());
  }
  return Value::Bool(some);
}

absl::StatusOr<Value> IsTitled(Runtime& runtime, const Value& self,
                               const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  RETURN_IF_ERROR(runtime.budget.Scan(self.AsText().size()));
  bool some = false;
  bool after_cased = false;
  for (TextCursor at(self.AsText()); !at.done(); at.Next()) {
    const bool upper = IsUpper(at.code());
    const bool lower = IsLower(at.code());
    if (upper ? after_cased : lower && !after_cased) return Value::Bool(false);
    after_cased = upper || lower;
    some |= after_cased;
  }
  return Value::Bool(some);
}

bool IsLetterOrDigit(char32_t code) { return IsLetter(code) || IsDigit(code); }
bool IsAscii(char32_t code) { return code < 0x80; }

absl::StatusOr<Value> IsAllAscii(Runtime& runtime, const Value& self,
                                 const Arguments& arguments) {
  if (self.AsText().empty()) return Value::Bool(true);
  return AllAre<IsAscii>(runtime, self, arguments);
}

absl::StatusOr<Value> IsAllPrintable(Runtime& runtime, const Value& self,
                                     const Arguments& arguments) {
  if (self.AsText().empty()) return Value::Bool(true);
  return AllAre<IsPrintable>(runtime, self, arguments);
}

constexpr NamedFunction kMethods[] = {
    {"capitalize", CaseMethod<Case::kCapitalize>},
    {"casefold", CaseMethod<Case::kLower>},
    {"center", Justify<Place::kCentre>},
    {"count", CountText},
    {"endswith", HasAffix<true>},
    {"find", FindText<false, false>},
    {"format", Format},
    {"index", FindText<false, true>},
    {"isalnum", AllAre<IsLetterOrDigit>},
    {"isalpha", AllAre<IsLetter>},
    {"isascii", IsAllAscii},
    {"isdecimal", AllAre<IsDecimal>},
    {"isdigit", AllAre<IsDigit>},
    {"islower", IsOfCase<false>},
    {"isnumeric", AllAre<IsDigit>},
    {"isprintable", IsAllPrintable},
    {"isspace", AllAre<IsSpace>},
    {"istitle", IsTitled},
    {"isupper", IsOfCase<true>},
    {"join", Join},
    {"ljust", Justify<Place::kLeft>},
    {"lower", CaseMethod<Case::kLower>},
    {"lstrip", StripMethod<Side::kLeft>},
    {"partition", Partition<false>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", ReplaceMethod},
    {"rfind", FindText<true, false>},
    {"rindex", FindText<true, true>},
    {"rjust", Justify<Place::kRight>},
    {"rpartition", Partition<true>},
    {"rsplit", SplitMethod<true>},
    {"rstrip", StripMethod<Side::kRight>},
    {"split", SplitMethod<false>},
    {"splitlines", SplitLinesMethod},
    {"startswith", HasAffix<false>},
    {"strip", StripMethod<Side::kBoth>},
    {"swapcase", CaseMethod<Case::kSwap>},
    {"title", CaseMethod<Case::kTitle>},
    {"upper", CaseMethod<Case::kUpper>},
    {"zfill", ZeroFill},
};

}  // namespace

FunctionTable TextMethods() { return kMethods; }

}  // namespace kvasir::jinja

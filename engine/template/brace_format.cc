#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"
#include "engine/template/string_format.h"

namespace kvasir::jinja {
namespace {

// Reads a text from the left.
class Reader {
 public:
  explicit Reader(std::string_view rest) : rest_(rest) {}
  bool empty() const { return rest_.empty(); }
  char Peek() const { return rest_.empty() ? '\0' : rest_[0]; }
  bool Take(char wanted) {
    if (Peek() != wanted || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Up to one of `ends`, which stays.
  std::string_view TakeUntil(std::string_view ends) {
    const std::string_view taken =
        rest_.substr(0, std::min(rest_.find_first_of(ends), rest_.size()));
    rest_.remove_prefix(taken.size());
    return taken;
  }
  std::string_view TakeDigits() {
    size_t size = 0;
    while (size < rest_.size() && absl::ascii_isdigit(rest_[size])) ++size;
    const std::string_view digits = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return digits;
  }
  std::string_view rest() const { return rest_; }
  void Skip(size_t bytes) { rest_.remove_prefix(bytes); }

 private:
  std::string_view rest_;
};

int64_t NumberOf(std::string_view digits, int64_t otherwise) {
  int64_t number = 0;
  if (digits.empty()) return otherwise;
  return absl::SimpleAtoi(View(digits), &number) ? number : INT64_MAX;
}

bool ReadAlignment(Layout& layout, char c) {
  layout.left = c == '<';
  layout.centre = c == '^';
  return c == '<' || c == '>' || c == '^' || c == '=';
}

absl::StatusOr<Layout> ReadLayout(Runtime& runtime, std::string_view spec,
                                  bool is_number) {
  Layout layout;
  layout.conversion = 0;
  layout.left = !is_number;
  Reader reader(spec);
  if (!spec.empty()) {
    const size_t first = CharacterAt(spec, 0).bytes;
    if (first < spec.size() && ReadAlignment(layout, spec[first])) {
      layout.fill = std::string(spec.substr(0, first));
      layout.zeros = spec[first] == '=' && spec[0] == '0';
      reader.Skip(first + 1);
    } else if (ReadAlignment(layout, spec[0])) {
      reader.Skip(1);
    } else {
      layout.left = !is_number;
      layout.centre = false;
    }
  }
  if (reader.Take('+')) layout.sign = '+';
  if (reader.Take(' ')) layout.sign = ' ';
  reader.Take('-');
  layout.alternate = reader.Take('#');
  if (reader.Take('0')) layout.zeros = is_number;
  layout.width = NumberOf(reader.TakeDigits(), -1);
  layout.commas = reader.Take(',');
  if (reader.Take('.')) layout.precision = NumberOf(reader.TakeDigits(), 0);
  if (!reader.empty()) {
    layout.conversion = reader.Peek();
    reader.Skip(1);
  }
  if (!reader.empty()) {
    return absl::InvalidArgumentError("Invalid format specifier");
  }
  RETURN_IF_ERROR(CheckLayout(runtime, layout));
  return layout;
}

absl::StatusOr<Text> Lay(Runtime& runtime, const Value& value,
                         std::string_view spec) {
  if (spec.empty()) return Str(runtime, value);
  const bool is_number =
      value.is_number() && value.kind() != Value::Kind::kBool;
  ASSIGN_OR_RETURN(Layout layout, ReadLayout(runtime, spec, is_number));
  if (is_number && layout.conversion != 's') {
    if (layout.conversion == 0 && value.is_integer()) layout.conversion = 'd';
    if (layout.conversion == 0 && layout.precision >= 0) {
      layout.conversion = 'g';
    }
    const std::string_view known = "dxXoeEfFgG%";
    if (layout.conversion == 0) {
      std::string number;
      if (layout.sign != '-' && value.AsFloat() >= 0) {
        number.push_back(layout.sign);
      }
      number += FloatRepr(value.AsFloat());
      return Pad(runtime, layout, Text(std::move(number), false));
    }
    if (known.find(layout.conversion) == std::string_view::npos) {
      return absl::InvalidArgumentError("unknown format code for a number");
    }
    ASSIGN_OR_RETURN(std::string digits, FormatNumber(layout, value));
    return Pad(runtime, layout, Text(std::move(digits), false));
  }
  if (!value.is_string() ||
      (layout.conversion != 0 && layout.conversion != 's')) {
    return TypeFault("unsupported format string", value);
  }
  if (layout.commas || layout.sign != '-') {
    return absl::InvalidArgumentError("sign or comma in a string's format");
  }
  ASSIGN_OR_RETURN(Text text, Str(runtime, value));
  if (layout.precision >= 0) {
    text = text.Slice(0, text.OffsetOf(static_cast<size_t>(layout.precision)));
  }
  return Pad(runtime, layout, std::move(text));
}

class BraceReader {
 public:
  BraceReader(Runtime& runtime, const Text& format, const Arguments& arguments)
      : runtime_(runtime), format_(format), arguments_(arguments) {}

  absl::StatusOr<Value> Read();

 private:
  absl::Status ReadField(std::string_view field);
  absl::StatusOr<Value> Resolve(std::string_view name);
  absl::StatusOr<Value> First(std::string_view name);

  Runtime& runtime_;
  const Text& format_;
  const Arguments& arguments_;
  size_t next_ = 0;
  Text out_;
};

absl::StatusOr<Value> BraceReader::First(std::string_view name) {
  int64_t index = 0;
  if (name.empty()) {
    index = static_cast<int64_t>(next_++);
  } else if (!absl::SimpleAtoi(View(name), &index)) {
    RETURN_IF_ERROR(runtime_.budget.Step(1 + arguments_.named.size()));
    for (const auto& [given, value] : arguments_.named) {
      if (given == name) return value;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("format: no argument '", Shown(name), "'"));
  }
  if (index < 0 ||
      index >= static_cast<int64_t>(arguments_.positional.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("format: no argument ", index));
  }
  return arguments_.positional[static_cast<size_t>(index)];
}

absl::StatusOr<Value> BraceReader::Resolve(std::string_view name) {
  Reader reader(name);
  ASSIGN_OR_RETURN(Value value, First(reader.TakeUntil(".[")));
  while (!reader.empty()) {
    RETURN_IF_ERROR(runtime_.budget.Step());
    if (reader.Take('.')) {
      ASSIGN_OR_RETURN(value,
                       GetAttribute(runtime_, value, reader.TakeUntil(".[")));
    } else if (reader.Take('[')) {
      const std::string_view key = reader.TakeUntil("]");
      int64_t index = 0;
      const bool is_index = absl::SimpleAtoi(View(key), &index);
      ASSIGN_OR_RETURN(
          value, GetItem(runtime_, value,
                         is_index ? Value::Int(index)
                                  : Value::String(key, /*trusted=*/false)));
      if (!reader.Take(']')) {
        return absl::InvalidArgumentError("format: Missing ']'");
      }
    } else {
      return absl::InvalidArgumentError("format: wanted . or [ after ]");
    }
    if (value.is_undefined()) return UndefinedFault(value);
  }
  return value;
}

absl::Status BraceReader::ReadField(std::string_view field) {
  RETURN_IF_ERROR(runtime_.budget.Step());
  Reader reader(field);
  const std::string_view name = reader.TakeUntil("!:");
  char conversion = 0;
  if (reader.Take('!')) {
    conversion = reader.Peek();
    reader.Take(conversion);
  }
  std::string_view spec;
  if (reader.Take(':')) {
    spec = reader.rest();
    if (spec.find_first_of("{}") != std::string_view::npos) {
      return absl::InvalidArgumentError(
          "format: fields inside of a format specifier are not built");
    }
  } else if (!reader.empty()) {
    return absl::InvalidArgumentError("format: wanted : or !");
  }
  ASSIGN_OR_RETURN(Value value, Resolve(name));
  if (conversion == 'r') {
    ASSIGN_OR_RETURN(const std::string repr, Repr(runtime_, value));
    value = Value::String(Text(repr, false));
  } else if (conversion == 's') {
    ASSIGN_OR_RETURN(Text text, Str(runtime_, value));
    value = Value::String(std::move(text));
  } else if (conversion != 0) {
    return absl::InvalidArgumentError("format: unknown conversion");
  }
  ASSIGN_OR_RETURN(const Text text, Lay(runtime_, value, spec));
  RETURN_IF_ERROR(runtime_.budget.Produce(text.MemoryBytes()));
  out_.Append(text);
  return absl::OkStatus();
}

absl::StatusOr<Value> BraceReader::Read() {
  const std::string_view all = format_.view();
  RETURN_IF_ERROR(runtime_.budget.Scan(all.size()));
  for (size_t at = 0; at < all.size();) {
    const size_t mark = std::min(all.find_first_of("{}", at), all.size());
    RETURN_IF_ERROR(runtime_.budget.Produce(mark - at + 1));
    out_.Append(format_, at, mark);
    if (mark == all.size()) break;
    if (mark + 1 < all.size() && all[mark + 1] == all[mark]) {
      out_.Append(format_, mark, mark + 1);
      at = mark + 2;
      continue;
    }
    const size_t end = all.find('}', mark);
    if (all[mark] == '}' || end == std::string_view::npos) {
      return absl::InvalidArgumentError("format: single brace");
    }
    RETURN_IF_ERROR(ReadField(all.substr(mark + 1, end - mark - 1)));
    at = end + 1;
  }
  return Value::String(std::move(out_));
}

}  // namespace

absl::StatusOr<Value> BraceFormat(Runtime& runtime, const Text& format,
                                  const Arguments& arguments) {
  return BraceReader(runtime, format, arguments).Read();
}

}  // namespace kvasir::jinja

#include "engine/template/string_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"

namespace kvasir::jinja {
namespace {

std::string IntegerDigits(const Layout& layout, uint64_t magnitude) {
  char buffer[32];
  const char* pattern = layout.conversion == 'x'   ? "%llx"
                        : layout.conversion == 'X' ? "%llX"
                        : layout.conversion == 'o' ? "%llo"
                                                   : "%llu";
  std::snprintf(buffer, sizeof(buffer), pattern,
                static_cast<unsigned long long>(magnitude));
  std::string digits = buffer;
  const auto least =
      static_cast<size_t>(std::max<int64_t>(0, layout.precision));
  if (digits.size() < least) digits.insert(0, least - digits.size(), '0');
  return digits;
}

std::string FloatDigits(const Layout& layout, double magnitude) {
  const bool is_percent = layout.conversion == '%';
  if (is_percent) magnitude *= 100;
  const bool shouts = absl::ascii_isupper(layout.conversion);
  if (std::isnan(magnitude)) return shouts ? "NAN" : "nan";
  if (std::isinf(magnitude)) return shouts ? "INF" : "inf";
  const char pattern[] = {'%', '.', '*', is_percent ? 'f' : layout.conversion,
                          0};
  const int precision =
      layout.precision < 0 ? 6 : static_cast<int>(layout.precision);
  // As many digits as a double has before its point, and the precision.
  char buffer[320 + kMaxLayoutPrecision];
  std::snprintf(buffer, sizeof(buffer), pattern, precision, magnitude);
  return is_percent ? std::string(buffer) + "%" : std::string(buffer);
}

void InsertCommas(std::string& digits) {
  size_t end = 0;
  while (end < digits.size() && absl::ascii_isdigit(digits[end])) ++end;
  for (; end > 3; end -= 3) digits.insert(end - 3, 1, ',');
}

bool IsFloatConversion(char c) {
  return std::string_view("eEfFgG%").find(c) != std::string_view::npos;
}

// One `%` conversion of a format.
class PercentReader {
 public:
  PercentReader(Runtime& runtime, const Text& format, const Value& values)
      : runtime_(runtime), format_(format), values_(values) {}

  absl::StatusOr<Value> Read();

 private:
  absl::Status ReadConversion();
  absl::StatusOr<Value> ReadName();
  absl::StatusOr<int64_t> ReadWidth();
  absl::StatusOr<Value> NextValue();
  absl::Status AppendConverted(const Layout& layout, const Value& value);
  void ReadFlags(Layout& layout);
  char Peek() const { return at_ < format_.size() ? format_.view()[at_] : 0; }
  bool IsTuple() const {
    return values_.is_sequence() &&
           values_.AsSequence().kind == Sequence::Kind::kTuple;
  }

  Runtime& runtime_;
  const Text& format_;
  const Value& values_;
  size_t at_ = 0;
  size_t used_ = 0;
  bool by_name_ = false;
  Text out_;
};

absl::StatusOr<Value> PercentReader::Read() {
  RETURN_IF_ERROR(runtime_.budget.Scan(format_.size()));
  while (at_ < format_.size()) {
    const size_t mark = std::min(format_.view().find('%', at_), format_.size());
    RETURN_IF_ERROR(runtime_.budget.Produce(mark - at_ + 1));
    out_.Append(format_, at_, mark);
    at_ = mark + 1;
    if (mark < format_.size()) RETURN_IF_ERROR(ReadConversion());
  }
  const size_t given = IsTuple() ? values_.AsSequence().items.size() : 1;
  const bool takes_any = by_name_ || values_.is_dict() ||
                         values_.is_sequence() || values_.is_undefined();
  if (used_ < given && (IsTuple() || !takes_any)) {
    return absl::InvalidArgumentError(
        "not all arguments converted during string formatting");
  }
  return Value::String(std::move(out_));
}

absl::StatusOr<Value> PercentReader::NextValue() {
  const size_t given = IsTuple() ? values_.AsSequence().items.size() : 1;
  if (used_ >= given) {
    return absl::InvalidArgumentError("not enough arguments for format string");
  }
  const size_t index = used_++;
  return IsTuple() ? values_.AsSequence().items[index] : values_;
}

absl::StatusOr<Value> PercentReader::ReadName() {
  const size_t end = format_.view().find(')', at_);
  if (end == std::string_view::npos) {
    return absl::InvalidArgumentError("incomplete format key");
  }
  const std::string_view name = format_.view().substr(at_, end - at_);
  at_ = end + 1;
  if (!values_.is_dict())
    return TypeFault("format requires a mapping", values_);
  by_name_ = true;
  RETURN_IF_ERROR(runtime_.budget.Scan(name.size()));
  const Value* value = values_.AsDict().Find(name);
  if (value != nullptr) return *value;
  return absl::InvalidArgumentError(
      absl::StrCat("format: no key '", Shown(name), "'"));
}

void PercentReader::ReadFlags(Layout& layout) {
  for (;; ++at_) {
    switch (Peek()) {
      case '-':
        layout.left = true;
        break;
      case '+':
        layout.sign = '+';
        break;
      case ' ':
        if (layout.sign == '-') layout.sign = ' ';
        break;
      case '0':
        layout.zeros = true;
        break;
      case '#':
        layout.alternate = true;
        break;
      default:
        return;
    }
  }
}

absl::StatusOr<int64_t> PercentReader::ReadWidth() {
  if (Peek() == '*') {
    ++at_;
    ASSIGN_OR_RETURN(const Value width, NextValue());
    if (!width.is_integer()) return TypeFault("* wants int", width);
    return width.AsInt();
  }
  int64_t width = -1;
  for (; absl::ascii_isdigit(Peek()); ++at_) {
    width = std::max<int64_t>(0, width) * 10 + (Peek() - '0');
    width = std::min(width, kMaxLayoutWidth + 1);
  }
  return width;
}

absl::Status PercentReader::ReadConversion() {
  if (Peek() == '%') {
    out_.Append(format_, at_, at_ + 1);
    ++at_;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(runtime_.budget.Step());
  Layout layout;
  absl::StatusOr<Value> named = Value();
  const bool has_name = Peek() == '(';
  if (has_name) {
    ++at_;
    named = ReadName();
    RETURN_IF_ERROR(named.status());
  }
  ReadFlags(layout);
  ASSIGN_OR_RETURN(layout.width, ReadWidth());
  if (Peek() == '.') {
    ++at_;
    ASSIGN_OR_RETURN(layout.precision, ReadWidth());
    layout.precision = std::max<int64_t>(0, layout.precision);
  }
  layout.conversion = Peek();
  if (layout.conversion == 0) {
    return absl::InvalidArgumentError("incomplete format");
  }
  RETURN_IF_ERROR(CheckLayout(runtime_, layout));
  ++at_;
  if (has_name) return AppendConverted(layout, *named);
  ASSIGN_OR_RETURN(const Value value, NextValue());
  return AppendConverted(layout, value);
}

absl::Status PercentReader::AppendConverted(const Layout& given,
                                            const Value& value) {
  Layout layout = given;
  Text text;
  switch (layout.conversion) {
    case 's':
    case 'r':
    case 'a':
    case 'c': {
      if (layout.conversion == 's' ||
          (layout.conversion == 'c' && LengthOf(value) == 1)) {
        ASSIGN_OR_RETURN(text, Str(runtime_, value));
      } else if (layout.conversion == 'c') {
        ASSIGN_OR_RETURN(const int64_t code, IntOr(&value, 0));
        if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
          return absl::InvalidArgumentError("%c wants a character's code");
        }
        std::string bytes;
        AppendCharacter(static_cast<char32_t>(code), bytes);
        text = Text(bytes, false);
      } else {
        ASSIGN_OR_RETURN(std::string repr, Repr(runtime_, value));
        text = Text(std::move(repr), false);
      }
      if (layout.precision >= 0) {
        text =
            text.Slice(0, text.OffsetOf(static_cast<size_t>(layout.precision)));
      }
      break;
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o': {
      if (std::string_view("iu").find(layout.conversion) !=
          std::string_view::npos) {
        layout.conversion = 'd';
      }
      Value number = value;
      const bool cuts = layout.conversion == 'd' &&
                        value.kind() == Value::Kind::kFloat &&
                        std::abs(value.AsFloat()) < 9e18;
      if (cuts) number = Value::Int(static_cast<int64_t>(value.AsFloat()));
      ASSIGN_OR_RETURN(std::string digits, FormatNumber(layout, number));
      text = Text(std::move(digits), false);
      break;
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': {
      ASSIGN_OR_RETURN(std::string digits, FormatNumber(layout, value));
      text = Text(std::move(digits), false);
      break;
    }
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "unsupported format character '",
          View(format_.view().substr(
              at_ - 1, CharacterAt(format_.bytes(), at_ - 1).bytes)),
          "'"));
  }
  ASSIGN_OR_RETURN(text, Pad(runtime_, layout, std::move(text)));
  out_.Append(text);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLayout(Runtime& runtime, const Layout& layout) {
  if (layout.width > kMaxLayoutWidth || layout.width < -kMaxLayoutWidth ||
      layout.precision > kMaxLayoutPrecision) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "wanted a width of at most ", kMaxLayoutWidth,
        " (kMaxLayoutWidth) and a precision of at most ", kMaxLayoutPrecision,
        " (kMaxLayoutPrecision); found more"));
  }
  return runtime.budget.Produce(
      static_cast<size_t>(std::abs(layout.width)) +
      static_cast<size_t>(std::max<int64_t>(0, layout.precision)));
}

absl::StatusOr<std::string> FormatNumber(const Layout& layout,
                                         const Value& value) {
  if (!value.is_number()) return TypeFault("wanted a number", value);
  std::string digits;
  bool is_negative;
  if (IsFloatConversion(layout.conversion)) {
    const double number = value.AsFloat();
    is_negative = std::signbit(number) && !std::isnan(number);
    digits = FloatDigits(layout, std::abs(number));
  } else {
    if (!value.is_integer()) return TypeFault("wanted an integer", value);
    const int64_t number = value.AsInt();
    is_negative = number < 0;
    const auto magnitude = static_cast<uint64_t>(number);
    digits = IntegerDigits(layout, is_negative ? 0 - magnitude : magnitude);
  }
  if (layout.commas) InsertCommas(digits);
  std::string head;
  if (is_negative) {
    head = "-";
  } else if (layout.sign != '-') {
    head = std::string(1, layout.sign);
  }
  if (layout.alternate &&
      (layout.conversion == 'x' || layout.conversion == 'X' ||
       layout.conversion == 'o')) {
    head += {'0', layout.conversion};
  }
  if (layout.zeros && !layout.left) {
    const auto width = static_cast<size_t>(std::max<int64_t>(0, layout.width));
    const size_t size = head.size() + digits.size();
    if (size < width) digits.insert(0, width - size, '0');
  }
  return head + digits;
}

absl::StatusOr<Text> Pad(Runtime& runtime, const Layout& layout, Text text) {
  const bool left = layout.left || layout.width < 0;
  const auto width =
      static_cast<size_t>(layout.width == -1 ? 0 : std::abs(layout.width));
  if (text.CharacterCount() >= width) return text;
  const size_t missing = width - text.CharacterCount();
  RETURN_IF_ERROR(runtime.budget.Produce(missing * layout.fill.size() +
                                         text.MemoryBytes()));
  const size_t odd = layout.centre_method ? missing & width & 1 : 0;
  const size_t before = left ? 0 : layout.centre ? missing / 2 + odd : missing;
  Text out;
  std::string fill;
  for (size_t i = 0; i < missing; ++i) {
    fill += layout.fill;
    if (i + 1 == before || i + 1 == missing) {
      out.Append(fill, false);
      fill.clear();
      if (i + 1 == before) out.Append(text);
    }
  }
  if (before == 0) {
    Text whole = std::move(text);
    whole.Append(out);
    return whole;
  }
  return out;
}

absl::StatusOr<Value> PercentFormat(Runtime& runtime, const Text& format,
                                    const Value& values) {
  return PercentReader(runtime, format, values).Read();
}

}  // namespace kvasir::jinja

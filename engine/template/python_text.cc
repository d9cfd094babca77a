#include "engine/template/python_text.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"

namespace kvasir::jinja {
namespace {

void AppendEscaped(char32_t code, std::string& out) {
  if (code <= 0xFF) {
    absl::StrAppendFormat(&out, "\\x%02x", static_cast<uint32_t>(code));
  } else if (code <= 0xFFFF) {
    absl::StrAppendFormat(&out, "\\u%04x", static_cast<uint32_t>(code));
  } else {
    absl::StrAppendFormat(&out, "\\U%08x", static_cast<uint32_t>(code));
  }
}

std::string StringRepr(std::string_view text) {
  const bool doubles = text.find('\'') != std::string_view::npos &&
                       text.find('"') == std::string_view::npos;
  const char quote = doubles ? '"' : '\'';
  std::string out(1, quote);
  for (size_t at = 0; at < text.size();) {
    const Character c = CharacterAt(text, at);
    if (c.code == '\\' || c.code == static_cast<unsigned char>(quote)) {
      out.push_back('\\');
      out.push_back(static_cast<char>(c.code));
    } else if (c.code == '\n') {
      out += "\\n";
    } else if (c.code == '\r') {
      out += "\\r";
    } else if (c.code == '\t') {
      out += "\\t";
    } else if (!IsPrintable(c.code)) {
      AppendEscaped(c.code, out);
    } else {
      out.append(text.substr(at, c.bytes));
    }
    at += c.bytes;
  }
  out.push_back(quote);
  return out;
}

// Writes values one inside of the other, as deep as they are nested, which is
// bounded where they are made.
class Writer {
 public:
  explicit Writer(Runtime& runtime) : runtime_(runtime) {}

  absl::Status Write(const Value& value);
  std::string Take() { return std::move(out_); }

 private:
  absl::Status Add(absl::string_view text) {
    RETURN_IF_ERROR(runtime_.budget.Produce(text.size() + 1));
    out_.append(text.data(), text.size());
    return absl::OkStatus();
  }
  absl::Status WriteItems(const Sequence& sequence);
  absl::Status WriteDict(const Dict& dict);

  Runtime& runtime_;
  std::string out_;
};

absl::Status Writer::WriteItems(const Sequence& sequence) {
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i > 0) RETURN_IF_ERROR(Add(", "));
    RETURN_IF_ERROR(Write(sequence.items[i]));
  }
  return absl::OkStatus();
}

absl::Status Writer::WriteDict(const Dict& dict) {
  RETURN_IF_ERROR(Add("{"));
  bool is_first = true;
  for (const auto& [key, item] : dict.items()) {
    if (!is_first) RETURN_IF_ERROR(Add(", "));
    is_first = false;
    RETURN_IF_ERROR(Write(key));
    RETURN_IF_ERROR(Add(": "));
    RETURN_IF_ERROR(Write(item));
  }
  return Add("}");
}

std::string RangeRepr(const RangeBounds& bounds) {
  std::string out = absl::StrCat("range(", bounds.start, ", ", bounds.stop);
  if (bounds.step != 1) absl::StrAppend(&out, ", ", bounds.step);
  return out + ")";
}

absl::Status Writer::Write(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return Add("Undefined");
    case Value::Kind::kNone:
      return Add("None");
    case Value::Kind::kBool:
      return Add(value.AsBool() ? "True" : "False");
    case Value::Kind::kInt:
      return Add(absl::StrCat(value.AsInt()));
    case Value::Kind::kFloat:
      return Add(FloatRepr(value.AsFloat()));
    case Value::Kind::kString:
      RETURN_IF_ERROR(runtime_.budget.Scan(value.AsText().size()));
      return Add(StringRepr(value.AsView()));
    case Value::Kind::kDict:
      return WriteDict(value.AsDict());
    case Value::Kind::kObject:
      return Add(absl::StrCat("<", View(value.TypeName()), ">"));
    case Value::Kind::kSequence:
      break;
  }
  const Sequence& sequence = value.AsSequence();
  switch (sequence.kind) {
    case Sequence::Kind::kList:
      RETURN_IF_ERROR(Add("["));
      RETURN_IF_ERROR(WriteItems(sequence));
      return Add("]");
    case Sequence::Kind::kTuple:
    case Sequence::Kind::kGroup:
      RETURN_IF_ERROR(Add("("));
      RETURN_IF_ERROR(WriteItems(sequence));
      return Add(sequence.items.size() == 1 ? ",)" : ")");
    case Sequence::Kind::kRange:
      return Add(RangeRepr(sequence.bounds));
    case Sequence::Kind::kView:
      RETURN_IF_ERROR(Add("dict_view(["));
      RETURN_IF_ERROR(WriteItems(sequence));
      return Add("])");
  }
  return absl::OkStatus();
}

}  // namespace

std::string FloatRepr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof(buffer),
                                          value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const bool is_negative = text[0] == '-';
  if (is_negative) text.remove_prefix(1);
  const size_t mark = text.find('e');
  std::string digits(1, text[0]);
  if (mark > 1) digits.append(text.substr(2, mark - 2));
  int exponent = 0;
  const char* from = text.data() + mark + 1;
  if (*from == '+') ++from;
  std::from_chars(from, text.data() + text.size(), exponent);
  std::string out = is_negative ? "-" : "";
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (count > 1) absl::StrAppend(&out, ".", digits.substr(1));
    absl::StrAppendFormat(&out, "e%s%02d", exponent < 0 ? "-" : "+",
                          std::abs(exponent));
  } else if (exponent < 0) {
    out += "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  } else if (count <= exponent + 1) {
    out += digits + std::string(static_cast<size_t>(exponent + 1 - count), '0');
    out += ".0";
  } else {
    const size_t whole = static_cast<size_t>(exponent) + 1;
    out += digits.substr(0, whole) + "." + digits.substr(whole);
  }
  return out;
}

absl::StatusOr<std::string> Repr(Runtime& runtime, const Value& value) {
  Writer writer(runtime);
  RETURN_IF_ERROR(writer.Write(value));
  return writer.Take();
}

absl::Status AppendStr(Runtime& runtime, const Value& value, Text& out) {
  if (value.is_undefined()) return absl::OkStatus();
  if (value.is_string()) {
    RETURN_IF_ERROR(runtime.budget.Produce(value.AsText().MemoryBytes()));
    out.Append(value.AsText());
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::string text, Repr(runtime, value));
  out.Append(text, /*trusted=*/false);
  return absl::OkStatus();
}

absl::StatusOr<Text> Str(Runtime& runtime, const Value& value) {
  Text out;
  RETURN_IF_ERROR(AppendStr(runtime, value, out));
  return out;
}

}  // namespace kvasir::jinja

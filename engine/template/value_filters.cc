// Filters of numbers and of any value.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/arithmetic.h"
#include "engine/template/filters.h"
#include "engine/template/operations.h"
#include "engine/template/python_text.h"
#include "engine/template/to_json.h"

namespace kvasir::jinja {
namespace {

// Without blanks around it and underscores between digits, as int() and float()
// of Python read it; nothing if an underscore is anywhere else.
std::optional<std::string> NumberText(std::string_view text) {
  constexpr size_t kMaxNumberBytes = 512;
  const absl::string_view bare = absl::StripAsciiWhitespace(View(text));
  if (bare.empty() || bare.size() > kMaxNumberBytes) return std::nullopt;
  std::string out;
  for (size_t i = 0; i < bare.size(); ++i) {
    if (bare[i] != '_') {
      out.push_back(bare[i]);
      continue;
    }
    const bool inside = i > 0 && i + 1 < bare.size() &&
                        absl::ascii_isalnum(bare[i - 1]) &&
                        absl::ascii_isalnum(bare[i + 1]);
    if (!inside) return std::nullopt;
  }
  return out;
}

std::optional<double> ParseFloat(std::string_view text) {
  const std::optional<std::string> number = NumberText(text);
  double value = 0;
  if (!number.has_value() || number->find_first_of("xXpP") != number->npos ||
      !absl::SimpleAtod(*number, &value)) {
    return std::nullopt;
  }
  return value;
}

// Whether the integer fits is another question than whether it is one.
absl::StatusOr<std::optional<int64_t>> ParseInt(std::string_view text,
                                                int base) {
  const std::optional<std::string> number = NumberText(text);
  if (!number.has_value()) return std::optional<int64_t>();
  const bool is_negative = (*number)[0] == '-';
  const size_t sign = is_negative || (*number)[0] == '+' ? 1 : 0;
  std::string digits = number->substr(sign);
  if (digits.size() > 2 && digits[0] == '0' && base != 10) {
    const char mark = absl::ascii_tolower(digits[1]);
    const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      digits.erase(0, 2);
      base = marked;
    }
  }
  if (base == 0) base = 10;
  int64_t value = 0;
  for (const char c : digits) {
    int digit = 99;
    if (absl::ascii_isdigit(c)) digit = c - '0';
    if (absl::ascii_isalpha(c)) digit = absl::ascii_tolower(c) - 'a' + 10;
    if (digit >= base) return std::optional<int64_t>();
    if (__builtin_mul_overflow(value, base, &value) ||
        __builtin_sub_overflow(value, digit, &value)) {
      return absl::InvalidArgumentError(
          "wanted an integer of 64 bits; found a larger one");
    }
  }
  if (digits.empty()) return std::optional<int64_t>();
  if (is_negative) return std::optional<int64_t>(value);
  if (value == std::numeric_limits<int64_t>::min()) {
    return absl::InvalidArgumentError(
        "wanted an integer of 64 bits; found a larger one");
  }
  return std::optional<int64_t>(-value);
}

absl::StatusOr<Value> Truncated(double value) {
  constexpr double kTooLarge = 9223372036854775808.0;  // 2^63
  if (std::isfinite(value) && std::abs(value) < kTooLarge) {
    return Value::Int(static_cast<int64_t>(value));
  }
  return absl::InvalidArgumentError(
      "wanted a number that fits an integer of 64 bits; found none");
}

absl::StatusOr<Value> ToInt(Runtime& runtime, const Value& self,
                            const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"default", "base"}));
  ASSIGN_OR_RETURN(const int64_t base, IntOr(bound[1], 10));
  if (base != 0 && (base < 2 || base > 36)) {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted a base of 0 or 2 to 36; found ", base));
  }
  const Value otherwise = bound[0] == nullptr ? Value::Int(0) : *bound[0];
  if (self.is_undefined()) return UndefinedFault(self);
  if (self.is_integer()) return Value::Int(self.AsInt());
  if (self.kind() == Value::Kind::kFloat) {
    if (std::isnan(self.AsFloat())) return otherwise;
    return Truncated(self.AsFloat());
  }
  if (!self.is_string()) return otherwise;
  RETURN_IF_ERROR(runtime.budget.Scan(self.AsText().size()));
  ASSIGN_OR_RETURN(const std::optional<int64_t> exact,
                   ParseInt(self.AsView(), static_cast<int>(base)));
  if (exact.has_value()) return Value::Int(*exact);
  const std::optional<double> number = ParseFloat(self.AsView());
  if (!number.has_value() || !std::isfinite(*number)) return otherwise;
  return Truncated(*number);
}

absl::StatusOr<Value> ToFloat(Runtime& runtime, const Value& self,
                              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"default"}));
  const Value otherwise = bound[0] == nullptr ? Value::Float(0) : *bound[0];
  if (self.is_undefined()) return UndefinedFault(self);
  if (self.is_number()) return Value::Float(self.AsFloat());
  if (!self.is_string()) return otherwise;
  RETURN_IF_ERROR(runtime.budget.Scan(self.AsText().size()));
  const std::optional<double> number = ParseFloat(self.AsView());
  return number.has_value() ? Value::Float(*number) : otherwise;
}

absl::StatusOr<Value> Abs(Runtime&, const Value& self,
                          const Arguments& arguments) {
  RETURN_IF_ERROR(Bind(arguments, {}).status());
  if (!self.is_number()) return TypeFault("wanted a number", self);
  if (self.kind() == Value::Kind::kFloat) {
    return Value::Float(std::abs(self.AsFloat()));
  }
  return self.AsInt() < 0 ? Negate(self) : Value::Int(self.AsInt());
}

// To the nearest, ties to the even digit, as Python's round().
absl::StatusOr<Value> RoundCommon(const Value& self, int64_t precision) {
  constexpr int64_t kDigits = 323;  // a double has no more
  if (self.is_integer() && precision >= 0) return Value::Int(self.AsInt());
  if (precision > kDigits) return self;
  if (precision >= 0) {
    char buffer[2 * kDigits];
    std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(precision),
                  self.AsFloat());
    return Value::Float(std::strtod(buffer, nullptr));
  }
  const double scale = std::pow(10.0, -static_cast<double>(precision));
  const double rounded = std::nearbyint(self.AsFloat() / scale) * scale;
  if (!std::isfinite(rounded)) return Value::Float(0);
  return self.is_integer() ? Truncated(rounded) : Value::Float(rounded);
}

absl::StatusOr<Value> Round(Runtime&, const Value& self,
                            const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"precision", "method"}));
  ASSIGN_OR_RETURN(const int64_t precision, IntOr(bound[0], 0));
  ASSIGN_OR_RETURN(const std::string_view method, BytesOr(bound[1], "common"));
  if (!self.is_number()) return TypeFault("wanted a number", self);
  if (method == "common") return RoundCommon(self, precision);
  if (method != "ceil" && method != "floor") {
    return absl::InvalidArgumentError("method must be common, ceil or floor");
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.AsFloat() * scale;
  const double whole =
      method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return Value::Float(whole / scale);
}

absl::StatusOr<Value> Default(Runtime& runtime, const Value& self,
                              const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound,
                   Bind(arguments, {"default_value", "boolean"}));
  const bool replaces =
      self.is_undefined() || (TruthOr(bound[1], false) && !IsTruthy(self));
  if (!replaces) return self;
  if (bound[0] != nullptr) return *bound[0];
  return MakeText(runtime, Text());
}

absl::StatusOr<Value> Attr(Runtime& runtime, const Value& self,
                           const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Bound bound, Bind(arguments, {"name"}));
  RETURN_IF_ERROR(Need(bound[0], "name"));
  ASSIGN_OR_RETURN(const std::string_view name, BytesOr(bound[0], ""));
  // Of a dict only what is no item.
  const Value object = self.is_dict() ? Value::FromDict(Dict()) : self;
  ASSIGN_OR_RETURN(Value value, GetAttribute(runtime, object, name));
  if (!self.is_dict() || value.is_undefined()) return value;
  return GetAttribute(runtime, self, name);
}

absl::StatusOr<Value> ToJsonFilter(Runtime& runtime, const Value& self,
                                   const Arguments& arguments) {
  ASSIGN_OR_RETURN(
      const Bound bound,
      Bind(arguments, {"ensure_ascii", "indent", "separators", "sort_keys"}));
  JsonStyle style;
  style.ensure_ascii = TruthOr(bound[0], false);
  style.sort_keys = TruthOr(bound[3], false);
  if (bound[1] != nullptr && !bound[1]->is_none()) {
    style.separator = std::string(1, ',');
    if (bound[1]->is_string()) {
      RETURN_IF_ERROR(runtime.budget.Produce(bound[1]->AsText().size()));
      style.indent = bound[1]->AsText().bytes();
    } else {
      ASSIGN_OR_RETURN(const int64_t width, IntOr(bound[1], 0));
      if (width > kMaxJsonIndent) {
        return absl::ResourceExhaustedError(
            absl::StrCat("wanted an indent of at most ", kMaxJsonIndent,
                         " (kMaxJsonIndent); found ", width));
      }
      style.indent =
          std::string(width > 0 ? static_cast<size_t>(width) : 0, ' ');
    }
  }
  if (bound[2] != nullptr && !bound[2]->is_none()) {
    ASSIGN_OR_RETURN(const ValueList pair, Iterate(runtime, *bound[2]));
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return absl::InvalidArgumentError("separators: wanted a pair of strings");
    }
    RETURN_IF_ERROR(runtime.budget.Produce(pair[0].AsText().size() +
                                           pair[1].AsText().size()));
    style.separator = pair[0].AsText().bytes();
    style.colon = pair[1].AsText().bytes();
  }
  ASSIGN_OR_RETURN(Text text, ToJson(runtime, self, style));
  return Value::String(std::move(text));
}

constexpr NamedFunction kFilters[] = {
    {"abs", Abs},         {"attr", Attr},           {"d", Default},
    {"default", Default}, {"float", ToFloat},       {"int", ToInt},
    {"round", Round},     {"tojson", ToJsonFilter},
};

}  // namespace

FunctionTable ValueFilters() { return kFilters; }

}  // namespace kvasir::jinja

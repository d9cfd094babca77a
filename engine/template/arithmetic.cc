#include "engine/template/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/string_format.h"
#include "engine/template/text_functions.h"

namespace kvasir::jinja {
namespace {

constexpr const char* kSymbols[] = {"+", "-", "*", "/", "//", "%", "**"};

const char* SymbolOf(BinaryOperator op) {
  return kSymbols[static_cast<size_t>(op)];
}

absl::Status Unsupported(BinaryOperator op, const Value& left,
                         const Value& right) {
  if (left.is_undefined()) return UndefinedFault(left);
  if (right.is_undefined()) return UndefinedFault(right);
  return absl::InvalidArgumentError(
      absl::StrCat("wanted operands that ", SymbolOf(op), " can join; found ",
                   View(left.TypeName()), " and ", View(right.TypeName())));
}

absl::Status Overflow() {
  return absl::InvalidArgumentError(
      "wanted an integer of 64 bits; found a larger one");
}

absl::Status DividesByZero() {
  return absl::InvalidArgumentError("division by zero");
}

absl::StatusOr<Value> IntPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) {
      return Overflow();
    }
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) {
      return Overflow();
    }
  }
  return Value::Int(result);
}

absl::StatusOr<Value> CalculateInts(BinaryOperator op, int64_t a, int64_t b) {
  int64_t out = 0;
  // The only quotient that does not fit.
  const bool is_largest = a == std::numeric_limits<int64_t>::min() && b == -1;
  switch (op) {
    case BinaryOperator::kAdd:
      if (__builtin_add_overflow(a, b, &out)) return Overflow();
      return Value::Int(out);
    case BinaryOperator::kSubtract:
      if (__builtin_sub_overflow(a, b, &out)) return Overflow();
      return Value::Int(out);
    case BinaryOperator::kMultiply:
      if (__builtin_mul_overflow(a, b, &out)) return Overflow();
      return Value::Int(out);
    case BinaryOperator::kDivide:
      if (b == 0) return DividesByZero();
      return Value::Float(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::kFloorDivide:
      if (b == 0) return DividesByZero();
      if (is_largest) return Overflow();
      return Value::Int(a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0));
    case BinaryOperator::kModulo:
      if (b == 0) return DividesByZero();
      if (is_largest) return Value::Int(0);
      out = a % b;
      return Value::Int(out != 0 && ((out < 0) != (b < 0)) ? out + b : out);
    case BinaryOperator::kPower:
      if (b >= 0) return IntPower(a, b);
      if (a == 0) return DividesByZero();
      return Value::Float(
          std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  return Overflow();
}

absl::StatusOr<Value> FloatPower(double a, double b) {
  if (a == 0 && b < 0) return DividesByZero();
  const double out = std::pow(a, b);
  const bool is_new = std::isfinite(a) && std::isfinite(b);
  if (is_new && !std::isfinite(out)) {
    return absl::InvalidArgumentError(
        "wanted a power that is a finite real number; found none");
  }
  return Value::Float(out);
}

absl::StatusOr<Value> CalculateFloats(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value::Float(a + b);
    case BinaryOperator::kSubtract:
      return Value::Float(a - b);
    case BinaryOperator::kMultiply:
      return Value::Float(a * b);
    case BinaryOperator::kPower:
      return FloatPower(a, b);
    default:
      break;
  }
  if (b == 0) return DividesByZero();
  if (op == BinaryOperator::kDivide) return Value::Float(a / b);
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (op == BinaryOperator::kModulo) {
    return Value::Float(rest == 0 ? std::copysign(0.0, b) : rest);
  }
  const double quotient = std::floor((a - rest) / b + 0.5);
  return Value::Float(quotient);
}

absl::StatusOr<Value> AddTexts(Runtime& runtime, Value left,
                               const Text& right) {
  if (left.AsText().is_markup() != right.is_markup()) {
    ASSIGN_OR_RETURN(
        Text escaped,
        EscapeMarkup(runtime.budget,
                     left.AsText().is_markup() ? right : left.AsText()));
    escaped.set_markup(true);
    if (left.AsText().is_markup()) {
      return AddTexts(runtime, std::move(left), escaped);
    }
    return AddTexts(runtime, Value::String(std::move(escaped)), right);
  }
  if (Text* text = left.UniqueText(); text != nullptr) {
    RETURN_IF_ERROR(runtime.budget.Produce(right.MemoryBytes()));
    text->Append(right);
    return left;
  }
  RETURN_IF_ERROR(runtime.budget.Produce(left.AsText().MemoryBytes() +
                                         right.MemoryBytes()));
  Text joined = left.AsText();
  joined.Append(right);
  return Value::String(std::move(joined));
}

absl::StatusOr<Value> AddSequences(Runtime& runtime, const Sequence& left,
                                   const Sequence& right) {
  RETURN_IF_ERROR(runtime.budget.Produce(
      (left.items.size() + right.items.size()) * sizeof(Value)));
  ValueList joined = left.items;
  joined.insert(joined.end(), right.items.begin(), right.items.end());
  return MakeSequence(runtime, left.kind, std::move(joined));
}

absl::StatusOr<Value> RepeatText(Runtime& runtime, const Text& text,
                                 int64_t count) {
  if (count <= 0 || text.empty()) return MakeText(runtime, Text());
  const auto times = static_cast<size_t>(count);
  const size_t each =
      text.size() + (text.runs().size() - 1) * sizeof(Text::Run);
  // Divided, so that no product can overflow.
  const bool is_huge = times > SIZE_MAX / 2 / each;
  RETURN_IF_ERROR(
      runtime.budget.Produce(is_huge ? SIZE_MAX : sizeof(Text) + times * each));
  Text out;
  out.set_markup(text.is_markup());
  for (size_t i = 0; i < times; ++i) out.Append(text);
  return Value::String(std::move(out));
}

absl::StatusOr<Value> RepeatSequence(Runtime& runtime, const Sequence& sequence,
                                     int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(0, count));
  ValueList items;
  if (!sequence.items.empty() && times > 0) {
    if (times > kMaxItems / sequence.items.size()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "wanted at most ", kMaxItems, " items (kMaxItems); found more"));
    }
    RETURN_IF_ERROR(
        runtime.budget.Produce(times * sequence.items.size() * sizeof(Value)));
    for (size_t i = 0; i < times; ++i) {
      items.insert(items.end(), sequence.items.begin(), sequence.items.end());
    }
  }
  return MakeSequence(runtime, sequence.kind, std::move(items));
}

bool IsListOrTuple(const Value& value) {
  return value.is_sequence() &&
         value.AsSequence().kind <= Sequence::Kind::kTuple;
}

// What a text or a list and a number or another of its kind can do.
absl::StatusOr<Value> CalculateOther(Runtime& runtime, BinaryOperator op,
                                     Value left, const Value& right) {
  if (op == BinaryOperator::kAdd) {
    if (left.is_string() && right.is_string()) {
      return AddTexts(runtime, std::move(left), right.AsText());
    }
    if (IsListOrTuple(left) && IsListOrTuple(right) &&
        left.AsSequence().kind == right.AsSequence().kind) {
      return AddSequences(runtime, left.AsSequence(), right.AsSequence());
    }
  } else if (op == BinaryOperator::kMultiply) {
    const bool turned = left.is_integer();
    const Value& what = turned ? right : left;
    const Value& count = turned ? left : right;
    if (count.is_integer() && what.is_string()) {
      return RepeatText(runtime, what.AsText(), count.AsInt());
    }
    if (count.is_integer() && IsListOrTuple(what)) {
      return RepeatSequence(runtime, what.AsSequence(), count.AsInt());
    }
  } else if (op == BinaryOperator::kModulo && left.is_string()) {
    return PercentFormat(runtime, left.AsText(), right);
  }
  return Unsupported(op, left, right);
}

}  // namespace

absl::StatusOr<Value> Calculate(Runtime& runtime, BinaryOperator op, Value left,
                                const Value& right) {
  if (left.is_integer() && right.is_integer()) {
    return CalculateInts(op, left.AsInt(), right.AsInt());
  }
  if (left.is_number() && right.is_number()) {
    return CalculateFloats(op, left.AsFloat(), right.AsFloat());
  }
  return CalculateOther(runtime, op, std::move(left), right);
}

absl::StatusOr<Value> Negate(const Value& value) {
  if (value.kind() == Value::Kind::kFloat) {
    return Value::Float(-value.AsFloat());
  }
  if (!value.is_integer()) return TypeFault("wanted a number after -", value);
  if (value.AsInt() == std::numeric_limits<int64_t>::min()) return Overflow();
  return Value::Int(-value.AsInt());
}

}  // namespace kvasir::jinja

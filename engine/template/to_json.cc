#include "engine/template/to_json.h"

#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "cache/base/status_macros.h"
#include "engine/template/filters.h"
#include "engine/template/python_text.h"

namespace kvasir::jinja {
namespace {

std::string JsonFloat(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return FloatRepr(value);
}

// The escape of a character; empty if it stands for itself.
std::string EscapeOf(char32_t code, bool ensure_ascii) {
  switch (code) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\f':
      return "\\f";
    case '\b':
      return "\\b";
    default:
      break;
  }
  if (code < 0x20 || (ensure_ascii && code > 0x7E && code < 0x10000)) {
    return absl::StrFormat("\\u%04x", static_cast<uint32_t>(code));
  }
  if (!ensure_ascii || code < 0x10000) return "";
  const auto rest = static_cast<uint32_t>(code) - 0x10000;
  return absl::StrFormat("\\u%04x\\u%04x", 0xD800 + (rest >> 10),
                         0xDC00 + (rest & 0x3FF));
}

class JsonWriter {
 public:
  JsonWriter(Runtime& runtime, const JsonStyle& style)
      : runtime_(runtime), style_(style) {}

  absl::Status Write(const Value& value);
  Text Take() { return std::move(out_); }

 private:
  absl::Status Add(std::string_view text) {
    RETURN_IF_ERROR(runtime_.budget.Produce(text.size() + 1));
    out_.Append(text, /*trusted=*/false);
    return absl::OkStatus();
  }
  absl::Status Break();
  absl::Status WriteText(const Text& text);
  absl::Status WriteList(const ValueList& items);
  absl::Status WriteDict(const Dict& dict);
  absl::Status WriteKey(const Value& key);

  Runtime& runtime_;
  const JsonStyle& style_;
  int depth_ = 0;
  Text out_;
};

// A new line at today's depth, if there are lines.
absl::Status JsonWriter::Break() {
  if (!style_.indent.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(Add("\n"));
  for (int i = 0; i < depth_; ++i) RETURN_IF_ERROR(Add(*style_.indent));
  return absl::OkStatus();
}

absl::Status JsonWriter::WriteText(const Text& text) {
  RETURN_IF_ERROR(Add("\""));
  RETURN_IF_ERROR(runtime_.budget.Produce(text.MemoryBytes()));
  size_t plain = 0;  // where what is not yet copied starts
  for (TextCursor at(text); !at.done(); at.Next()) {
    const bool is_plain = at.code() >= 0x20 && at.code() != '"' &&
                          at.code() != '\\' && at.code() < 0x7F;
    if (is_plain) continue;
    const std::string escape = EscapeOf(at.code(), style_.ensure_ascii);
    if (escape.empty()) continue;
    out_.Append(text, plain, at.offset());
    RETURN_IF_ERROR(Add(escape));
    plain = at.offset() + at.bytes().size();
  }
  out_.Append(text, plain, text.size());
  return Add("\"");
}

absl::Status JsonWriter::WriteList(const ValueList& items) {
  if (items.empty()) return Add("[]");
  RETURN_IF_ERROR(Add("["));
  ++depth_;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) RETURN_IF_ERROR(Add(style_.separator));
    RETURN_IF_ERROR(Break());
    RETURN_IF_ERROR(Write(items[i]));
  }
  --depth_;
  RETURN_IF_ERROR(Break());
  return Add("]");
}

absl::Status JsonWriter::WriteKey(const Value& key) {
  if (key.is_string()) return WriteText(key.AsText());
  switch (key.kind()) {
    case Value::Kind::kBool:
      return Add(key.AsBool() ? "\"true\"" : "\"false\"");
    case Value::Kind::kNone:
      return Add("\"null\"");
    case Value::Kind::kInt:
      return Add(absl::StrCat("\"", key.AsInt(), "\""));
    case Value::Kind::kFloat:
      return Add(absl::StrCat("\"", JsonFloat(key.AsFloat()), "\""));
    default:
      return TypeFault("keys must be str, int, float, bool or None", key);
  }
}

absl::Status JsonWriter::WriteDict(const Dict& dict) {
  if (dict.size() == 0) return Add("{}");
  Dict::Items sorted;
  if (style_.sort_keys) {
    ASSIGN_OR_RETURN(sorted, SortedItems(runtime_, dict));
  }
  RETURN_IF_ERROR(Add("{"));
  ++depth_;
  bool is_first = true;
  for (const auto& [key, value] : style_.sort_keys ? sorted : dict.items()) {
    if (!is_first) RETURN_IF_ERROR(Add(style_.separator));
    is_first = false;
    RETURN_IF_ERROR(Break());
    RETURN_IF_ERROR(WriteKey(key));
    RETURN_IF_ERROR(Add(style_.colon));
    RETURN_IF_ERROR(Write(value));
  }
  --depth_;
  RETURN_IF_ERROR(Break());
  return Add("}");
}

absl::Status JsonWriter::Write(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kNone:
      return Add("null");
    case Value::Kind::kBool:
      return Add(value.AsBool() ? "true" : "false");
    case Value::Kind::kInt:
      return Add(absl::StrCat(value.AsInt()));
    case Value::Kind::kFloat:
      return Add(JsonFloat(value.AsFloat()));
    case Value::Kind::kString:
      return WriteText(value.AsText());
    case Value::Kind::kDict:
      return WriteDict(value.AsDict());
    case Value::Kind::kSequence:
      if (value.AsSequence().kind <= Sequence::Kind::kGroup) {
        return WriteList(value.AsSequence().items);
      }
      break;
    default:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "Object of type ", View(value.TypeName()), " is not JSON serializable"));
}

}  // namespace

absl::StatusOr<Text> ToJson(Runtime& runtime, const Value& value,
                            const JsonStyle& style) {
  JsonWriter writer(runtime, style);
  RETURN_IF_ERROR(writer.Write(value));
  return writer.Take();
}

}  // namespace kvasir::jinja

#include "server/chat_codec.h"

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/field_fault.h"

namespace kvasir {
namespace {

using google::protobuf::Struct;

absl::Status CheckMost(const std::string& field, size_t most, const char* unit,
                       size_t found) {
  if (found <= most) return absl::OkStatus();
  return FieldFault(field, absl::StrCat("at most ", most, " ", unit), found);
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

// Appends values as JSON text.
class JsonWriter {
 public:
  absl::Status Write(const std::string& field, const Struct& wire, int depth);
  std::string Take() { return std::move(out_); }

 private:
  absl::Status Write(const std::string& field,
                     const google::protobuf::Value& wire, int depth);
  absl::Status WriteNumber(const std::string& field, double number);
  absl::Status WriteList(const std::string& field,
                         const google::protobuf::ListValue& wire, int depth);

  std::string out_;
};

absl::Status CheckDepth(const std::string& field, int depth) {
  if (depth <= kMaxTemplateKwargsDepth) return absl::OkStatus();
  return FieldFault(
      field,
      absl::StrCat("values nested at most ", kMaxTemplateKwargsDepth, " deep"),
      "more");
}

absl::Status JsonWriter::WriteNumber(const std::string& field, double number) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!std::isfinite(number)) {
    return FieldFault(field, "a finite number", absl::StrCat(number));
  }
  if (std::trunc(number) == number && std::abs(number) <= kExact) {
    absl::StrAppend(&out_, static_cast<int64_t>(number));
  } else {
    std::string digits = absl::StrFormat("%.17g", number);
    // A large whole number stays a float.
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    out_ += digits;
  }
  return absl::OkStatus();
}

// The place of a member whose name is the client's: for an error, which is a
// line of text and fits a status.
std::string MemberOf(const std::string& field, const std::string& name) {
  constexpr size_t kMaxPlaceBytes = 256;
  constexpr size_t kMaxPlainBytes = 64;
  if (field.size() > kMaxPlaceBytes) return field;
  const bool is_plain = !name.empty() && name.size() <= kMaxPlainBytes &&
                        absl::c_all_of(name, [](unsigned char c) {
                          return absl::ascii_isalnum(c) || c == '_' || c == '-';
                        });
  return is_plain ? absl::StrCat(field, ".", name)
                  : absl::StrCat(field, "[", QuoteText(name), "]");
}

absl::Status JsonWriter::WriteList(const std::string& field,
                                   const google::protobuf::ListValue& wire,
                                   int depth) {
  RETURN_IF_ERROR(CheckDepth(field, depth));
  out_ += '[';
  for (int i = 0; i < wire.values_size(); ++i) {
    if (i > 0) out_ += ',';
    RETURN_IF_ERROR(
        Write(absl::StrCat(field, "[", i, "]"), wire.values(i), depth));
  }
  out_ += ']';
  return absl::OkStatus();
}

absl::Status JsonWriter::Write(const std::string& field,
                               const google::protobuf::Value& wire, int depth) {
  switch (wire.kind_case()) {
    case google::protobuf::Value::kNullValue:
      out_ += "null";
      return absl::OkStatus();
    case google::protobuf::Value::kNumberValue:
      return WriteNumber(field, wire.number_value());
    case google::protobuf::Value::kStringValue:
      out_ += Quoted(wire.string_value());
      return absl::OkStatus();
    case google::protobuf::Value::kBoolValue:
      out_ += wire.bool_value() ? "true" : "false";
      return absl::OkStatus();
    case google::protobuf::Value::kStructValue:
      return Write(field, wire.struct_value(), depth + 1);
    case google::protobuf::Value::kListValue:
      return WriteList(field, wire.list_value(), depth + 1);
    case google::protobuf::Value::KIND_NOT_SET:
      break;
  }
  return FieldFault(field, "a value", "none");
}

absl::Status JsonWriter::Write(const std::string& field, const Struct& wire,
                               int depth) {
  RETURN_IF_ERROR(CheckDepth(field, depth));
  std::map<std::string, const google::protobuf::Value*> sorted;
  for (const auto& [name, value] : wire.fields()) sorted[name] = &value;
  out_ += '{';
  bool is_first = true;
  for (const auto& [name, value] : sorted) {
    if (!is_first) out_ += ',';
    is_first = false;
    out_ += Quoted(name) + ':';
    RETURN_IF_ERROR(Write(MemberOf(field, name), *value, depth));
  }
  out_ += '}';
  return absl::OkStatus();
}

size_t MessageBytes(const v1::ChatMessage& message) {
  return message.role().size() + message.content().size();
}

size_t ToolBytes(const v1::ChatPrompt& chat) {
  size_t bytes = 0;
  for (const std::string& tool : chat.tools()) bytes += tool.size();
  return bytes;
}

absl::Status CheckMessages(const v1::ChatPrompt& chat) {
  RETURN_IF_ERROR(CheckMost("chat.messages", kMaxChatMessages, "messages",
                            static_cast<size_t>(chat.messages_size())));
  for (int i = 0; i < chat.messages_size(); ++i) {
    RETURN_IF_ERROR(CheckMost(
        absl::StrCat("chat.messages[", i, "].tool_calls"), kMaxToolCalls,
        "calls", static_cast<size_t>(chat.messages(i).tool_calls_size())));
  }
  size_t arguments = 0;
  for (const v1::ChatMessage& message : chat.messages()) {
    for (const v1::ToolCall& call : message.tool_calls()) {
      arguments += call.arguments().size();
    }
  }
  return CheckMost("chat.messages", kMaxToolsBytes,
                   "bytes of arguments of tool calls", arguments);
}

bool AddsGenerationPrompt(const v1::ChatPrompt& chat) {
  if (chat.has_add_generation_prompt()) return chat.add_generation_prompt();
  return !chat.continue_final_message();
}

}  // namespace

size_t PrintedBytes(const v1::ChatPrompt& chat) {
  size_t bytes = 0;
  for (const v1::ChatMessage& message : chat.messages()) {
    bytes += MessageBytes(message);
  }
  return bytes;
}

size_t TextBytes(const v1::ChatPrompt& chat) {
  size_t bytes = ToolBytes(chat) + chat.template_kwargs().ByteSizeLong();
  for (const v1::ChatMessage& message : chat.messages()) {
    bytes += MessageBytes(message) + message.name().size() +
             message.tool_call_id().size();
    for (const v1::ToolCall& call : message.tool_calls()) {
      bytes += call.id().size() + call.name().size() + call.arguments().size();
    }
  }
  return bytes;
}

size_t WorkBytes(const v1::ChatPrompt& chat) {
  int parts = chat.messages_size() + chat.tools_size();
  for (const v1::ChatMessage& message : chat.messages()) {
    parts += message.tool_calls_size();
  }
  return TextBytes(chat) + static_cast<size_t>(parts) * kWorkBytesOfPart;
}

absl::Status CheckChat(const v1::ChatPrompt& chat) {
  RETURN_IF_ERROR(CheckMessages(chat));
  RETURN_IF_ERROR(CheckMost("chat.tools", kMaxTools, "tools",
                            static_cast<size_t>(chat.tools_size())));
  RETURN_IF_ERROR(
      CheckMost("chat.tools", kMaxToolsBytes, "bytes", ToolBytes(chat)));
  RETURN_IF_ERROR(CheckMost("chat.template_kwargs", kMaxTemplateKwargsBytes,
                            "bytes", chat.template_kwargs().ByteSizeLong()));
  RETURN_IF_ERROR(
      StructToJson("chat.template_kwargs", chat.template_kwargs()).status());
  if (chat.continue_final_message() && AddsGenerationPrompt(chat)) {
    return FieldFault("chat.continue_final_message",
                      "chat.add_generation_prompt to be false with it", "true");
  }
  return CheckTextBytes("chat.messages", TextBytes(chat));
}

absl::StatusOr<Conversation> DecodeChat(const v1::ChatPrompt& chat) {
  Conversation out;
  out.messages.reserve(static_cast<size_t>(chat.messages_size()));
  for (const v1::ChatMessage& message : chat.messages()) {
    ChatMessage one;
    one.role = message.role();
    one.content = message.content();
    one.name = message.name();
    one.tool_call_id = message.tool_call_id();
    for (const v1::ToolCall& call : message.tool_calls()) {
      one.tool_calls.push_back({call.id(), call.name(), call.arguments()});
    }
    out.messages.push_back(std::move(one));
  }
  out.tools.assign(chat.tools().begin(), chat.tools().end());
  if (chat.template_kwargs().fields_size() > 0) {
    ASSIGN_OR_RETURN(out.template_kwargs, StructToJson("chat.template_kwargs",
                                                       chat.template_kwargs()));
  }
  out.add_generation_prompt = AddsGenerationPrompt(chat);
  out.continue_final_message = chat.continue_final_message();
  out.now = absl::Now();
  return out;
}

absl::StatusOr<std::vector<TokenId>> EncodeConversation(
    const Conversation& conversation, const ServedModel& model,
    MessageRange left_out) {
  absl::StatusOr<std::vector<TokenId>> ids =
      EncodeChat(*model.tokenizer, conversation, left_out);
  if (absl::IsInvalidArgument(ids.status()) ||
      absl::IsResourceExhausted(ids.status())) {
    // The model room knows the fields, not where they lie in the request.
    return absl::Status(ids.status().code(),
                        absl::StrCat("chat.", ids.status().message()));
  }
  return ids;
}

absl::StatusOr<std::vector<TokenId>> EncodeChatPrompt(
    const v1::ChatPrompt& chat, const ServedModel& model) {
  ASSIGN_OR_RETURN(const Conversation conversation, DecodeChat(chat));
  return EncodeConversation(conversation, model);
}

absl::StatusOr<std::string> StructToJson(const std::string& field,
                                         const Struct& wire) {
  JsonWriter writer;
  RETURN_IF_ERROR(writer.Write(field, wire, /*depth=*/1));
  return writer.Take();
}

}  // namespace kvasir

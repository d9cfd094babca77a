#include "engine/model/chat_context.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "engine/template/json_reader.h"

namespace kvasir {
namespace {

using jinja::Dict;
using jinja::Value;

// Words of the host rather than of a client, so that templates may build
// control tokens with them.
constexpr std::string_view kRoles[] = {
    "system",   "user",  "assistant", "tool",        "developer",
    "function", "model", "ipython",   "observation", "context"};

// Variables that template_kwargs must leave alone, beside special tokens.
constexpr std::string_view kOwnVariables[] = {"messages", "tools",
                                              "add_generation_prompt"};

absl::Status Fault(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", what));
}

// The JSON text of an object.
absl::StatusOr<Value> ReadObject(absl::string_view field,
                                 std::string_view text) {
  absl::StatusOr<Value> value = jinja::ReadJson(text);
  if (!value.ok()) return Fault(field, value.status().message());
  if (value->is_dict()) return value;
  return Fault(field,
               absl::StrCat("wanted a JSON object; found ", QuoteText(text)));
}

Value DataText(std::string_view text) {
  return Value::String(text, /*trusted=*/false);
}

absl::StatusOr<Value> MakeToolCalls(absl::string_view field,
                                    const std::vector<ChatToolCall>& calls) {
  std::vector<Value> out;
  for (size_t i = 0; i < calls.size(); ++i) {
    const ChatToolCall& call = calls[i];
    Value arguments = Value::FromDict(Dict());
    if (!call.arguments.empty()) {
      ASSIGN_OR_RETURN(arguments, ReadObject(absl::StrCat(field, ".tool_calls[",
                                                          i, "].arguments"),
                                             call.arguments));
    }
    Dict function;
    function.Set("name", DataText(call.name));
    function.Set("arguments", std::move(arguments));
    Dict one;
    if (!call.id.empty()) one.Set("id", DataText(call.id));
    one.Set("type", DataText("function"));
    one.Set("function", Value::FromDict(std::move(function)));
    out.push_back(Value::FromDict(std::move(one)));
  }
  return Value::List(std::move(out));
}

absl::StatusOr<Value> MakeMessage(absl::string_view field,
                                  const ChatMessage& message,
                                  jinja::Origin origin) {
  const bool usual = std::find(std::begin(kRoles), std::end(kRoles),
                               message.role) != std::end(kRoles);
  Dict out;
  out.Set("role", Value::String(message.role, /*trusted=*/usual));
  const bool only_calls =
      message.content.empty() && !message.tool_calls.empty();
  out.Set("content",
          only_calls ? Value::None() : Value::String(message.content, origin));
  if (!message.name.empty()) out.Set("name", DataText(message.name));
  if (!message.tool_call_id.empty()) {
    out.Set("tool_call_id", DataText(message.tool_call_id));
  }
  if (!message.tool_calls.empty()) {
    ASSIGN_OR_RETURN(Value calls, MakeToolCalls(field, message.tool_calls));
    out.Set("tool_calls", std::move(calls));
  }
  return Value::FromDict(std::move(out));
}

void SetSpecialTokens(const Tokenizer& tokenizer, Dict& context) {
  const auto set = [&](std::string_view name, TokenId id) {
    if (id < 0) return;
    context.Set(name,
                Value::String(tokenizer.TokenBytes(id), /*trusted=*/true));
  };
  set("bos_token", tokenizer.bos());
  set("eos_token", tokenizer.eos());
  for (const auto& [name, id] : tokenizer.named_tokens()) set(name, id);
}

absl::Status AddVariables(std::string_view json, Dict& context) {
  constexpr absl::string_view kField = "template_kwargs";
  if (json.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Value all, ReadObject(kField, json));
  for (const auto& [name, value] : all.AsDict().items()) {
    const std::string_view word = name.AsView();
    const Value* old = context.Find(word);
    // Of the host's texts all are special tokens.
    const bool is_taken =
        std::find(std::begin(kOwnVariables), std::end(kOwnVariables), word) !=
            std::end(kOwnVariables) ||
        (old != nullptr && old->is_string());
    if (is_taken) {
      return Fault(absl::StrCat(kField, ".", name.AsText().bytes()),
                   "wanted another name, since the server sets this one");
    }
    context.Set(word, value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Dict> MakeChatContext(const Tokenizer& tokenizer,
                                     const Conversation& conversation,
                                     MessageRange left_out) {
  Dict context;
  std::vector<Value> messages;
  for (size_t i = 0; i < conversation.messages.size(); ++i) {
    if (left_out.begin <= i && i < left_out.end) continue;
    const bool is_marked = conversation.continue_final_message &&
                           i + 1 == conversation.messages.size();
    ASSIGN_OR_RETURN(
        Value message,
        MakeMessage(absl::StrCat("messages[", i, "]"), conversation.messages[i],
                    is_marked ? jinja::Origin::kMarked : jinja::Origin::kData));
    messages.push_back(std::move(message));
  }
  context.Set("messages", Value::List(std::move(messages)));
  std::vector<Value> tools;
  for (size_t i = 0; i < conversation.tools.size(); ++i) {
    ASSIGN_OR_RETURN(Value tool, ReadObject(absl::StrCat("tools[", i, "]"),
                                            conversation.tools[i]));
    tools.push_back(std::move(tool));
  }
  context.Set("tools",
              tools.empty() ? Value::None() : Value::List(std::move(tools)));
  context.Set("documents", Value::None());
  context.Set("add_generation_prompt",
              Value::Bool(conversation.add_generation_prompt));
  SetSpecialTokens(tokenizer, context);
  RETURN_IF_ERROR(AddVariables(conversation.template_kwargs, context));
  return context;
}

}  // namespace kvasir

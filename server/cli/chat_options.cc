#include "server/cli/chat_options.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/cli/client.h"
#include "server/cli/field_options.h"
#include "server/cli/generation.h"
#include "server/cli/json_input.h"
#include "server/cli/option_values.h"

namespace kvasir::cli {
namespace {

constexpr const char* kChatGroup = "Chat";

// What `read` makes of a file, or an empty optional and a complaint.
template <typename Value>
std::optional<Value> ReadJsonFile(
    const std::string& path,
    absl::StatusOr<Value> (*read)(const std::string&)) {
  const std::optional<std::string> text = ReadFile(path);
  if (!text.has_value()) return std::nullopt;
  absl::StatusOr<Value> value = read(*text);
  if (value.ok()) return *std::move(value);
  const absl::string_view fault = value.status().message();
  Complain(absl::StrCat(path, absl::StartsWith(fault, "[") ? "" : ": ", fault));
  return std::nullopt;
}

}  // namespace

void ChatOptions::AddTo(CLI::App& command) {
  FieldOptions options(command, kChatGroup);
  CLI::Option* const system =
      options.Once("--system", "TEXT", "System message", ReadWord,
                   [this](const std::string& v) { system_ = v; });
  options
      .Once("--system-file", "FILE", "The same from a file", ReadWord,
            [this](const std::string& v) { system_file_ = v; })
      ->excludes(system);
  options.Once("--messages", "FILE",
               "JSON list of messages before the next one: role, content, "
               "name, tool_calls, tool_call_id",
               ReadWord, [this](const std::string& v) { messages_file_ = v; });
  options.Once("--tools", "FILE", "JSON list of tools that the model may call",
               ReadWord, [this](const std::string& v) { tools_file_ = v; });
  options.Once("--chat-template-kwargs", "JSON",
               "Object with more variables for the chat template", ReadStruct,
               [this](const google::protobuf::Struct& v) {
                 *prompt_.mutable_template_kwargs() = v;
               });
}

void ChatOptions::AddEndTo(CLI::App& command) {
  FieldOptions options(command, kChatGroup);
  options.Either("--add-generation-prompt",
                 "Open an answer after the messages: default",
                 "--no-add-generation-prompt", "Open none",
                 [this](bool v) { prompt_.set_add_generation_prompt(v); });
  options.Flag("--continue-final-message",
               "Go on with the last of --messages instead; without -p",
               [this] { prompt_.set_continue_final_message(true); });
}

bool ChatOptions::Given() const {
  return system_.has_value() || system_file_.has_value() || HasMessages() ||
         tools_file_.has_value() || prompt_.has_template_kwargs() ||
         prompt_.has_add_generation_prompt() ||
         prompt_.has_continue_final_message();
}

std::optional<v1::ChatPrompt> ChatOptions::Read() const {
  v1::ChatPrompt prompt = prompt_;
  std::optional<std::string> system = system_;
  if (system_file_.has_value()) {
    system = ReadFile(*system_file_);
    if (!system.has_value()) return std::nullopt;
  }
  if (system.has_value()) {
    v1::ChatMessage& message = *prompt.add_messages();
    message.set_role("system");
    message.set_content(*system);
  }
  if (messages_file_.has_value()) {
    auto messages = ReadJsonFile(*messages_file_, ReadMessages);
    if (!messages.has_value()) return std::nullopt;
    for (v1::ChatMessage& message : *messages) {
      *prompt.add_messages() = std::move(message);
    }
  }
  if (tools_file_.has_value()) {
    auto tools = ReadJsonFile(*tools_file_, ReadTools);
    if (!tools.has_value()) return std::nullopt;
    for (std::string& tool : *tools) prompt.add_tools(std::move(tool));
  }
  return prompt;
}

}  // namespace kvasir::cli

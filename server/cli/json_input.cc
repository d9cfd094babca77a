#include "server/cli/json_input.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

#include "cache/base/status_macros.h"

namespace kvasir::cli {
namespace {

using Json = nlohmann::ordered_json;

absl::Status Fault(absl::string_view wanted, absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("wanted ", wanted, ", found ", found));
}

absl::StatusOr<Json> Parse(const std::string& text) {
  int deepest = 0;
  const auto keep_shallow = [&deepest](int depth, Json::parse_event_t, Json&) {
    deepest = std::max(deepest, depth);
    return depth <= kMaxJsonDepth;
  };
  // The library tells where a fault is only by exception.
  try {
    Json json = Json::parse(text, keep_shallow);
    if (deepest <= kMaxJsonDepth) return json;
    return Fault(absl::StrCat("JSON nested at most ", kMaxJsonDepth, " deep"),
                 "more");
  } catch (const nlohmann::json::parse_error& error) {
    return Fault("JSON", absl::StrCat("a fault at byte ", error.byte));
  } catch (const nlohmann::json::out_of_range&) {
    return Fault("JSON", "a number out of range");
  }
}

// OpenAI's form of a call as ours.
absl::Status Flatten(Json& call) {
  if (!call.is_object()) return Fault("an object", call.type_name());
  if (call.contains("function")) {
    const Json inner = call["function"];
    call.erase("function");
    call.erase("type");
    if (!inner.is_object()) return Fault("an object", inner.type_name());
    for (const auto& [key, value] : inner.items()) call[key] = value;
  }
  if (call.contains("arguments") && call["arguments"].is_object()) {
    const std::string written = call["arguments"].dump();
    call["arguments"] = written;
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::ChatMessage> ReadMessage(Json json) {
  if (!json.is_object()) return Fault("an object", json.type_name());
  if (json.contains("content") && json["content"].is_null()) {
    json.erase("content");
  }
  if (json.contains("tool_calls") && json["tool_calls"].is_array()) {
    for (Json& call : json["tool_calls"]) RETURN_IF_ERROR(Flatten(call));
  }
  v1::ChatMessage message;
  const auto read =
      google::protobuf::util::JsonStringToMessage(json.dump(), &message);
  if (read.ok()) return message;
  // What follows the first line draws where in a text nobody has seen.
  const absl::string_view words(read.message().data(), read.message().size());
  return Fault("a message of a chat",
               absl::StrCat("a fault: ", words.substr(0, words.find('\n'))));
}

}  // namespace

absl::Status CheckJsonObject(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, Parse(text));
  if (json.is_object()) return absl::OkStatus();
  return Fault("a JSON object", json.type_name());
}

absl::StatusOr<std::vector<v1::ChatMessage>> ReadMessages(
    const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, Parse(text));
  if (!json.is_array()) {
    return Fault("a JSON list of messages", json.type_name());
  }
  std::vector<v1::ChatMessage> messages;
  for (const Json& one : json) {
    absl::StatusOr<v1::ChatMessage> message = ReadMessage(one);
    if (!message.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "[", messages.size(), "]: ", message.status().message()));
    }
    messages.push_back(*std::move(message));
  }
  return messages;
}

absl::StatusOr<std::vector<std::string>> ReadTools(const std::string& text) {
  ASSIGN_OR_RETURN(const Json json, Parse(text));
  if (json.is_object()) return std::vector<std::string>{json.dump()};
  if (!json.is_array()) {
    return Fault("a JSON object or a list of them", json.type_name());
  }
  std::vector<std::string> tools;
  for (const Json& tool : json) tools.push_back(tool.dump());
  return tools;
}

}  // namespace kvasir::cli

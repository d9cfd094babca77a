#include "server/warm_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "cache/retention.h"
#include "engine/model/utf8.h"
#include "server/config_values.h"
#include "server/yaml_place.h"
#include "yaml-cpp/yaml.h"

namespace kvasir {
namespace {

// Where something stands in the file, for errors.
class Place {
 public:
  Place(const std::string& name, const YAML::Node& node)
      : text_(absl::StrCat(YamlPlace(name, node.Mark()), ": ")) {}

  absl::Status Fault(std::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(text_, absl::string_view(what.data(), what.size())));
  }
  // Another reader's fault at this place.
  absl::Status Fault(std::string_view key, const absl::Status& why) const {
    return absl::InvalidArgumentError(absl::StrCat(
        text_, absl::string_view(key.data(), key.size()), ": ", why.message()));
  }

 private:
  const std::string text_;
};

absl::StatusOr<std::string> Text(const std::string& name, std::string_view key,
                                 const YAML::Node& node) {
  const Place place(name, node);
  if (!node.IsScalar()) {
    return place.Fault(absl::StrCat(absl::string_view(key.data(), key.size()),
                                    ": wanted a text"));
  }
  if (WellFormedBytes(node.Scalar()) != node.Scalar().size()) {
    return place.Fault(absl::StrCat(absl::string_view(key.data(), key.size()),
                                    ": wanted UTF-8"));
  }
  return node.Scalar();
}

absl::StatusOr<int64_t> Count(const std::string& name, std::string_view key,
                              const YAML::Node& node, int64_t highest) {
  ASSIGN_OR_RETURN(const std::string text, Text(name, key, node));
  const absl::StatusOr<int64_t> count = ParseCount(text, 0, highest);
  if (count.ok()) return count;
  return Place(name, node).Fault(key, count.status());
}

absl::Status ReadIds(const std::string& name, const YAML::Node& node,
                     v1::WarmPrompt& prompt) {
  if (!node.IsSequence()) {
    return Place(name, node).Fault("token_ids: wanted a list of numbers");
  }
  v1::TokenIds& ids = *prompt.mutable_token_ids();
  for (const YAML::Node& id : node) {
    ASSIGN_OR_RETURN(
        const int64_t value,
        Count(name, "token_ids", id, std::numeric_limits<int32_t>::max()));
    ids.add_ids(static_cast<uint32_t>(value));
  }
  return absl::OkStatus();
}

absl::Status ReadMessage(const std::string& name, const YAML::Node& node,
                         v1::ChatMessage& message) {
  if (!node.IsMap()) {
    return Place(name, node).Fault("chat: wanted {role: ..., content: ...}");
  }
  for (const auto& entry : node) {
    ASSIGN_OR_RETURN(const std::string key, Text(name, "key", entry.first));
    if (key != "role" && key != "content") {
      return Place(name, entry.first)
          .Fault(absl::StrCat("chat: unknown key ", QuoteText(key)));
    }
    ASSIGN_OR_RETURN(std::string text, Text(name, key, entry.second));
    if (key == "role") message.set_role(std::move(text));
    if (key == "content") message.set_content(std::move(text));
  }
  if (!message.role().empty()) return absl::OkStatus();
  return Place(name, node).Fault("chat: wanted a role, found none");
}

absl::Status ReadChat(const std::string& name, const YAML::Node& node,
                      v1::WarmPrompt& prompt) {
  if (!node.IsSequence() || node.size() == 0) {
    return Place(name, node).Fault("chat: wanted a list of messages");
  }
  v1::ChatPrompt& chat = *prompt.mutable_chat();
  chat.set_add_generation_prompt(false);
  for (const YAML::Node& message : node) {
    RETURN_IF_ERROR(ReadMessage(name, message, *chat.add_messages()));
  }
  return absl::OkStatus();
}

absl::Status ReadTtl(const std::string& name, const YAML::Node& node,
                     v1::WarmPrompt& prompt) {
  ASSIGN_OR_RETURN(const std::string text, Text(name, "ttl", node));
  const absl::StatusOr<absl::Duration> ttl = ParseDuration(text);
  if (!ttl.ok()) return Place(name, node).Fault("ttl", ttl.status());
  if (*ttl <= absl::ZeroDuration()) {
    return Place(name, node).Fault("ttl: wanted a time above 0");
  }
  const int64_t nanos = absl::ToInt64Nanoseconds(*ttl);
  prompt.mutable_ttl()->set_seconds(nanos / 1000000000);
  prompt.mutable_ttl()->set_nanos(static_cast<int32_t>(nanos % 1000000000));
  return absl::OkStatus();
}

absl::Status ReadEntry(const std::string& name, const std::string& key,
                       const YAML::Node& value, v1::WarmPrompt& prompt) {
  const bool is_prompt = key == "text" || key == "chat" || key == "token_ids";
  if (is_prompt && prompt.prompt_case() != v1::WarmPrompt::PROMPT_NOT_SET) {
    return Place(name, value)
        .Fault("wanted one of text, chat and token_ids, found two");
  }
  if (key == "text") {
    ASSIGN_OR_RETURN(*prompt.mutable_text(), Text(name, key, value));
  } else if (key == "chat") {
    return ReadChat(name, value, prompt);
  } else if (key == "token_ids") {
    return ReadIds(name, value, prompt);
  } else if (key == "salt") {
    ASSIGN_OR_RETURN(std::string salt, Text(name, key, value));
    prompt.set_salt(std::move(salt));
  } else if (key == "priority") {
    ASSIGN_OR_RETURN(const int64_t priority,
                     Count(name, key, value, kMaxRetentionPriority));
    prompt.set_priority(static_cast<int32_t>(priority));
  } else if (key == "ttl") {
    return ReadTtl(name, value, prompt);
  } else if (key == "pin") {
    ASSIGN_OR_RETURN(const std::string text, Text(name, key, value));
    const absl::StatusOr<bool> pin = ParseBool(text);
    if (!pin.ok()) return Place(name, value).Fault(key, pin.status());
    if (*pin) prompt.set_retention(v1::RETENTION_PINNED);
  } else {
    return Place(name, value)
        .Fault(absl::StrCat("unknown key ", QuoteText(key)));
  }
  return absl::OkStatus();
}

absl::Status ReadPrompt(const std::string& name, const YAML::Node& node,
                        v1::WarmPrompt& prompt) {
  if (!node.IsMap()) {
    return Place(name, node)
        .Fault(
            "wanted a prefix as {text: ...}, {chat: ...} or "
            "{token_ids: ...}");
  }
  std::set<std::string> seen;
  for (const auto& entry : node) {
    ASSIGN_OR_RETURN(const std::string key, Text(name, "key", entry.first));
    if (!seen.insert(key).second) {
      return Place(name, entry.first)
          .Fault(absl::StrCat("key ", QuoteText(key), " comes twice"));
    }
    RETURN_IF_ERROR(ReadEntry(name, key, entry.second, prompt));
  }
  if (prompt.prompt_case() != v1::WarmPrompt::PROMPT_NOT_SET) {
    return absl::OkStatus();
  }
  return Place(name, node)
      .Fault("wanted text, chat or token_ids, found none of them");
}

absl::StatusOr<WarmFile> ReadRoot(const std::string& name,
                                  const YAML::Node& root) {
  const Place place(name, root);
  if (!root.IsMap() || root.size() != 1 || !root["prefixes"]) {
    return place.Fault("wanted one key, \"prefixes\", and a list under it");
  }
  const YAML::Node list = root["prefixes"];
  if (!list.IsSequence() || list.size() == 0) {
    return Place(name, list).Fault("prefixes: wanted a list, found none");
  }
  if (list.size() > kMaxWarmFilePrefixes) {
    return Place(name, list)
        .Fault(absl::StrCat("prefixes: wanted at most ", kMaxWarmFilePrefixes,
                            ", found ", list.size()));
  }
  WarmFile file;
  for (const YAML::Node& node : list) {
    file.lines.push_back(node.Mark().line + 1);
    RETURN_IF_ERROR(ReadPrompt(name, node, *file.request.add_prompts()));
  }
  return file;
}

}  // namespace

absl::StatusOr<WarmFile> ParseWarmFile(const std::string& name,
                                       const std::string& text) {
  if (text.size() > kMaxWarmFileBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name, ": wanted at most ", kMaxWarmFileBytes,
                     " bytes, found ", text.size()));
  }
  // yaml-cpp reports by exception.
  try {
    return ReadRoot(name, YAML::Load(text));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(YamlPlace(name, error.mark), ": ", error.msg));
  }
}

absl::StatusOr<WarmFile> ReadWarmFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  return ParseWarmFile(path, text.str());
}

}  // namespace kvasir

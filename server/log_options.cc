#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "engine/model/utf8.h"
#include "server/config_option.h"
#include "server/log.h"

namespace kvasir {
namespace {

absl::Status SetLogFormat(ConfigTarget target, const std::string& text) {
  if (text != "text" && text != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("wanted text or json, found ", QuoteText(text)));
  }
  target.config.log_format =
      text == "json" ? LogFormat::kJson : LogFormat::kText;
  return absl::OkStatus();
}

absl::Status SetLogLevel(ConfigTarget target, const std::string& text) {
  const std::pair<const char*, LogLevel> kLevels[] = {
      {"debug", LogLevel::kDebug},
      {"info", LogLevel::kInfo},
      {"warning", LogLevel::kWarning},
      {"error", LogLevel::kError}};
  for (const auto& [name, level] : kLevels) {
    if (text != name) continue;
    target.config.log_level = level;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "wanted debug, info, warning or error, found ", QuoteText(text)));
}

absl::Status SetLogPrompts(ConfigTarget target, const std::string& text) {
  double ratio = -1;
  if (absl::SimpleAtod(text, &ratio) && ratio >= 0 && ratio <= 1) {
    target.config.logged_prompt_ratio = ratio;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("wanted a share of 0 to 1, found ", QuoteText(text)));
}

const ConfigOption kOptions[] = {
    {"log.format", "--log-format", "FORMAT", "text", "text or json",
     SetLogFormat},
    {"log.level", "--log-level", "LEVEL", "info",
     "debug, info, warning or error", SetLogLevel},
    {"log.prompts", "--log-prompts", "RATIO", "0",
     "The share of requests, 0 to 1, whose prompts' beginnings are logged: "
     "they "
     "are private, so none unless asked for",
     SetLogPrompts},
};

}  // namespace

absl::Span<const ConfigOption> LogConfigOptions() { return kOptions; }

}  // namespace kvasir

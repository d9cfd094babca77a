#include <string>
#include <utility>

#include "absl/status/status.h"
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

const ConfigOption kOptions[] = {
    {"log.format", "--log-format", "FORMAT", "text", "text or json",
     SetLogFormat},
    {"log.level", "--log-level", "LEVEL", "info",
     "debug, info, warning or error", SetLogLevel},
};

}  // namespace

absl::Span<const ConfigOption> LogConfigOptions() { return kOptions; }

}  // namespace kvasir

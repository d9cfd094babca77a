#include "server/log.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"

#include "engine/model/utf8.h"
#include "server/text.h"

namespace kvasir {
namespace {

std::atomic<LogFormat> current_format{LogFormat::kText};
std::atomic<LogLevel> lowest_level{LogLevel::kInfo};

const char* NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

std::string Timestamp(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", time, absl::UTCTimeZone());
}

bool NeedsQuotes(std::string_view value) {
  if (value.empty()) return true;
  for (const char c : value) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\\') {
      return true;
    }
  }
  return false;
}

std::string TextKey(std::string_view key) {
  std::string text(key);
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == 0x7F || c == '=' || c == '"' || c == '\\') {
      c = '_';
    }
  }
  return text;
}

std::string JsonLine(absl::Time time, LogLevel level, std::string_view message,
                     absl::Span<const LogField> fields) {
  nlohmann::ordered_json line;
  line["time"] = Timestamp(time);
  line["level"] = NameOf(level);
  line["message"] = std::string(message);
  for (const LogField& field : fields) {
    line[std::string(field.first)] = field.second;
  }
  return line.dump(-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string FormatLogLine(LogFormat format, absl::Time time, LogLevel level,
                          std::string_view message,
                          absl::Span<const LogField> fields) {
  if (format == LogFormat::kJson) return JsonLine(time, level, message, fields);
  std::string line = absl::StrCat(Timestamp(time), " ", NameOf(level), " ",
                                  absl::Utf8SafeCEscape(View(message)));
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", TextKey(field.first), "=");
    if (NeedsQuotes(field.second)) {
      absl::StrAppend(&line, "\"", absl::Utf8SafeCEscape(field.second), "\"");
    } else {
      absl::StrAppend(&line, field.second);
    }
  }
  // Foreign bytes, such as a file's name, must not make the log unreadable.
  if (WellFormedBytes(line) == line.size()) return line;
  const Utf8Text text = ReplaceIllFormed(line);
  return text.held.empty()
             ? text.text
             : absl::StrCat(text.text, View(kReplacementCharacter));
}

void SetLogging(LogFormat format, LogLevel lowest) {
  current_format = format;
  lowest_level = lowest;
}

bool LogEnabled(LogLevel level) { return level >= lowest_level.load(); }

void Log(LogLevel level, std::string_view message,
         absl::Span<const LogField> fields) {
  if (!LogEnabled(level)) return;
  std::string line =
      FormatLogLine(current_format, absl::Now(), level, message, fields);
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace kvasir

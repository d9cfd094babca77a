#ifndef KVASIR_SERVER_LOG_H_
#define KVASIR_SERVER_LOG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/span.h"

namespace kvasir {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError };
enum class LogFormat : uint8_t { kText, kJson };

using LogField = std::pair<std::string_view, std::string>;

// One line without its end, as Log() writes it. Text quotes a value only if it
// has blanks, quotes or control characters; JSON's keys `time`, `level` and
// `message` come first. Never more than one line, whatever is in the values;
// what would look like a value in a key becomes '_' in text.
std::string FormatLogLine(LogFormat format, absl::Time time, LogLevel level,
                          std::string_view message,
                          absl::Span<const LogField> fields);

// What Log() writes from now on. Default: text, kInfo. Any thread.
void SetLogging(LogFormat format, LogLevel lowest);

// Whether Log() writes lines of this level. Any thread.
bool LogEnabled(LogLevel level);

// Writes one line to stderr in one piece, so that lines of several threads do
// not mix. Any thread; not from a signal handler.
void Log(LogLevel level, std::string_view message,
         absl::Span<const LogField> fields = {});

}  // namespace kvasir

#endif  // KVASIR_SERVER_LOG_H_

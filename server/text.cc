#include "server/text.h"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>

#include "absl/strings/str_format.h"

namespace kvasir {

const char* CodeName(int code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  return code >= 0 && code < static_cast<int>(std::size(kNames)) ? kNames[code]
                                                                 : "UNKNOWN";
}

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1000 && unit + 1 < std::size(kNames)) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value == std::floor(value);
  const int decimals = whole || std::abs(value) >= 100 ? 0
                       : std::abs(value) >= 10         ? 1
                                                       : 2;
  return absl::StrFormat("%.*f %s", decimals, value, kNames[unit]);
}

}  // namespace kvasir

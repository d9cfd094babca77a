#include "server/trace_context.h"

#include <algorithm>
#include <cstddef>

namespace kvasir {
namespace {

constexpr std::string_view kVersion = "00-";
constexpr size_t kTraceDigits = 32;
constexpr size_t kParentDigits = 16;
constexpr size_t kFlagDigits = 2;
constexpr size_t kParentAt = kVersion.size() + kTraceDigits + 1;
constexpr size_t kFlagsAt = kParentAt + kParentDigits + 1;

bool IsHex(std::string_view digits) {
  return std::all_of(digits.begin(), digits.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

bool IsId(std::string_view digits) {
  return IsHex(digits) &&
         digits.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::string_view TraceIdIn(std::string_view traceparent) {
  if (traceparent.size() != kFlagsAt + kFlagDigits ||
      traceparent.substr(0, kVersion.size()) != kVersion ||
      traceparent[kParentAt - 1] != '-' || traceparent[kFlagsAt - 1] != '-') {
    return {};
  }
  const std::string_view trace =
      traceparent.substr(kVersion.size(), kTraceDigits);
  const bool valid = IsId(trace) &&
                     IsId(traceparent.substr(kParentAt, kParentDigits)) &&
                     IsHex(traceparent.substr(kFlagsAt));
  return valid ? trace : std::string_view();
}

}  // namespace kvasir

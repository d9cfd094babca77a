#include "server/config_values.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
#include "server/text.h"

namespace kvasir {
namespace {

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr Unit kUnits[] = {
    {"B", 1},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", 1024.0},
    {"MiB", 1024.0 * 1024},
    {"GiB", 1024.0 * 1024 * 1024},
    {"TiB", 1024.0 * 1024 * 1024 * 1024},
};

// Far above any machine and exact in a double.
constexpr double kMaxBytes = 9e15;

absl::Status Wanted(std::string_view what, std::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("wanted ", View(what), ", found ", QuoteText(found)));
}

// absl's reader also takes blanks around the number.
bool ReadDigits(std::string_view text, int64_t* number) {
  return !text.empty() && (absl::ascii_isdigit(text[0]) || text[0] == '-') &&
         absl::ascii_isdigit(text.back()) &&
         absl::SimpleAtoi(View(text), number);
}

absl::Status WantedSize(std::string_view found) {
  return Wanted("a size with a unit, such as 512MiB, 8GiB or 60%", found);
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(
    std::string_view text,
    const std::function<absl::StatusOr<int64_t>()>& memory_limit) {
  size_t digits = 0;
  while (digits < text.size() &&
         (absl::ascii_isdigit(text[digits]) || text[digits] == '.')) {
    ++digits;
  }
  const std::string_view unit = text.substr(digits);
  double number = 0;
  if (digits == 0 || !absl::SimpleAtod(View(text.substr(0, digits)), &number)) {
    return WantedSize(text);
  }
  if (unit == "%") {
    if (number > 100) return Wanted("at most 100%", text);
    ASSIGN_OR_RETURN(const int64_t limit, memory_limit());
    return static_cast<int64_t>(static_cast<double>(limit) * number / 100);
  }
  for (const Unit& candidate : kUnits) {
    if (unit != candidate.name) continue;
    const double bytes = number * candidate.bytes;
    if (bytes > kMaxBytes) return Wanted("at most 8 PiB", text);
    return static_cast<int64_t>(bytes);
  }
  return WantedSize(text);
}

absl::StatusOr<int64_t> ParseCount(std::string_view text, int64_t lowest,
                                   int64_t highest) {
  int64_t number = 0;
  if (ReadDigits(text, &number) && number >= lowest && number <= highest) {
    return number;
  }
  return Wanted(absl::StrCat("a whole number from ", lowest, " to ", highest),
                text);
}

absl::StatusOr<bool> ParseBool(std::string_view text) {
  bool value = false;
  const std::string lower = absl::AsciiStrToLower(View(text));
  if (lower == "on" || lower == "off") return lower == "on";
  if (absl::SimpleAtob(lower, &value)) return value;
  return Wanted("true or false", text);
}

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  absl::Duration duration;
  if (absl::ParseDuration(View(text), &duration) &&
      duration >= absl::ZeroDuration() &&
      duration != absl::InfiniteDuration()) {
    return duration;
  }
  return Wanted("a time with a unit, such as 30s, 500ms or 2m", text);
}

bool HostPort::IsLoopback() const {
  in_addr four{};
  in6_addr six{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) {
    return (ntohl(four.s_addr) >> 24) == 127;
  }
  if (inet_pton(AF_INET6, host.c_str(), &six) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&six);
  }
  return host == "localhost";
}

std::string HostPort::ToString() const {
  const bool six = host.find(':') != std::string::npos;
  return six ? absl::StrCat("[", host, "]:", port)
             : absl::StrCat(host, ":", port);
}

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  constexpr std::string_view kWanted =
      "HOST:PORT with a port from 0 to 65535, such as 127.0.0.1:8001 or "
      "[::1]:8001";
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Wanted(kWanted, text);
  std::string_view host = text.substr(0, colon);
  const bool bracketed =
      host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool six = host.find(':') != std::string_view::npos;
  HostPort address;
  int64_t port = 0;
  const bool blank = std::any_of(host.begin(), host.end(), [](char c) {
    return !absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (host.empty() || blank || six != bracketed ||
      !ReadDigits(text.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return Wanted(kWanted, text);
  }
  address.port = static_cast<int>(port);
  address.host = std::string(host);
  return address;
}

}  // namespace kvasir

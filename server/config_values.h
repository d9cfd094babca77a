#ifndef KVASIR_SERVER_CONFIG_VALUES_H_
#define KVASIR_SERVER_CONFIG_VALUES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kvasir {

// How values of flags, environment and file are read. Every error is
// INVALID_ARGUMENT and says what was wanted and what was found, without the
// option's name, which the caller puts in front.

// "512MiB", "8GiB", "2GB" (powers of 1000), "100B", or "60%" of what
// `memory_limit` returns; it is called only for a percentage. A bare number is
// refused, since nobody knows its unit.
absl::StatusOr<int64_t> ParseSize(
    std::string_view text,
    const std::function<absl::StatusOr<int64_t>()>& memory_limit);

// A whole number in [lowest, highest].
absl::StatusOr<int64_t> ParseCount(std::string_view text, int64_t lowest,
                                   int64_t highest);

// true/false, yes/no, on/off, 1/0.
absl::StatusOr<bool> ParseBool(std::string_view text);

// "30s", "1m30s", "250ms"; not negative. "0" is zero.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);

// An address to listen on or to call.
struct HostPort {
  std::string host;  // without the brackets of an IPv6 address
  int port = 0;

  std::string ToString() const;  // with them

  // Whether nobody beyond this machine can reach it, as far as the host itself
  // says: localhost, 127.0.0.0/8 or ::1.
  bool IsLoopback() const;
};

// "127.0.0.1:8001", "[::1]:8001", "localhost:0". The port is needed.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

}  // namespace kvasir

#endif  // KVASIR_SERVER_CONFIG_VALUES_H_

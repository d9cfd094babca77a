#ifndef KVASIR_SERVER_TEXT_H_
#define KVASIR_SERVER_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace kvasir {

// Words that the daemon and the command line share.

// Debian 12's Abseil has a string_view of its own, which its functions want.
// This is the same bytes, no copy.
inline absl::string_view View(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

// The name of a gRPC code as metrics and people write it: "OK",
// "INVALID_ARGUMENT", ...
const char* CodeName(int code);

// "512 MiB", "1.5 GiB", "17 B": for people, three digits or fewer.
std::string FormatBytes(int64_t bytes);

}  // namespace kvasir

#endif  // KVASIR_SERVER_TEXT_H_

#ifndef KVASIR_SERVER_TOKEN_FILE_H_
#define KVASIR_SERVER_TOKEN_FILE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "server/token_table.h"

namespace kvasir {

// Limits of a file of tokens. A token of 16 random bytes cannot be guessed; a
// shorter one had better not be believed to be random.
inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 1024;
inline constexpr size_t kMaxTokens = 1024;
inline constexpr size_t kMaxTenantBytes = 64;
inline constexpr size_t kMaxTokenFileBytes = size_t{1} << 20;

// Entries of the YAML text
//
//     tokens:
//       - tenant: acme           # visible ASCII without '/'
//         token: n4bQgYhMfWWaL-qgxVrQ
//         scopes: [inference]    # inference, admin, or both
//       - tenant: operations
//         sha256: "5994471abb01112afcc18159f6cc74b4f511b998 ... 64 digits"
//         scopes: [admin]
//
// of which each has a token, which is visible ASCII, or its SHA-256 in hex
// digits. A tenant may have several tokens, a token stands once.
//
// INVALID_ARGUMENT with `name`, the line, and what was wanted; never with what
// was found, since a token may stand in any place by mistake.
absl::StatusOr<std::vector<TokenEntry>> ParseTokens(const std::string& name,
                                                    const std::string& text);

// Reads the file. A file with tokens in plain text that every user of the
// machine may read or write is refused: PERMISSION_DENIED with its mode. Other
// errors as of ReadSmallFile() and ParseTokens().
absl::StatusOr<std::vector<TokenEntry>> ReadTokenFile(const std::string& path);

}  // namespace kvasir

#endif  // KVASIR_SERVER_TOKEN_FILE_H_

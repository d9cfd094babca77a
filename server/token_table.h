#ifndef KVASIR_SERVER_TOKEN_TABLE_H_
#define KVASIR_SERVER_TOKEN_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "server/caller.h"

namespace kvasir {

// SHA-256 of a token. The token itself is forgotten as soon as it is read, so
// that nothing can tell it: no log, no error, no core file.
using TokenDigest = std::array<uint8_t, 32>;
TokenDigest DigestOf(std::string_view token);

struct TokenEntry {
  TokenDigest digest = {};
  Caller caller;
};

// Whose tokens are known. Immutable; any thread.
class TokenTable {
 public:
  explicit TokenTable(std::vector<TokenEntry> entries);

  // Whose token it is. The time that it takes depends on the length of `token`
  // and the number of entries alone, not on whether or where it is found:
  // digests are compared in constant time, and all of them.
  std::optional<Caller> Find(std::string_view token) const;

  size_t size() const { return entries_.size(); }

 private:
  const std::vector<TokenEntry> entries_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_TOKEN_TABLE_H_

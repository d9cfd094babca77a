#include "server/token_table.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "openssl/crypto.h"
#include "openssl/sha.h"

namespace kvasir {

TokenDigest DigestOf(std::string_view token) {
  TokenDigest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(),
         digest.data());
  return digest;
}

TokenTable::TokenTable(std::vector<TokenEntry> entries)
    : entries_(std::move(entries)) {}

std::optional<Caller> TokenTable::Find(std::string_view token) const {
  const TokenDigest presented = DigestOf(token);
  // 1 + the entry's place, or 0. No entry ends the walk, and none is a branch.
  size_t found = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const int differs = CRYPTO_memcmp(
        presented.data(), entries_[i].digest.data(), presented.size());
    found += (i + 1) * static_cast<size_t>(differs == 0);
  }
  if (found == 0) return std::nullopt;
  return entries_[found - 1].caller;
}

}  // namespace kvasir

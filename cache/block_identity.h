#ifndef KVASIR_CACHE_BLOCK_IDENTITY_H_
#define KVASIR_CACHE_BLOCK_IDENTITY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"

struct evp_md_ctx_st;
struct evp_md_st;

namespace kvasir {

// The SHA-256 name of a sealed block; the same in every process and on every
// machine.
using BlockKey = std::array<uint8_t, 32>;

// What the blocks of one lease have in common in their identities. Immutable
// once shared.
struct BlockScope {
  std::string fingerprint;   // of what computes them
  std::string version = {};  // the version's label
  std::string salt = {};     // of the tenant; empty is one too
  friend bool operator==(const BlockScope&, const BlockScope&) = default;
};

// Everything that decides the content of a sealed block. Two blocks with equal
// identities hold the same bytes.
//
// `parent` is the block that holds the tokens before, as the index knows it
// (invalid for a sequence's first block). Since an id names one content while
// it is in the index, equal parents mean that the whole prefixes are equal, and
// not only their hashes.
//
// It has no name yet: a key is computed where a block becomes findable.
struct BlockIdentity {
  BlockId parent;
  std::shared_ptr<const BlockScope> scope;
  absl::Span<const TokenId> tokens;
};

// Computes keys: SHA-256 over the parent's key, the fingerprint, the version's
// label, the salt and the token ids, each preceded by its length in bytes (64
// bit), all numbers little-endian. A first block has an empty parent's key. The
// lengths keep fields apart whose concatenations would be equal.
//
// Keeps the digest's state between calls, so: one thread at a time.
class BlockHasher {
 public:
  BlockHasher();
  ~BlockHasher();

  // `parent` is null for a sequence's first block.
  BlockKey Key(const BlockKey* parent, const BlockScope& scope,
               absl::Span<const TokenId> tokens);

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
    void operator()(evp_md_st* digest) const;
  };
  std::unique_ptr<evp_md_st, Free> digest_;
  std::unique_ptr<evp_md_ctx_st, Free> context_;
  std::string message_;  // kept for its capacity
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_BLOCK_IDENTITY_H_

#ifndef KVASIR_CACHE_LOOKUP_HASH_H_
#define KVASIR_CACHE_LOOKUP_HASH_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/block_identity.h"

namespace kvasir {

// The hash by which a look-up finds candidates: of a block's tokens and of the
// hash of the block before it. It means nothing outside its object.
//
// Token ids are chosen by strangers, who must not be able to make blocks that
// all have one hash. Hence multilinear hashing with random multipliers (Carter
// and Wegman, "Universal classes of hash functions", 1979; Lemire and Kaser,
// "Strongly universal string hashing is fast", 2014): whoever does not know
// them makes two blocks collide with a chance of at most 2^-32.
//
// Immutable; any thread.
class LookupHash {
 public:
  // For blocks of that many tokens.
  explicit LookupHash(int32_t block_tokens);

  // What the hashes of a scope's first blocks start from, given the SHA-256 of
  // the scope.
  static uint64_t Start(const BlockKey& scope);

  uint64_t Next(uint64_t before, absl::Span<const TokenId> tokens) const;

 private:
  std::vector<uint64_t> multipliers_;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_LOOKUP_HASH_H_

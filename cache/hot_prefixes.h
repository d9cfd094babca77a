#ifndef KVASIR_CACHE_HOT_PREFIXES_H_
#define KVASIR_CACHE_HOT_PREFIXES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/block_identity.h"
#include "cache/snapshot.h"

namespace kvasir {

// Which prefixes of one cache version are asked for most, with their token ids,
// so that they can be computed again where their blocks are not: in a new
// version, or after they were evicted.
//
// Counts with bounded memory by the algorithm Space-Saving (Metwally, Agrawal
// and El Abbadi, "Efficient computation of frequent and top-k elements in data
// streams", ICDT 2005): a prefix that is not remembered takes the place of the
// one with the fewest hits and starts from its count, of which it only owns
// what comes after. So whatever is asked for more often than once in
// `max_prefixes` hits is remembered, and no flood of others hides it.
//
// Knows no block and is told of hits only, so that a look-up that finds nothing
// costs nothing here. Engine thread only.
class HotPrefixes {
 public:
  struct Limits {
    size_t max_prefixes = 256;
    int64_t max_tokens = int64_t{1} << 18;  // ids of all prefixes together
    // After so many hits each count is halved: what was hot once makes way.
    int64_t age_hits = int64_t{1} << 14;
  };
  // Of a longer prefix only the beginning is remembered and counted.
  static constexpr int64_t kMaxPrefixTokens = int64_t{1} << 14;

  // `max_tokens` is at least kMaxPrefixTokens.
  HotPrefixes() : HotPrefixes(Limits()) {}
  explicit HotPrefixes(const Limits& limits);

  // A request found the prefix; `key` is that of its last block. At most
  // kMaxPrefixTokens tokens.
  void Count(const BlockKey& key, absl::Span<const TokenId> tokens,
             std::string_view salt);

  // The hit that was counted for `key` turned out to be one on a longer prefix.
  void TakeBack(const BlockKey& key);

  // Forgets the prefixes of these salts, token ids and all.
  void Forget(absl::FunctionRef<bool(const std::string&)> of_salt);

  // At most `count` prefixes, the hottest first.
  std::vector<HotPrefix> Top(size_t count) const;

  size_t size() const { return entries_.size(); }
  int64_t token_count() const { return token_count_; }

 private:
  struct Entry {
    BlockKey key;
    std::vector<TokenId> tokens;
    std::string salt;
    int64_t inherited = 0;  // of its count, not its own
  };

  void MakeRoom(int64_t tokens);
  void Remove(size_t place);
  void Age();

  const Limits limits_;
  std::vector<Entry> entries_;
  std::vector<int64_t> counts_;  // of the entries; apart to be scanned fast
  absl::flat_hash_map<BlockKey, size_t> places_;
  int64_t token_count_ = 0;
  int64_t floor_ = 0;  // most hits that a forgotten prefix may have had
  int64_t hits_ = 0;   // since the counts were halved
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_HOT_PREFIXES_H_

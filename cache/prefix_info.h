#ifndef KVASIR_CACHE_PREFIX_INFO_H_
#define KVASIR_CACHE_PREFIX_INFO_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "cache/base/strong_id.h"
#include "cache/block_identity.h"
#include "cache/retention.h"

namespace kvasir {

// What an operator may know of one prefix: the tokens of a findable block and
// of all blocks before it. Named by the block's key. Plain value; times are
// steady.
struct PrefixInfo {
  BlockKey key{};
  std::optional<BlockKey> parent;  // the prefix that is one block shorter
  VersionId version;
  std::string salt;
  int64_t token_count = 0;
  int64_t block_count = 0;
  int64_t hit_count = 0;    // leases that found its last block
  int32_t lease_count = 0;  // that hold its last block now
  Retention retention;
  bool pinned = false;  // it, not only a longer one
  absl::Duration pinned_until = -absl::InfiniteDuration();
  absl::Duration created;
  absl::Duration last_hit = -absl::InfiniteDuration();
  absl::Duration expires = absl::InfiniteDuration();  // as long as nobody asks
};

// Which prefixes are meant; what is not set matches all.
struct PrefixFilter {
  std::optional<VersionId> version = {};
  std::optional<std::string> salt = {};
  std::function<bool(const std::string&)> salt_is = {};  // or of this kind
  std::optional<bool> pinned = {};
  int64_t min_tokens = 0;
};

// A prefix that a lease has found, with what it takes to compute it anew.
struct HitSample {
  VersionId version;
  std::string salt;
  std::vector<TokenId> tokens;
};

// What an eviction by name frees, or would free.
struct PrefixEviction {
  int64_t blocks = 0;
  int64_t kept_blocks = 0;  // meant too, but pinned or held by a lease, or
                            // needed to find one that is
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_PREFIX_INFO_H_

#ifndef KVASIR_ENGINE_PREFIX_ORDER_H_
#define KVASIR_ENGINE_PREFIX_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace kvasir {

// Digits of a prefix's name, which is the SHA-256 key of its last block in
// lower-case hex, and how many leading ones are enough where they are unique.
inline constexpr size_t kPrefixIdDigits = 64;
inline constexpr size_t kMinPrefixIdDigits = 8;

// Digits that a salt is told by.
inline constexpr size_t kSaltHashDigits = 16;

// What tells a tenant's prefixes apart without telling its salt: the leading
// digits of the salt's SHA-256 in lower-case hex; empty for the empty salt.
std::string HashSalt(std::string_view salt);

// The id of the prefix whose last block has that key, see CachedPrefix::id.
std::string PrefixName(const std::array<uint8_t, 32>& key);

// What an operator may know of one prefix that is cached: the tokens of a block
// and of all blocks before it. Plain value; times are those of the wall clock.
struct CachedPrefix {
  std::string id;
  std::string parent_id;  // the prefix that is one block shorter; empty: none
  std::string model;
  std::string version;  // its label
  std::string salt_hash;
  int64_t token_count = 0;
  int64_t block_count = 0;
  int64_t byte_size = 0;
  int64_t hit_count = 0;    // requests that found its last block
  int64_t lease_count = 0;  // requests that hold its last block now
  int32_t priority = 0;
  absl::Duration ttl = absl::InfiniteDuration();
  bool pinned = false;
  absl::Time pinned_until = absl::InfinitePast();  // future: until unpinned
  absl::Time created;
  absl::Time last_hit = absl::InfinitePast();   // never
  absl::Time expires = absl::InfiniteFuture();  // if nobody asks for it again
};

// Which prefixes are meant; what is not set matches all.
struct PrefixSelection {
  std::string model = {};    // empty: all
  std::string version = {};  // a label; empty: all
  std::optional<std::string> salt = {};
  std::optional<std::string> salt_hash = {};
  std::optional<bool> pinned = {};
  int64_t min_tokens = 0;
};

// Whether whoever asked for a walk through the cache still waits for it; asked
// between two turns of the engine, on the thread that asked for the walk.
// Empty: somebody always does.
using StillWanted = std::function<bool()>;

// What an eviction by name freed, or would free.
struct EvictedPrefixes {
  int64_t blocks = 0;
  int64_t bytes = 0;
  // Meant too, but pinned, held by a request, or needed to find one that is.
  int64_t kept_blocks = 0;
};

// A part of the cache: blocks, bytes and a share of what it has at any time, of
// which at most one is not 0.
struct CacheShare {
  int64_t blocks = 0;
  int64_t bytes = 0;
  double ratio = 0;  // 0 to 1
};

// What a tenant, who is a salt, may count on and keep; see TenantQuota.
struct TenantShare {
  std::string salt = {};
  CacheShare floor = {};
  CacheShare most = {};  // nothing: no limit
};

// Where a change of quotas tells how it went. Implemented by the server; shared
// by engine and caller, whoever lets go last destroys it.
class QuotaSink {
 public:
  virtual ~QuotaSink() = default;

  // Engine thread, once at most, right before the change; must not block.
  // Whether it is wanted still: false, and nothing changes.
  virtual bool Begin() = 0;

  // Once, last; must not block. OK: the quotas are in force. CANCELLED: Begin()
  // said no. UNAVAILABLE: the engine has ended. Others: see
  // Engine::SetTenantQuotas().
  virtual void OnEnd(const absl::Status& status) = 0;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_PREFIX_ORDER_H_

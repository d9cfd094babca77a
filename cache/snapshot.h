#ifndef KVASIR_CACHE_SNAPSHOT_H_
#define KVASIR_CACHE_SNAPSHOT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/base/histogram.h"
#include "cache/base/strong_id.h"
#include "cache/eviction_counts.h"
#include "cache/retention.h"

namespace kvasir {

// What the scheduler may count on in the step it plans: memory is granted in
// pieces, of which a full block takes `pieces_per_block`. Plain value.
struct CapacityView {
  int32_t block_tokens = 0;
  int32_t pieces_per_block = 1;
  int64_t total_blocks = 0;   // without those that a shrink closed
  int64_t free_pieces = 0;    // hold nothing
  int64_t cached_pieces = 0;  // pinned by nobody; Reserve() may evict them

  int64_t available_pieces() const { return free_pieces + cached_pieces; }
  int64_t available_blocks() const {
    return available_pieces() / pieces_per_block;
  }
  int32_t piece_tokens() const { return block_tokens / pieces_per_block; }
  int64_t PiecesFor(int64_t tokens) const {
    return (tokens + piece_tokens() - 1) / piece_tokens();
  }
};

// Blocks by state; every block of a tier is in exactly one. Also the values of
// the metric label `state`.
struct BlockCounts {
  int64_t free = 0;      // hold nothing
  int64_t reserved = 0;  // granted to the step in hand
  int64_t pinned = 0;    // held by at least one lease, whole or in pieces
  int64_t cached = 0;    // sealed content that nobody holds
  int64_t leaving = 0;   // hold nothing and go back to the system

  int64_t total() const { return free + reserved + pinned + cached + leaving; }
  friend bool operator==(const BlockCounts&, const BlockCounts&) = default;
};

// Where the bytes of a tier are (contract C3): total() is exactly the tier's
// capacity at every moment between two calls. Of a block in pieces each piece
// is counted for itself.
struct ByteAccount {
  int64_t free = 0;
  int64_t reserved = 0;
  int64_t tokens = 0;         // filled token places of pinned and cached blocks
  int64_t fragmentation = 0;  // unfilled places of pinned blocks and pieces
  int64_t leaving = 0;

  int64_t total() const {
    return free + reserved + tokens + fragmentation + leaving;
  }
  friend bool operator==(const ByteAccount&, const ByteAccount&) = default;
};

struct TierSnapshot {
  std::string tier;  // "device" is the tier that kernels read
  int64_t block_bytes = 0;
  int64_t capacity_bytes = 0;
  int64_t committed_bytes = 0;  // taken from the system: whole extents
  BlockCounts blocks;
  int64_t split_blocks = 0;  // of the pinned ones, those in pieces
  ByteAccount bytes;
  // Committed bytes that no whole block can use: the free pieces of split
  // blocks, and what the last extent has beyond the last block.
  int64_t external_fragmentation_bytes = 0;

  // Share of the memory of blocks in use that holds tokens; 1 if none is.
  double TokenShare() const {
    const int64_t in_use =
        (blocks.reserved + blocks.pinned + blocks.cached) * block_bytes;
    return in_use == 0 ? 1.0
                       : static_cast<double>(bytes.tokens) /
                             static_cast<double>(in_use);
  }
};

struct VersionSnapshot {
  VersionId id;
  std::string label;
  std::string fingerprint;  // lower-case hex
  std::string state;        // warming, serving, draining, retired
  int64_t lease_count = 0;
  BlockCounts blocks;  // `free` and `leaving` belong to no version: zero here
  ByteAccount bytes;
  int64_t hit_tokens = 0;
  int64_t quota_blocks = 0;   // 0: none
  int64_t pinned_blocks = 0;  // kept by an operator's pins
  EvictionCounts evicted;
};

// What retired versions that are listed no more have come to, together.
struct ForgottenVersions {
  int64_t hit_tokens = 0;
  EvictionCounts evicted;
};

// A tenant with a quota; the others are told apart no further.
struct TenantSnapshot {
  std::string salt;
  TenantQuota quota;
  int64_t blocks = 0;   // findable
  int64_t at_rest = 0;  // of these, held by nobody
  EvictionCounts evicted;
};

// How blocks fare, in seconds.
struct BlockTimes {
  Histogram lifetime;           // findable -> dropped
  Histogram idle_before_evict;  // last held -> dropped
  Histogram reuse_gap;          // last held -> found again
};

// Totals since the cache was made; they only grow.
struct CacheCounters {
  int64_t lookup_tokens = 0;        // prompt tokens of first leases
  int64_t hit_tokens = 0;           // of these, found in the cache
  int64_t recomputed_tokens = 0;    // computed again after a preemption
  int64_t inserted_blocks = 0;      // sealed and made findable
  int64_t deduplicated_blocks = 0;  // sealed twice; the second copy was freed
  int64_t rejected_collisions = 0;  // same hash, other tokens or identity
  EvictionCounts evicted;
  int64_t relocated_blocks = 0;  // copied elsewhere by a resize
};

// A prefix that requests come back to, in whole blocks. Plain value.
struct HotPrefix {
  std::array<uint8_t, 32> key{};  // BlockKey of its last block
  std::vector<TokenId> tokens;
  std::string salt;
  // Requests whose longest found prefix this was: at least so many, older ones
  // counting for less (see HotPrefixes::Limits::age_hits).
  int64_t hits = 0;
};

// How far a resize of the device tier is. Plain value.
struct ResizeProgress {
  int64_t target_blocks = 0;
  int64_t block_count = 0;     // that have memory
  int64_t pinned_blocks = 0;   // that what is pinned takes, pieces together
  int64_t waiting_blocks = 0;  // of these, too many for the target

  bool done() const { return block_count == target_blocks; }
};

// A copy of everything an outsider may know of the cache at one moment.
struct CacheSnapshot {
  int32_t block_tokens = 0;
  int64_t token_bytes = 0;
  int64_t index_entries = 0;
  std::vector<TierSnapshot> tiers;
  // All that are not retired, and the last few that are.
  std::vector<VersionSnapshot> versions;
  ForgottenVersions forgotten;
  std::vector<TenantSnapshot> tenants;
  int64_t pinned_prefixes = 0;
  int64_t kept_blocks = 0;  // by pins and floors: no request may count on them
  int64_t pinned_blocks = 0;  // of these, by pins
  BlockTimes times;
  CacheCounters counters;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_SNAPSHOT_H_

#include "cache/invariants.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace kvasir {
namespace {

using Violations = std::vector<std::string>;

bool AnyNegative(const BlockCounts& c) {
  return c.free < 0 || c.reserved < 0 || c.pinned < 0 || c.cached < 0 ||
         c.leaving < 0;
}

bool AnyNegative(const ByteAccount& b) {
  return b.free < 0 || b.reserved < 0 || b.tokens < 0 || b.fragmentation < 0 ||
         b.leaving < 0;
}

Violations CheckTier(const TierSnapshot& tier) {
  Violations found;
  if (AnyNegative(tier.blocks) || AnyNegative(tier.bytes)) {
    found.push_back(absl::StrCat("tier ", tier.tier, " has a negative count"));
  }
  if (tier.bytes.total() != tier.capacity_bytes) {
    found.push_back(absl::StrCat("tier ", tier.tier, " accounts for ",
                                 tier.bytes.total(), " of ",
                                 tier.capacity_bytes, " bytes"));
  }
  if (tier.blocks.total() * tier.block_bytes != tier.capacity_bytes) {
    found.push_back(absl::StrCat("tier ", tier.tier, " has ",
                                 tier.blocks.total(), " blocks in ",
                                 tier.capacity_bytes, " bytes"));
  }
  // Blocks in pieces are pinned, and what nobody can use is not in use.
  if (tier.split_blocks < 0 || tier.split_blocks > tier.blocks.pinned ||
      tier.bytes.free < tier.blocks.free * tier.block_bytes ||
      tier.committed_bytes < tier.capacity_bytes ||
      tier.external_fragmentation_bytes <
          tier.committed_bytes - tier.capacity_bytes ||
      tier.external_fragmentation_bytes >
          tier.committed_bytes - tier.capacity_bytes +
              tier.split_blocks * tier.block_bytes) {
    found.push_back(absl::StrCat(
        "tier ", tier.tier, " has ", tier.split_blocks, " split of ",
        tier.blocks.pinned, " pinned blocks, ", tier.bytes.free,
        " bytes free, ", tier.committed_bytes, " committed, of which ",
        tier.external_fragmentation_bytes, " no block can use"));
  }
  // A cached block is full, so unfilled places are in pinned ones.
  if (tier.bytes.tokens < tier.blocks.cached * tier.block_bytes ||
      tier.bytes.fragmentation > tier.blocks.pinned * tier.block_bytes) {
    found.push_back(absl::StrCat("tier ", tier.tier, " holds ",
                                 tier.bytes.tokens, " bytes of tokens in ",
                                 tier.blocks.pinned, " pinned and ",
                                 tier.blocks.cached, " cached blocks"));
  }
  return found;
}

// Everything that is neither free nor leaving belongs to exactly one version.
Violations CheckVersions(const CacheSnapshot& snapshot) {
  Violations found;
  BlockCounts blocks;
  ByteAccount bytes;
  EvictionCounts evicted = snapshot.forgotten.evicted;
  int64_t hit_tokens = snapshot.forgotten.hit_tokens;
  for (const TierSnapshot& tier : snapshot.tiers) {
    blocks.reserved -= tier.blocks.reserved;
    blocks.pinned -= tier.blocks.pinned;
    blocks.cached -= tier.blocks.cached;
    bytes.reserved -= tier.bytes.reserved;
    bytes.tokens -= tier.bytes.tokens;
    bytes.fragmentation -= tier.bytes.fragmentation;
  }
  for (const VersionSnapshot& version : snapshot.versions) {
    blocks.free += version.blocks.free;
    blocks.reserved += version.blocks.reserved;
    blocks.pinned += version.blocks.pinned;
    blocks.cached += version.blocks.cached;
    blocks.leaving += version.blocks.leaving;
    bytes.free += version.bytes.free;
    bytes.reserved += version.bytes.reserved;
    bytes.tokens += version.bytes.tokens;
    bytes.fragmentation += version.bytes.fragmentation;
    bytes.leaving += version.bytes.leaving;
    hit_tokens += version.hit_tokens;
    for (size_t i = 0; i < kEvictionCauseCount; ++i) {
      evicted.by_cause[i] += version.evicted.by_cause[i];
    }
    if (AnyNegative(version.blocks) || AnyNegative(version.bytes) ||
        version.lease_count < 0) {
      found.push_back(
          absl::StrCat("version ", version.label, " has a negative count"));
    }
    if (version.state == "retired" && version.lease_count > 0) {
      found.push_back(absl::StrCat("version ", version.label,
                                   " is retired under ", version.lease_count,
                                   " leases"));
    }
  }
  if (blocks != BlockCounts() || bytes != ByteAccount()) {
    found.push_back("the versions' blocks do not sum up to the tiers'");
  }
  if (evicted != snapshot.counters.evicted) {
    found.push_back(absl::StrCat(
        "the versions count ", evicted.total(), " evicted blocks, the cache ",
        snapshot.counters.evicted.total(), ", or by other causes"));
  }
  if (hit_tokens != snapshot.counters.hit_tokens) {
    found.push_back(absl::StrCat("the versions count ", hit_tokens,
                                 " hit tokens, the cache ",
                                 snapshot.counters.hit_tokens));
  }
  return found;
}

// The tail's tokens are in as many pieces as they need, and only a step in hand
// adds to them.
Violations CheckTail(const BlockPool& pool, const LeaseState& lease) {
  Violations found;
  const Tail& tail = lease.tail;
  const int64_t places =
      static_cast<int64_t>(tail.pieces.size()) * KvLayout::kPieceTokens;
  if (tail.version != lease.version || tail.tokens < 0 ||
      tail.tokens > places ||
      (tail.tokens <= places - KvLayout::kPieceTokens && !lease.growing)) {
    found.push_back(absl::StrCat("a tail of ", tail.tokens, " tokens has ",
                                 tail.pieces.size(), " pieces"));
  }
  for (const TailPiece& piece : tail.pieces) {
    if (!pool.split(piece.block)) {
      found.push_back(absl::StrCat("a tail has a piece of block ",
                                   piece.block.value(), ", which is whole"));
    }
  }
  return found;
}

// Full blocks are full, the last one holds the rest, as far as the tail does
// not, and those behind it are reserved for a step in hand.
Violations CheckTable(const BlockPool& pool, const LeaseState& lease) {
  Violations found;
  const int64_t block_tokens = pool.block_tokens();
  const auto wrong = [&](int64_t index, absl::string_view what) {
    found.push_back(absl::StrCat("block ", lease.table.ids()[index].value(),
                                 " at place ", index, " of a lease of ",
                                 lease.token_count, " tokens is ", what));
  };
  int64_t left = lease.token_count - lease.tail.tokens;
  for (int64_t i = 0; i < lease.table.size(); ++i) {
    const BlockId block = lease.table.ids()[i];
    const int64_t expected = left < block_tokens ? left : block_tokens;
    left -= expected;
    if (lease.table.ref(i).block() != block) wrong(i, "not the one it pins");
    if (pool.filled_tokens(block) != expected) {
      wrong(i, absl::StrCat("filled with ", pool.filled_tokens(block)));
    }
    const BlockState wanted =
        expected > 0 ? BlockState::kPinned : BlockState::kReserved;
    if (pool.state(block) != wanted || (expected == 0 && !lease.growing)) {
      wrong(i, BlockStateName(pool.state(block)));
    }
    if (expected < block_tokens && pool.pin_count(block) != 1) {
      wrong(i, "open and shared");
    }
    if (pool.split(block)) wrong(i, "in pieces");
  }
  if (left != 0 || lease.cached_token_count > lease.token_count ||
      lease.cached_token_count % block_tokens != 0 ||
      static_cast<int64_t>(lease.open_tokens.size()) !=
          lease.token_count % block_tokens) {
    found.push_back(
        absl::StrCat("a lease of ", lease.token_count, " tokens has ",
                     lease.table.size(), " blocks, ", lease.cached_token_count,
                     " cached and ", lease.open_tokens.size(), " open tokens"));
  }
  return found;
}

Violations Concat(Violations all, Violations more) {
  for (std::string& violation : more) all.push_back(std::move(violation));
  return all;
}

}  // namespace

std::vector<std::string> CheckSnapshot(const CacheSnapshot& snapshot) {
  Violations found;
  for (const TierSnapshot& tier : snapshot.tiers) {
    found = Concat(std::move(found), CheckTier(tier));
  }
  found = Concat(std::move(found), CheckVersions(snapshot));
  const CacheCounters& counters = snapshot.counters;
  if (counters.hit_tokens > counters.lookup_tokens) {
    found.push_back(absl::StrCat(counters.hit_tokens, " hits in ",
                                 counters.lookup_tokens, " looked-up tokens"));
  }
  int64_t filled_blocks = 0;
  for (const TierSnapshot& tier : snapshot.tiers) {
    filled_blocks += tier.blocks.pinned + tier.blocks.cached;
  }
  if (snapshot.index_entries > filled_blocks) {
    found.push_back(absl::StrCat(snapshot.index_entries, " blocks indexed, ",
                                 filled_blocks, " held"));
  }
  return found;
}

std::vector<std::string> CheckLeases(
    const BlockPool& pool, const VersionTable& versions,
    absl::Span<const LeaseState* const> leases) {
  Violations found;
  absl::flat_hash_map<BlockId, int32_t> pins;
  absl::flat_hash_map<VersionId, int64_t> leases_of;
  for (size_t i = 0; i < leases.size(); ++i) {
    const LeaseState& lease = *leases[i];
    if (lease.list_index != i) {
      found.push_back(absl::StrCat("lease ", i, " believes to be lease ",
                                   lease.list_index));
    }
    ++leases_of[lease.version];
    for (const BlockId block : lease.table.ids()) ++pins[block];
    found = Concat(std::move(found), CheckTable(pool, lease));
    found = Concat(std::move(found), CheckTail(pool, lease));
  }
  for (const CacheVersion& version : versions.versions()) {
    if (version.lease_count != leases_of[version.id]) {
      found.push_back(absl::StrCat("version ", version.label, " counts ",
                                   version.lease_count, " leases and has ",
                                   leases_of[version.id]));
    }
  }
  for (int64_t i = 0; i < pool.block_count(); ++i) {
    const BlockId block(static_cast<BlockId::Value>(i));
    const auto held = pins.find(block);
    const int32_t expected = pool.split(block)    ? 1
                             : held == pins.end() ? 0
                                                  : held->second;
    if (pool.pin_count(block) != expected) {
      found.push_back(absl::StrCat("block ", i, " is pinned ",
                                   pool.pin_count(block), " times and held ",
                                   expected, " times"));
    }
  }
  return found;
}

}  // namespace kvasir

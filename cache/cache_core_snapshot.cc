// What CacheCore shows of itself: the snapshot, and what is wrong with it.

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "cache/cache_core.h"
#include "cache/invariants.h"

namespace kvasir {

CacheSnapshot CacheCore::Snapshot() const {
  CacheSnapshot snapshot;
  snapshot.block_tokens = layout().block_tokens;
  snapshot.token_bytes = layout().TokenBytes();
  snapshot.index_entries = prefixes_.index().size();
  snapshot.counters = counters_;
  snapshot.counters.evicted = prefixes_.book().evicted();
  snapshot.tenants = prefixes_.book().Tenants();
  snapshot.pinned_prefixes = prefixes_.pin_count();
  snapshot.kept_blocks = prefixes_.book().KeptBlocks(pool_.limit());
  snapshot.pinned_blocks = book().pinned_blocks();
  snapshot.times = prefixes_.book().times();
  snapshot.counters.rejected_collisions =
      prefixes_.index().rejected_collisions();
  snapshot.tiers.push_back(DeviceSnapshot());
  snapshot.forgotten = forgotten_;
  snapshot.versions.reserve(versions_.versions().size());
  for (const CacheVersion& version : versions_.versions()) {
    const BlockTally tally = pool_.tally(version.id);
    snapshot.versions.push_back(
        {.id = version.id,
         .label = version.label,
         .fingerprint = version.fingerprint,
         .state = std::string(VersionStateName(version.state)),
         .lease_count = version.lease_count,
         .blocks = tally.blocks,
         .bytes = BytesOf(tally, tails_.tally(version.id)),
         .hit_tokens = version.hit_tokens});
    prefixes_.book().Describe(snapshot.versions.back());
  }
  return snapshot;
}

TierSnapshot CacheCore::DeviceSnapshot() const {
  const int64_t block_bytes = layout().BlockBytes();
  const int64_t piece_bytes = block_bytes / layout().PiecesPerBlock();
  const int64_t free_pieces = tails_.free_pieces();
  const int64_t leaving_pieces = tails_.leaving_pieces();
  TierSnapshot tier = {.tier = "device",
                       .block_bytes = block_bytes,
                       .capacity_bytes = pool_.block_count() * block_bytes,
                       .committed_bytes = arena_.committed_bytes(),
                       .blocks = pool_.tally().blocks,
                       .split_blocks = pool_.tally().split_blocks,
                       .bytes = BytesOf(pool_.tally(), tails_.tally())};
  tier.bytes.free += free_pieces * piece_bytes;
  tier.bytes.leaving += leaving_pieces * piece_bytes;
  tier.external_fragmentation_bytes =
      (free_pieces + leaving_pieces) * piece_bytes + tier.committed_bytes -
      tier.capacity_bytes;
  return tier;
}

std::vector<std::string> CacheCore::Violations() const {
  std::vector<std::string> found = CheckSnapshot(Snapshot());
  for (std::vector<std::string> violations :
       {pool_.Violations(), tails_.Violations(), prefixes_.Violations(),
        CheckLeases(pool_, versions_, leases_)}) {
    std::move(violations.begin(), violations.end(), std::back_inserter(found));
  }
  return found;
}

// Its blocks are gone, so that its totals grow no more.
void CacheCore::ForgetRetired() {
  const std::optional<CacheVersion> gone = versions_.ForgetOldest();
  if (!gone.has_value()) return;
  VersionSnapshot last{.id = gone->id};
  book().Describe(last);
  forgotten_.hit_tokens += gone->hit_tokens;
  for (size_t i = 0; i < kEvictionCauseCount; ++i) {
    forgotten_.evicted.by_cause[i] += last.evicted.by_cause[i];
  }
}

ByteAccount CacheCore::BytesOf(const BlockTally& tally,
                               const PieceTally& pieces) const {
  const int64_t block_bytes = layout().BlockBytes();
  const int64_t piece_bytes = block_bytes / layout().PiecesPerBlock();
  const int64_t whole =
      tally.blocks.pinned - tally.split_blocks + tally.blocks.cached;
  const int64_t held = whole * block_bytes + pieces.held * piece_bytes;
  const int64_t token_bytes =
      (tally.tokens + pieces.tokens) * layout().TokenBytes();
  return {.free = tally.blocks.free * block_bytes,
          .reserved = tally.blocks.reserved * block_bytes +
                      pieces.reserved * piece_bytes,
          .tokens = token_bytes,
          .fragmentation = held - token_bytes,
          .leaving = tally.blocks.leaving * block_bytes};
}

}  // namespace kvasir

#ifndef KVASIR_CACHE_CACHE_CORE_H_
#define KVASIR_CACHE_CACHE_CORE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/block_arena.h"
#include "cache/block_identity.h"
#include "cache/block_pool.h"
#include "cache/block_scopes.h"
#include "cache/cache_resizer.h"
#include "cache/hot_prefixes.h"
#include "cache/kv_cache.h"
#include "cache/kv_layout.h"
#include "cache/lease_state.h"
#include "cache/prefix_admin.h"
#include "cache/prefix_cache.h"
#include "cache/reservation_state.h"
#include "cache/snapshot.h"
#include "cache/tail_pieces.h"
#include "cache/version_table.h"

namespace kvasir {

// What KvCache, Lease and Reservation do together: the parts of the cache and
// the moves that touch more than one of them.
//
// Owned by the KvCache and at a fixed address, so that leases and reservations
// can point to it; none of them may be left when it goes. Engine thread only,
// except that the cache may be set up on another thread before the first lease.
class CacheCore {
 public:
  // `options` have been checked and `arena` holds their blocks.
  CacheCore(const KvCache::Options& options, BlockArena arena,
            std::unique_ptr<EvictionPolicy> policy);
  ~CacheCore();
  CacheCore(const CacheCore&) = delete;
  CacheCore& operator=(const CacheCore&) = delete;

  // The methods of KvCache; see there.
  VersionId AddVersion(std::string_view label, std::string_view fingerprint,
                       VersionState state);
  absl::Status MoveVersion(VersionId id, VersionState to);
  bool ContinueDrop(VersionId id);
  absl::StatusOr<std::unique_ptr<LeaseState>> OpenLease(
      const LeaseRequest& request);
  // Leading blocks of the tokens that pins keep, or, if `held_too`, leases.
  int64_t CountLeading(const LeaseRequest& request, bool held_too);
  std::vector<HotPrefix> HottestPrefixes(VersionId id, size_t count) const;
  int64_t ExtendLease(LeaseState& lease, absl::Span<const TokenId> tokens);
  int64_t ShareBlocks(LeaseState& to, const LeaseState& from,
                      int64_t limit_tokens);
  FlushResult Flush();
  // What is flushed is not to be computed again on the cache's own account.
  void ForgetHot(const PrefixFilter& filter);
  absl::Status SetTarget(int64_t blocks);
  absl::Status CheckTarget(int64_t blocks) const;
  absl::Status ContinueResize();
  ResizeProgress resize() const { return resizer_.progress(); }
  CapacityView Capacity() const;
  const RetentionBook& book() const { return prefixes_.book(); }
  PrefixAdmin Admin() { return {pool_, prefixes_}; }
  int64_t PinnedPrefixBlocks(const LeaseState& lease) const;
  void SetPromisedBlocks(int64_t blocks) { promised_blocks_ = blocks; }
  // Most blocks that one of the leases, or of those who wait for one again, can
  // come to, beside those that pins keep in any case.
  int64_t MostLeaseBlocks() const {
    int64_t most = promised_blocks_;
    for (const LeaseState* lease : leases_) {
      most = std::max(most, layout().BlocksFor(lease->most_tokens) -
                                PinnedPrefixBlocks(*lease));
    }
    return most;
  }
  absl::Status SetTenantQuota(std::string_view salt, const TenantQuota& quota);
  void SetVersionQuota(VersionId version, int64_t blocks);
  BlockId FindTokens(const LeaseRequest& request);
  void Advance(absl::Duration now);
  std::optional<HitSample> TakeHitSample();
  BlockKey KeyOf(BlockId block) const { return prefixes_.index().Key(block); }
  int64_t Condemn(const BlockKey& key) { return prefixes_.Condemn(key); }
  absl::Duration NextDeadline() const {
    return over_quota_ ? book().now() : prefixes_.next_deadline();
  }
  CacheSnapshot Snapshot() const;
  std::vector<std::string> Violations() const;
  int64_t PiecesNeeded(const LeaseState& lease, int64_t token_count) const;

  // Drops the lease's pins. It must not be part of a live reservation.
  void EndLease(LeaseState& lease);

  // Appends the blocks of every growth to its lease's table and the pieces to
  // its tail, then either fills them or takes them away again. A tail that
  // becomes full is made whole at once.
  void Grant(ReservationState& reservation);
  void Commit(ReservationState& reservation);
  void Drop(ReservationState& reservation);

  // The lease's table; if `with_reserved`, with what the live reservation adds.
  BlockTableView View(const LeaseState& lease, bool with_reserved) const;
  const KvLayout& layout() const { return options_.layout; }
  const VersionTable& versions() const { return versions_; }

  // False on any thread but that of the first lease.
  bool OnEngineThread() const;

 private:
  std::shared_ptr<const BlockScope> ScopeOf(const LeaseRequest& request);
  absl::Status CheckRange(int64_t blocks) const;
  bool UsesIndex(const LeaseState& lease) const;
  // False if a block of the lease is not findable; then none after it can be.
  bool IsFindable(const LeaseState& lease, int64_t block_count) const;
  int64_t AppendCached(LeaseState& lease, absl::Span<const TokenId> tokens);
  void CountHits(LeaseState& lease, int64_t tokens);
  // The lease has found all that it holds of `tokens`.
  void CountHot(LeaseState& lease, absl::Span<const TokenId> tokens);
  void SampleHit(const LeaseState& lease);
  void AppendTokens(LeaseState& lease, absl::Span<const TokenId> tokens);
  void Seal(LeaseState& lease, int64_t index);
  void GrowTable(LeaseState& lease, int64_t token_count);
  void ShrinkTable(LeaseState& lease);
  ByteAccount BytesOf(const BlockTally& tally, const PieceTally& pieces) const;
  TierSnapshot DeviceSnapshot() const;
  void ForgetRetired();
  void EvictOverQuota();

  const KvCache::Options options_;
  const int64_t block_tokens_;
  BlockArena arena_;
  BlockScopes scopes_;
  BlockPool pool_;
  TailPieces tails_;
  PrefixCache prefixes_;
  VersionTable versions_;
  absl::flat_hash_map<VersionId, HotPrefixes> hot_prefixes_;  // of those hit
  absl::flat_hash_map<VersionId, PrefixSweep> drops_;         // under way
  CacheCounters counters_;
  ForgottenVersions forgotten_;
  CacheResizer resizer_;
  std::vector<LeaseState*> leases_;
  int64_t sampled_hits_ = 0;            // leases that found something
  std::optional<BlockKey> hit_sample_;  // what the last sampled one found
  int64_t promised_blocks_ = 0;         // to sequences without a lease
  bool over_quota_ = false;             // blocks over a quota may be left
  bool reserving_ = false;              // a reservation is alive
  std::atomic<std::thread::id> engine_thread_{};  // set by the first lease
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_CACHE_CORE_H_

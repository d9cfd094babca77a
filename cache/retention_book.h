#ifndef KVASIR_CACHE_RETENTION_BOOK_H_
#define KVASIR_CACHE_RETENTION_BOOK_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "cache/base/strong_id.h"
#include "cache/eviction_counts.h"
#include "cache/eviction_groups.h"
#include "cache/retention.h"
#include "cache/snapshot.h"

namespace kvasir {

// What one findable block is kept by. Plain value; times are steady.
struct BlockRetention {
  Retention wish;
  absl::Duration expires = absl::InfiniteDuration();  // while nobody holds it
  absl::Duration created;
  absl::Duration last_hit = -absl::InfiniteDuration();
  absl::Duration rests_since;  // its last holder went
  VersionId version;
  TenantIndex tenant = kNoTenant;
  int32_t pins = 0;        // of an operator, on this block
  int32_t pins_below = 0;  // and on those that are found through it
  bool fresh = true;       // no lease has ended yet that filled it
  bool at_rest = false;    // nobody holds it
  bool expired = false;
};

// Why findable blocks are kept, and how many of them must be: priorities, times
// to live, pins, tenants' quotas and floors, versions' quotas, superseded
// versions. Ranks groups of blocks before the eviction policy is asked.
//
// Is told what happens to blocks by the PrefixCache, which owns it; knows their
// ids and nothing of their content. Engine thread only.
class RetentionBook {
 public:
  RetentionBook();

  // --- What happens to blocks. ---

  // So many blocks will cost no growth of a table.
  void Reserve(int64_t blocks) {
    records_.reserve(static_cast<size_t>(blocks));
  }
  void Insert(BlockId block, VersionId version, std::string_view salt);
  void Rest(BlockId block);  // its last holder is gone
  void Hold(BlockId block);  // somebody holds it again
  void Hit(BlockId block) { At(block).last_hit = now_; }
  void Drop(BlockId block, EvictionCause cause);  // it is not findable any more
  void Relocate(BlockId from, BlockId to);
  void Clear(EvictionCause cause);  // none is findable any more

  // --- Wishes. ---

  // A lease that held the block ends. A new block is kept as it says, another
  // one at least so.
  void Keep(BlockId block, const std::optional<Retention>& wish);

  // One pin more (or less) on the block, or on one that is found through it.
  void AddPin(BlockId block, int32_t count);
  void AddPinBelow(BlockId block, int32_t count);

  // RESOURCE_EXHAUSTED for more than kMaxQuotaTenants, or for floors that
  // together are more than kMaxKeptPercent of the blocks. Blocks that are there
  // get their tenant by Assign().
  absl::Status SetQuota(std::string_view salt, const TenantQuota& quota);
  void Assign(BlockId block, std::string_view salt);
  void SetVersionQuota(VersionId version, int64_t blocks);

  // Blocks that there are, of which pins and floors may keep kMaxKeptPercent.
  // Quotas that are shares follow.
  void SetLimit(int64_t blocks);
  int64_t limit() const { return limit_; }

  // Superseded: the version's blocks go before those of all others, pinned or
  // not.
  void SetSuperseded(VersionId version, bool superseded);

  // --- Time. ---

  void SetNow(absl::Duration now) { now_ = now; }
  absl::Duration now() const { return now_; }
  // Reads one note: a block at rest whose time to live is over, which is told
  // once. Invalid if the note means nothing any more or none is due; there may
  // be more as long as next_expiry() is over.
  BlockId TakeExpired();
  // The block could not go when it was told; it can now.
  void ExpireAgain(BlockId block);
  // When the next note is due.
  absl::Duration next_expiry() const {
    return expiries_.empty() ? absl::InfiniteDuration() : expiries_.top().at;
  }

  // --- Answers. ---

  const BlockRetention& Of(BlockId block) const {
    const auto index = static_cast<uint32_t>(block.value());
    if (index >= records_.size() || !records_[index].has_value()) {
      DieOfUnknown(block);
    }
    return *records_[index];
  }
  EvictionGroupKey GroupOf(BlockId block) const;
  EvictionStanding StandingOf(const EvictionGroupKey& group) const;

  // Whether a pin on it or below keeps the block whatever room is needed.
  bool Pinned(BlockId block) const;

  // Whether the group's tenant or version keeps more than its quota.
  bool OverQuota(const EvictionGroupKey& group) const;

  // Blocks at rest that may not be evicted, at most: pinned ones and those that
  // floors protect.
  int64_t protected_blocks() const;
  // Blocks, held or at rest, that pins of versions in use keep.
  int64_t pinned_blocks() const { return pinned_.blocks; }
  // Those, and what floors would keep of `total` blocks: no request may count
  // on them.
  int64_t KeptBlocks(int64_t total) const;
  // Of them, those that no lease holds: at rest now, and not too many for what
  // the floors would be.
  int64_t KeptBlocksAtRest(int64_t total) const;
  // Most that pinned_blocks() may come to.
  int64_t max_pinned_blocks() const { return limit_ * kMaxKeptPercent / 100; }

  // Blocks dropped while nobody held them.
  const EvictionCounts& evicted() const { return evicted_; }
  const BlockTimes& times() const { return times_; }
  void Describe(VersionSnapshot& version) const;
  std::vector<TenantSnapshot> Tenants() const;

  // What must hold of the book and does not, given the findable blocks.
  std::vector<std::string> Violations(
      const std::vector<BlockId>& findable) const;

 private:
  struct Tenant {
    std::string salt;
    TenantQuota wish;
    TenantQuota quota;    // in blocks, of those that there are
    int64_t blocks = 0;   // findable
    int64_t at_rest = 0;  // of these
    EvictionCounts evicted;
  };
  struct Version {
    bool superseded = false;
    int64_t quota = 0;
    int64_t blocks = 0;          // findable
    int64_t pinned = 0;          // of these, by a pin on them or below
    int64_t pinned_at_rest = 0;  // of these
    EvictionCounts evicted;
  };
  struct PinSum {
    int64_t blocks = 0;
    int64_t at_rest = 0;
  };
  // What ProtectedByFloors() came to, while FloorsNow() was `floors`.
  struct FloorSum {
    int64_t floors = -1;  // not known
    int64_t blocks = 0;
  };
  struct Expiry {
    absl::Duration at;
    BlockId block;
    friend bool operator>(const Expiry& a, const Expiry& b) {
      return a.at != b.at ? a.at > b.at : a.block > b.block;
    }
  };

  BlockRetention& At(BlockId block) {
    return const_cast<BlockRetention&>(std::as_const(*this).Of(block));
  }
  [[noreturn]] static void DieOfUnknown(BlockId block);
  Version& VersionOf(VersionId id) {
    const size_t index = static_cast<size_t>(id.value());
    if (index >= versions_.size()) versions_.resize(index + 1);
    return versions_[index];
  }
  void Count(const BlockRetention& record, int64_t sign);
  // The block has come to rest, or is about to be held again.
  void CountAtRest(const BlockRetention& record, int64_t sign);
  double SecondsSince(absl::Duration then);
  void CountTenant(TenantIndex index, int64_t blocks, int64_t at_rest);
  void PushExpiry(BlockId block, absl::Duration at);
  // Blocks that floors keep now, of which each tenant has its share.
  int64_t FloorsNow() const;
  int64_t FloorOf(const Tenant& tenant) const;
  int64_t FloorsAt(int64_t total) const;  // that are asked for
  static int64_t ProtectedByFloor(const Tenant& tenant, int64_t floor);
  int64_t ProtectedByFloors() const;
  bool CountsAs(const RetentionBook& other) const;
  void CountEviction(const BlockRetention& record, EvictionCause cause);

  absl::Duration now_;
  absl::Duration span_begin_;  // the span that SecondsSince() measured last
  absl::Duration span_end_;
  double span_seconds_ = 0;
  int64_t limit_ = 0;
  EvictionCounts evicted_;
  BlockTimes times_;
  std::vector<std::optional<BlockRetention>> records_;  // by block id
  std::vector<Tenant> tenants_;                         // by TenantIndex
  absl::flat_hash_map<std::string, TenantIndex> tenant_of_salt_;
  std::vector<Version> versions_;  // by VersionId
  PinSum pinned_;                  // of versions in use
  int64_t wanted_floors_ = 0;      // of all tenants
  mutable FloorSum floor_sum_;
  // May name blocks that are gone or have another time since, but not many
  // more than there are blocks.
  std::priority_queue<Expiry, std::vector<Expiry>, std::greater<>> expiries_;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_RETENTION_BOOK_H_

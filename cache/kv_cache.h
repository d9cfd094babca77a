#ifndef KVASIR_CACHE_KV_CACHE_H_
#define KVASIR_CACHE_KV_CACHE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/eviction_policy.h"
#include "cache/kv_layout.h"
#include "cache/lease.h"
#include "cache/memory/device_memory.h"
#include "cache/prefix_info.h"
#include "cache/prefix_walk.h"
#include "cache/reservation.h"
#include "cache/retention.h"
#include "cache/snapshot.h"
#include "cache/version_table.h"

namespace kvasir {

class CacheCore;

// What a sequence asks of the cache when it starts or resumes.
struct LeaseRequest {
  VersionId version;
  // Decides in which of the version's states this lease may be opened.
  LeasePurpose purpose = LeasePurpose::kNew;
  // Most tokens that the sequence can come to; what pins keep always leaves
  // room for them. 0: not known.
  int64_t most_tokens = 0;
  // The known tokens: the prompt, or prompt and output of a resumed sequence.
  // At most all but the last are looked up, since the last one's logits have
  // to be computed in any case.
  absl::Span<const TokenId> tokens = {};
  // Separates tenants: part of every block's identity. Empty is a salt too.
  std::string_view salt = {};
  bool read_cache = true;   // look for cached blocks; if not, nothing counts
                            // as looked up
  bool write_cache = true;  // make sealed blocks findable
  // A sequence that was preempted: what it finds is not counted as looked up
  // or hit, and what it computes up to `recompute_tokens` counts as
  // recomputed (contract C3: a request counts once).
  bool resumed = false;
  int64_t recompute_tokens = 0;
  // What the blocks of these tokens, found or computed, are kept by when the
  // lease has ended. Unset: what they are kept by stays, and new ones get the
  // default.
  std::optional<Retention> retention = {};
};

struct FlushResult {
  int64_t freed_blocks = 0;
  int64_t freed_bytes = 0;
};

// The front door of the cache: the only cache class that the engine calls.
//
// Owned by the engine; every method on the engine thread only, which is why
// nothing in here locks. That is the thread of the first OpenLease(): before
// it, the cache may be set up on another one. It hands out no pointer into the
// pool, only a Lease or a Reservation, and calls nobody above it; it must
// outlive them all.
class KvCache {
 public:
  // Bounds of Options, so that no product of them overflows.
  static constexpr int64_t kMaxLayoutDimension = 1 << 14;
  static constexpr int64_t kMaxBlockTokens = 1 << 10;
  static constexpr int64_t kMaxAddressBytes = int64_t{1} << 46;

  // Most blocks of a layout that addresses and ids are enough for.
  static int64_t MaxBlocks(const KvLayout& layout);

  struct Options {
    KvLayout layout;
    int64_t capacity_blocks = 0;  // of the device tier
    // Reserved once: the most that SetTarget() takes; 0 means capacity_blocks.
    int64_t address_space_blocks = 0;
    bool prefix_caching = true;  // false: nothing is findable
    // Test hook for collisions: a block's hash is cut to this many bits before
    // the index uses it. The identity that is compared stays whole.
    int32_t index_hash_bits = 64;
    // One of so many leases that find something is sampled; 0: none is.
    int64_t hits_per_sample = 0;
    // Test hook: how much one ContinueResize() does, see CacheResizer.
    int64_t resize_slice_bytes = int64_t{1} << 30;
  };

  // Reserves the address range and commits the first `capacity_blocks`.
  // INVALID_ARGUMENT for a layout or size that makes no sense,
  // RESOURCE_EXHAUSTED when the system does not give the memory.
  static absl::StatusOr<std::unique_ptr<KvCache>> Create(
      const Options& options, std::unique_ptr<DeviceMemory> memory,
      std::unique_ptr<EvictionPolicy> policy);
  ~KvCache();

  // --- Versions (contract C5). ---

  // Adds a version, warming or serving. `fingerprint` covers everything that
  // decides the bytes of a block but the tokens and the salt (DESIGN §4), as
  // lower-case hex. No two versions share a block: the label is part of every
  // block's identity, so that what one of them keeps is its own to account for
  // and to lose. Only a retired version's label and fingerprint may both come
  // again.
  VersionId AddVersion(std::string_view label, std::string_view fingerprint,
                       VersionState state = VersionState::kServing);

  // Another state, as VersionTable allows. A version that retires loses its
  // blocks with it.
  absl::Status MoveVersion(VersionId id, VersionState to);

  // Drops a slice of the blocks of a version that nobody holds and that is to
  // retire. True if it has no block left, so that MoveVersion() finds none.
  bool ContinueDrop(VersionId id);

  // Leases that hold the version.
  int64_t LeaseCount(VersionId id) const;

  // Pins the version and every cached block of the leading tokens. NOT_FOUND
  // for an unknown version, FAILED_PRECONDITION for one whose state does not
  // allow the purpose.
  absl::StatusOr<Lease> OpenLease(const LeaseRequest& request);

  // Leading blocks of the tokens that a lease opened now would share with
  // leases that are open already or with pinned prefixes, so that they take
  // nothing from Capacity().
  // Changes nothing. Costs a hash for each of them and one more.
  int64_t CountSharedBlocks(const LeaseRequest& request) const;

  // The prefixes of a version that most leases found, the hottest first; also
  // those whose blocks are gone. See HotPrefixes.
  std::vector<HotPrefix> HottestPrefixes(VersionId id, size_t count) const;

  // Looks again for blocks that follow the lease's last full block, if it
  // stands at a block border: another sequence may have sealed them since.
  // `tokens` are all known tokens of the sequence, as in LeaseRequest. Returns
  // how many tokens were gained; they count as hits of the lease. Where nothing
  // is found this costs one look-up, and a hash once per block.
  int64_t ExtendLease(Lease& lease, absl::Span<const TokenId> tokens);

  // Gives `to` the full blocks that come next in `from`, as far as they hold
  // tokens below `limit_tokens`: the two sequences begin with the same ones,
  // and are of one version and salt. For where a look-up finds nothing, since
  // nothing is to be findable. Returns how many tokens were gained, none if
  // `to` does not stand at a block border; they are nobody's hits.
  int64_t ShareBlocks(Lease& to, const Lease& from, int64_t limit_tokens);

  CapacityView Capacity() const;

  // Of that many blocks, those that pinned prefixes and tenants' floors keep
  // for good: no request may count on them.
  int64_t KeptBlocks(int64_t total) const;
  // Blocks that pins keep, whatever the total.
  int64_t PinnedPrefixBlocks() const;
  // Of that many blocks, those that pins and floors keep and no lease holds.
  int64_t KeptBlocksAtRest(int64_t total) const;
  // Blocks that a sequence without a lease may come to, one that was preempted
  // say, beside those that pins keep for it: pins leave room for them, as they
  // do for leases. The most of all such sequences; stays until the next call.
  void SetPromisedBlocks(int64_t blocks);
  // Leading blocks of a lease that pins keep: what it need not be given again.
  int64_t PinnedPrefixBlocks(const Lease& lease) const;
  // The same of a lease that would be opened now. Costs as CountSharedBlocks().
  int64_t PinnedPrefixBlocks(const LeaseRequest& request) const;

  // Pieces that appending `token_count` tokens to the lease would take.
  int64_t PiecesNeeded(const Lease& lease, int64_t token_count) const;

  // Grants the blocks of one step, evicting cached ones as the policy ranks
  // them. A growth that asks for more than Capacity() offers is our bug and
  // fails a check: the scheduler counts before it plans.
  Reservation Reserve(absl::Span<const LeaseGrowth> growths);

  // Drops every cached block. Pinned ones stay with their leases, but neither
  // they nor what those leases compute after them is findable any more. No
  // prefix is hot any more.
  FlushResult Flush();

  // --- Retention. ---

  // The time is `now`, which is steady: drops prefixes whose time to live is
  // over and ends pins. To be called at every turn; a slice at a time.
  void Advance(absl::Duration now);
  // When it may next have something to do, or earlier.
  absl::Duration NextDeadline() const;

  // See PrefixAdmin.
  std::vector<PrefixInfo> Prefixes(const PrefixFilter& filter) const;
  bool Continue(PrefixListing& listing) const;
  bool Continue(PrefixSweep& sweep);
  // Of those that Prefixes() tells, the ones whose keys begin with these
  // digits: lower-case hex, at least KeyDirectory::kMinDigits.
  std::vector<PrefixInfo> PrefixesByDigits(std::string_view digits) const;
  absl::StatusOr<PrefixInfo> FindPrefix(const BlockKey& key) const;
  absl::StatusOr<PrefixInfo> PinPrefix(const BlockKey& key,
                                       absl::Duration until);
  absl::StatusOr<PrefixInfo> UnpinPrefix(const BlockKey& key);
  PrefixEviction EvictPrefixes(const PrefixFilter& filter, bool dry_run);
  absl::StatusOr<PrefixEviction> EvictPrefixes(absl::Span<const BlockKey> keys,
                                               bool dry_run);

  // The prefix that is as much of the request's tokens as is cached, all of
  // them included. NOT_FOUND if that is less than a block.
  absl::StatusOr<PrefixInfo> FindPrefix(const LeaseRequest& request) const;

  // What a tenant, who is a salt, may count on and keep. INVALID_ARGUMENT for
  // a floor above the most, RESOURCE_EXHAUSTED for too many tenants or floors
  // that together are more than kMaxKeptPercent of the blocks.
  absl::Status SetTenantQuota(std::string_view salt, const TenantQuota& quota);

  // Blocks that a version keeps at most when nobody holds them; 0: all.
  void SetVersionQuota(VersionId version, int64_t blocks);

  // --- Checks of what is cached. ---

  // The prefix that a sampled lease has found last, if it is still cached and
  // was not taken before.
  std::optional<HitSample> TakeHitSample();

  // Leading blocks of two leases whose bytes are equal, up to the shorter one.
  int64_t CountEqualBlocks(const Lease& a, const Lease& b) const;

  // The name of a findable block of the lease.
  BlockKey KeyAt(const Lease& lease, int64_t block_index) const;

  // The block with that key, and all that is found through it, is wrong: those
  // that nobody holds are dropped, the others are never found again. Returns
  // how many there were; none if no block has the key.
  int64_t Condemn(const BlockKey& key);

  // --- Resize of the device tier (contract C6). ---

  // The pool is on its way to `blocks` from now on, wherever it was going; the
  // present size calls a resize off. A smaller size holds for Capacity() at
  // once, memory follows with ContinueResize(). OUT_OF_RANGE with wanted and
  // found.
  absl::Status SetTarget(int64_t blocks);
  // Whether it makes sense to set out for that size: what SetTarget() would
  // answer, and FAILED_PRECONDITION for one that pinned prefixes alone fill.
  absl::Status CheckTarget(int64_t blocks) const;

  // One slice of the way, between two steps: a few milliseconds at most.
  // RESOURCE_EXHAUSTED if the system does not give the memory to grow; the
  // size reached so far is then the target.
  absl::Status ContinueResize();

  ResizeProgress resize() const;

  CacheSnapshot Snapshot() const;

  // Everything that must hold of the cache and does not, one sentence each;
  // empty if all is well. Walks all blocks: for tests and debug builds.
  std::vector<std::string> Violations() const;

  const KvLayout& layout() const;

 private:
  explicit KvCache(std::unique_ptr<CacheCore> core);

  const std::unique_ptr<CacheCore> core_;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_KV_CACHE_H_

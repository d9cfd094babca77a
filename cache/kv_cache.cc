#include "cache/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "cache/block_arena.h"
#include "cache/cache_core.h"

namespace kvasir {
namespace {

absl::Status CheckRange(absl::string_view name, int64_t value, int64_t lowest,
                        int64_t highest) {
  if (value >= lowest && value <= highest) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "cache: ", name, " is ", value, ", must be ", lowest, " to ", highest));
}

absl::Status Check(const KvCache::Options& options) {
  const KvLayout& layout = options.layout;
  RETURN_IF_ERROR(CheckRange("layer_count", layout.layer_count, 1,
                             KvCache::kMaxLayoutDimension));
  RETURN_IF_ERROR(CheckRange("kv_head_count", layout.kv_head_count, 1,
                             KvCache::kMaxLayoutDimension));
  RETURN_IF_ERROR(
      CheckRange("head_dim", layout.head_dim, 1, KvCache::kMaxLayoutDimension));
  RETURN_IF_ERROR(CheckRange("block_tokens", layout.block_tokens, 1,
                             KvCache::kMaxBlockTokens));
  RETURN_IF_ERROR(
      CheckRange("index_hash_bits", options.index_hash_bits, 1, 64));
  const int64_t max_blocks = KvCache::MaxBlocks(layout);
  RETURN_IF_ERROR(
      CheckRange("capacity_blocks", options.capacity_blocks, 1, max_blocks));
  if (options.address_space_blocks != 0) {
    RETURN_IF_ERROR(CheckRange("address_space_blocks",
                               options.address_space_blocks,
                               options.capacity_blocks, max_blocks));
  }
  return absl::OkStatus();
}

}  // namespace

int64_t KvCache::MaxBlocks(const KvLayout& layout) {
  return std::min<int64_t>(std::numeric_limits<BlockId::Value>::max(),
                           kMaxAddressBytes / layout.BlockBytes());
}

absl::StatusOr<std::unique_ptr<KvCache>> KvCache::Create(
    const Options& options, std::unique_ptr<DeviceMemory> memory,
    std::unique_ptr<EvictionPolicy> policy) {
  KV_CHECK(memory != nullptr && policy != nullptr);
  RETURN_IF_ERROR(Check(options));
  ASSIGN_OR_RETURN(BlockArena arena,
                   BlockArena::Create(options.layout.BlockBytes(),
                                      std::max(options.address_space_blocks,
                                               options.capacity_blocks),
                                      std::move(memory)));
  RETURN_IF_ERROR(arena.Grow(options.capacity_blocks));
  return std::unique_ptr<KvCache>(new KvCache(std::make_unique<CacheCore>(
      options, std::move(arena), std::move(policy))));
}

KvCache::KvCache(std::unique_ptr<CacheCore> core) : core_(std::move(core)) {}

KvCache::~KvCache() = default;

VersionId KvCache::AddVersion(std::string_view label,
                              std::string_view fingerprint,
                              VersionState state) {
  KV_DCHECK(core_->OnEngineThread());
  return core_->AddVersion(label, fingerprint, state);
}

absl::Status KvCache::MoveVersion(VersionId id, VersionState to) {
  KV_DCHECK(core_->OnEngineThread());
  return core_->MoveVersion(id, to);
}

bool KvCache::ContinueDrop(VersionId id) {
  KV_DCHECK(core_->OnEngineThread());
  return core_->ContinueDrop(id);
}

int64_t KvCache::LeaseCount(VersionId id) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->versions().At(id).lease_count;
}

absl::StatusOr<Lease> KvCache::OpenLease(const LeaseRequest& request) {
  ASSIGN_OR_RETURN(std::unique_ptr<LeaseState> state,
                   core_->OpenLease(request));
  return Lease(std::move(state));
}

int64_t KvCache::CountSharedBlocks(const LeaseRequest& request) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->CountLeading(request, /*held_too=*/true);
}

std::vector<HotPrefix> KvCache::HottestPrefixes(VersionId id,
                                                size_t count) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->HottestPrefixes(id, count);
}

int64_t KvCache::ExtendLease(Lease& lease, absl::Span<const TokenId> tokens) {
  KV_DCHECK(core_->OnEngineThread());
  KV_CHECK(lease.held());
  return core_->ExtendLease(*lease.state_, tokens);
}

int64_t KvCache::ShareBlocks(Lease& to, const Lease& from,
                             int64_t limit_tokens) {
  KV_DCHECK(core_->OnEngineThread());
  KV_CHECK(to.held() && from.held());
  return core_->ShareBlocks(*to.state_, *from.state_, limit_tokens);
}

CapacityView KvCache::Capacity() const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Capacity();
}

int64_t KvCache::KeptBlocks(int64_t total) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->book().KeptBlocks(total);
}

int64_t KvCache::PinnedPrefixBlocks() const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->book().pinned_blocks();
}

int64_t KvCache::KeptBlocksAtRest(int64_t total) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->book().KeptBlocksAtRest(total);
}

int64_t KvCache::PinnedPrefixBlocks(const Lease& lease) const {
  KV_DCHECK(core_->OnEngineThread());
  KV_CHECK(lease.held());
  return core_->PinnedPrefixBlocks(*lease.state_);
}

void KvCache::SetPromisedBlocks(int64_t blocks) {
  KV_DCHECK(core_->OnEngineThread());
  core_->SetPromisedBlocks(blocks);
}

int64_t KvCache::PinnedPrefixBlocks(const LeaseRequest& request) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->CountLeading(request, /*held_too=*/false);
}

int64_t KvCache::PiecesNeeded(const Lease& lease, int64_t token_count) const {
  KV_DCHECK(core_->OnEngineThread());
  KV_CHECK(lease.held() && token_count >= 0) << token_count;
  return core_->PiecesNeeded(*lease.state_, token_count);
}

Reservation KvCache::Reserve(absl::Span<const LeaseGrowth> growths) {
  KV_DCHECK(core_->OnEngineThread());
  auto state = std::make_unique<ReservationState>();
  state->core = core_.get();
  state->growths.reserve(growths.size());
  size_t token_count = 0;
  for (const LeaseGrowth& growth : growths) {
    KV_CHECK(growth.lease != nullptr && growth.lease->held());
    state->growths.push_back({.lease = growth.lease->state_.get(),
                              .first_token = token_count,
                              .token_count = growth.tokens.size()});
    token_count += growth.tokens.size();
  }
  state->tokens.reserve(token_count);
  for (const LeaseGrowth& growth : growths) {
    state->tokens.insert(state->tokens.end(), growth.tokens.begin(),
                         growth.tokens.end());
  }
  core_->Grant(*state);
  return Reservation(std::move(state));
}

FlushResult KvCache::Flush() {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Flush();
}

void KvCache::Advance(absl::Duration now) {
  KV_DCHECK(core_->OnEngineThread());
  core_->Advance(now);
}

absl::Duration KvCache::NextDeadline() const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->NextDeadline();
}

std::vector<PrefixInfo> KvCache::Prefixes(const PrefixFilter& filter) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Admin().List(filter);
}

bool KvCache::Continue(PrefixListing& listing) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Admin().Continue(listing);
}

bool KvCache::Continue(PrefixSweep& sweep) {
  KV_DCHECK(core_->OnEngineThread());
  if (sweep.cause == EvictionCause::kFlush && !sweep.dry_run) {
    core_->ForgetHot(sweep.filter);
  }
  return core_->Admin().Continue(sweep);
}

std::vector<PrefixInfo> KvCache::PrefixesByDigits(
    std::string_view digits) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Admin().ListByDigits({digits.data(), digits.size()});
}

absl::StatusOr<PrefixInfo> KvCache::FindPrefix(const BlockKey& key) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Admin().Find(key);
}

absl::StatusOr<PrefixInfo> KvCache::FindPrefix(
    const LeaseRequest& request) const {
  KV_DCHECK(core_->OnEngineThread());
  const BlockId block = core_->FindTokens(request);
  if (!block.valid()) {
    return absl::NotFoundError("not even the first block is cached");
  }
  return core_->Admin().InfoOf(block);
}

absl::StatusOr<PrefixInfo> KvCache::PinPrefix(const BlockKey& key,
                                              absl::Duration until) {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Admin().Pin(key, until, core_->MostLeaseBlocks());
}

absl::StatusOr<PrefixInfo> KvCache::UnpinPrefix(const BlockKey& key) {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Admin().Unpin(key);
}

PrefixEviction KvCache::EvictPrefixes(const PrefixFilter& filter,
                                      bool dry_run) {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Admin().Evict(filter, dry_run);
}

absl::StatusOr<PrefixEviction> KvCache::EvictPrefixes(
    absl::Span<const BlockKey> keys, bool dry_run) {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Admin().Evict(keys, dry_run);
}

absl::Status KvCache::SetTenantQuota(std::string_view salt,
                                     const TenantQuota& quota) {
  KV_DCHECK(core_->OnEngineThread());
  return core_->SetTenantQuota(salt, quota);
}

void KvCache::SetVersionQuota(VersionId version, int64_t blocks) {
  KV_DCHECK(core_->OnEngineThread());
  core_->SetVersionQuota(version, blocks);
}

std::optional<HitSample> KvCache::TakeHitSample() {
  KV_DCHECK(core_->OnEngineThread());
  return core_->TakeHitSample();
}

int64_t KvCache::CountEqualBlocks(const Lease& a, const Lease& b) const {
  KV_DCHECK(core_->OnEngineThread());
  const BlockTableView left = a.Table();
  const BlockTableView right = b.Table();
  const int64_t count = std::min(a.block_count(), b.block_count());
  int64_t equal = 0;
  while (equal < count &&
         std::memcmp(left.Block(equal), right.Block(equal),
                     static_cast<size_t>(left.block_bytes)) == 0) {
    ++equal;
  }
  return equal;
}

BlockKey KvCache::KeyAt(const Lease& lease, int64_t block_index) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->KeyOf(lease.Table().blocks[block_index]);
}

int64_t KvCache::Condemn(const BlockKey& key) {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Condemn(key);
}

absl::Status KvCache::SetTarget(int64_t blocks) {
  KV_DCHECK(core_->OnEngineThread());
  return core_->SetTarget(blocks);
}

absl::Status KvCache::CheckTarget(int64_t blocks) const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->CheckTarget(blocks);
}

absl::Status KvCache::ContinueResize() {
  KV_DCHECK(core_->OnEngineThread());
  return core_->ContinueResize();
}

ResizeProgress KvCache::resize() const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->resize();
}

CacheSnapshot KvCache::Snapshot() const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Snapshot();
}

std::vector<std::string> KvCache::Violations() const {
  KV_DCHECK(core_->OnEngineThread());
  return core_->Violations();
}

const KvLayout& KvCache::layout() const { return core_->layout(); }

}  // namespace kvasir

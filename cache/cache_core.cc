#include "cache/cache_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"

namespace kvasir {

namespace {

// Blocks whose time or quota is over that are dropped at a time, at most.
constexpr int64_t kExpirySlice = 1024;
constexpr int64_t kQuotaSlice = 1024;

}  // namespace

CacheCore::CacheCore(const KvCache::Options& options, BlockArena arena,
                     std::unique_ptr<EvictionPolicy> policy)
    : options_(options),
      block_tokens_(options.layout.block_tokens),
      arena_(std::move(arena)),
      pool_(options.layout.block_tokens),
      tails_(pool_, arena_, options.layout),
      prefixes_(pool_, options.layout.block_tokens, options.index_hash_bits,
                std::move(policy)),
      resizer_(pool_, arena_, tails_, prefixes_, counters_,
               options.resize_slice_bytes) {
  pool_.Grow(options.capacity_blocks);
  resizer_.SetTarget(options.capacity_blocks);
  prefixes_.Reserve(options.capacity_blocks);
  prefixes_.book().SetLimit(options.capacity_blocks);
}

CacheCore::~CacheCore() {
  KV_CHECK(leases_.empty() && !reserving_)
      << leases_.size() << " leases and "
      << (reserving_ ? "a reservation" : "no reservation")
      << " outlive the cache";
}

VersionId CacheCore::AddVersion(std::string_view label,
                                std::string_view fingerprint,
                                VersionState state) {
  for (const CacheVersion& version : versions_.versions()) {
    KV_CHECK(version.state == VersionState::kRetired ||
             version.label != label || version.fingerprint != fingerprint)
        << "version " << version.id << " is '" << label << "' already";
  }
  const VersionId id = versions_.Add(label, fingerprint);
  if (state == VersionState::kWarming) return id;
  const absl::Status moved = versions_.Move(id, state);
  KV_CHECK(moved.ok()) << moved;
  return id;
}

absl::Status CacheCore::MoveVersion(VersionId id, VersionState to) {
  const bool was_superseded = to == VersionState::kServing &&
                              versions_.CheckOpen(id, LeasePurpose::kHeld).ok();
  RETURN_IF_ERROR(versions_.Move(id, to));
  drops_.erase(id);
  prefixes_.book().SetSuperseded(id, to == VersionState::kDraining);
  if (was_superseded) {
    prefixes_.UnpinExcess(id, MostPinnedBlocks(prefixes_, MostLeaseBlocks()));
  }
  if (to == VersionState::kRetired) {
    prefixes_.DropVersion(id);
    hot_prefixes_.erase(id);
    ForgetRetired();
  }
  return absl::OkStatus();
}

bool CacheCore::ContinueDrop(VersionId id) {
  KV_CHECK(versions_.At(id).lease_count == 0) << "version " << id << " is held";
  const auto done = [&] { return pool_.tally(id).blocks.cached == 0; };
  if (!done()) {
    PrefixSweep& sweep = drops_[id];
    sweep.filter.version = id;
    sweep.unpin = true;
    sweep.cause = EvictionCause::kVersion;
    // What others have uncovered meanwhile takes another walk.
    if (Admin().Continue(sweep)) drops_.erase(id);
  }
  if (done()) drops_.erase(id);
  return done();
}

absl::StatusOr<std::unique_ptr<LeaseState>> CacheCore::OpenLease(
    const LeaseRequest& request) {
  std::thread::id unset;
  engine_thread_.compare_exchange_strong(unset, std::this_thread::get_id());
  KV_DCHECK(OnEngineThread());
  RETURN_IF_ERROR(versions_.CheckOpen(request.version, request.purpose));
  auto lease = std::make_unique<LeaseState>();
  lease->core = this;
  lease->version = request.version;
  lease->tail.version = request.version;
  lease->scope = ScopeOf(request);
  lease->read_cache = request.read_cache;
  lease->write_cache = request.write_cache;
  lease->resumed = request.resumed;
  lease->recompute_tokens = request.recompute_tokens;
  lease->retention = request.retention;
  lease->most_tokens = request.most_tokens;
  lease->open_tokens.reserve(block_tokens_);
  lease->list_index = leases_.size();
  leases_.push_back(lease.get());
  versions_.AddLease(lease->version);
  if (options_.prefix_caching && lease->read_cache) {
    if (!lease->resumed) counters_.lookup_tokens += request.tokens.size();
    CountHits(*lease, AppendCached(*lease, request.tokens));
    CountHot(*lease, request.tokens);
    SampleHit(*lease);
  }
  return lease;
}

BlockId CacheCore::FindTokens(const LeaseRequest& request) {
  if (!versions_.IsResident(request.version)) return {};
  BlockIdentity identity{.scope = ScopeOf(request)};
  for (auto left = request.tokens;
       static_cast<int64_t>(left.size()) >= block_tokens_;
       left.remove_prefix(block_tokens_)) {
    identity.tokens = left.subspan(0, block_tokens_);
    const BlockId block = prefixes_.Peek(identity);
    if (!block.valid()) break;
    identity.parent = block;
  }
  return identity.parent;
}

void CacheCore::Advance(absl::Duration now) {
  prefixes_.Advance(now, kExpirySlice);
  if (over_quota_) EvictOverQuota();
}

// A resize makes quotas smaller that are shares, and then there may be many: a
// slice now, the others when Advance() is called.
void CacheCore::EvictOverQuota() {
  over_quota_ = !prefixes_.EvictOverQuota(kQuotaSlice);
}

absl::Status CacheCore::SetTenantQuota(std::string_view salt,
                                       const TenantQuota& quota) {
  const int64_t total = book().limit();
  const int64_t most = quota.Of(total).max_blocks;
  const int64_t floor = quota.FloorOf(total);
  if (floor < 0 || most < 0 || (most > 0 && floor > most) ||
      quota.floor_ratio > 1 || quota.max_ratio > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tenant quota: wanted 0 <= floor <= most, found a floor of ", floor,
        " and ", most, " blocks of ", total));
  }
  RETURN_IF_ERROR(prefixes_.SetQuota(salt, quota));
  EvictOverQuota();
  return absl::OkStatus();
}

void CacheCore::SetVersionQuota(VersionId version, int64_t blocks) {
  KV_CHECK(blocks >= 0 && versions_.IsResident(version)) << blocks;
  prefixes_.book().SetVersionQuota(version, blocks);
  EvictOverQuota();
}

std::vector<HotPrefix> CacheCore::HottestPrefixes(VersionId id,
                                                  size_t count) const {
  const auto it = hot_prefixes_.find(id);
  if (it == hot_prefixes_.end()) return {};
  return it->second.Top(count);
}

int64_t CacheCore::PinnedPrefixBlocks(const LeaseState& lease) const {
  int64_t count = 0;
  while (count < lease.table.size() && IsFindable(lease, count + 1) &&
         prefixes_.book().Pinned(lease.table.ids()[count])) {
    ++count;
  }
  return count;
}

int64_t CacheCore::CountLeading(const LeaseRequest& request, bool held_too) {
  if (!options_.prefix_caching || !request.read_cache ||
      !versions_.CheckOpen(request.version, request.purpose).ok()) {
    return 0;
  }
  BlockIdentity identity{.scope = ScopeOf(request)};
  int64_t count = 0;
  const int64_t known = static_cast<int64_t>(request.tokens.size());
  for (; (count + 1) * block_tokens_ < known; ++count) {
    identity.tokens =
        request.tokens.subspan(count * block_tokens_, block_tokens_);
    const BlockId block = prefixes_.Peek(identity);
    if (!block.valid()) break;
    const bool held = held_too && pool_.state(block) == BlockState::kPinned;
    if (!held && !prefixes_.book().Pinned(block)) break;
    identity.parent = block;
  }
  return count;
}

int64_t CacheCore::ExtendLease(LeaseState& lease,
                               absl::Span<const TokenId> tokens) {
  KV_CHECK(!lease.growing) << "the lease is part of a live reservation";
  KV_CHECK(static_cast<int64_t>(tokens.size()) >= lease.token_count)
      << tokens.size() << " known tokens, " << lease.token_count << " held";
  if (!UsesIndex(lease) || !lease.read_cache ||
      lease.token_count % block_tokens_ != 0 ||
      !IsFindable(lease, lease.table.size())) {
    return 0;
  }
  const int64_t gained = AppendCached(lease, tokens);
  CountHits(lease, gained);
  if (gained > 0) CountHot(lease, tokens);
  return gained;
}

int64_t CacheCore::ShareBlocks(LeaseState& to, const LeaseState& from,
                               int64_t limit_tokens) {
  KV_CHECK(!to.growing && !from.growing) << "part of a live reservation";
  KV_CHECK(to.version == from.version && to.scope->salt == from.scope->salt)
      << "sequences of another identity";
  const int64_t before = to.token_count;
  if (before % block_tokens_ != 0) return 0;
  const int64_t most = std::min(from.token_count, limit_tokens);
  while (to.token_count + block_tokens_ <= most) {
    to.table.Append(pool_.Pin(from.table.ids()[to.table.size()]));
    to.token_count += block_tokens_;
  }
  to.cut_off |= from.cut_off && to.token_count > before;
  return to.token_count - before;
}

void CacheCore::EndLease(LeaseState& lease) {
  KV_CHECK(!lease.growing) << "the lease is part of a live reservation";
  tails_.Resize(lease.tail, 0);
  prefixes_.Release(std::move(lease.table), lease.retention);
  EvictOverQuota();
  versions_.DropLease(lease.version);
  leases_.back()->list_index = lease.list_index;
  std::swap(leases_[lease.list_index], leases_.back());
  leases_.pop_back();
}

FlushResult CacheCore::Flush() {
  hot_prefixes_.clear();
  const int64_t freed = prefixes_.Flush();
  for (LeaseState* lease : leases_) lease->cut_off |= lease->token_count > 0;
  return {.freed_blocks = freed, .freed_bytes = freed * layout().BlockBytes()};
}

void CacheCore::ForgetHot(const PrefixFilter& filter) {
  for (auto& [version, hot] : hot_prefixes_) {
    if (filter.version.value_or(version) != version) continue;
    hot.Forget([&filter](const std::string& salt) {
      return filter.salt.value_or(salt) == salt &&
             (!filter.salt_is || filter.salt_is(salt));
    });
  }
}

int64_t CacheCore::PiecesNeeded(const LeaseState& lease,
                                int64_t token_count) const {
  return layout().PiecesFor(lease.token_count + token_count) -
         layout().PiecesFor(lease.token_count);
}

void CacheCore::Grant(ReservationState& reservation) {
  KV_CHECK(!reserving_) << "one reservation at a time";
  int64_t wanted = 0;
  for (const ReservationState::Growth& growth : reservation.growths) {
    KV_CHECK(growth.lease->core == this) << "a lease of another cache";
    KV_CHECK(!growth.lease->growing) << "a lease is named twice";
    growth.lease->growing = true;
    wanted += PiecesNeeded(*growth.lease, growth.token_count);
  }
  const CapacityView capacity = Capacity();
  KV_CHECK(wanted <= capacity.available_pieces())
      << wanted << " pieces wanted, " << capacity.free_pieces << " free and "
      << capacity.cached_pieces << " cached ones there";
  reserving_ = true;
  // Free blocks that a shrink needs to move others to are not counted as free.
  while (wanted > Capacity().free_pieces) {
    KV_CHECK(prefixes_.EvictOne()) << "every cached block is protected";
  }
  for (const ReservationState::Growth& growth : reservation.growths) {
    GrowTable(*growth.lease, growth.token_count);
  }
}

void CacheCore::GrowTable(LeaseState& lease, int64_t token_count) {
  const int64_t after = lease.token_count + token_count;
  const bool in_pieces = layout().PiecesPerBlock() > 1;
  const int64_t blocks =
      in_pieces ? after / block_tokens_ : layout().BlocksFor(after);
  if (lease.tail.tokens > 0 && blocks > lease.table.size()) {
    lease.table.Append(tails_.Join(lease.tail));
  }
  while (lease.table.size() < blocks) {
    lease.table.Append(tails_.GrantBlock(lease.version));
  }
  if (in_pieces) {
    tails_.Resize(lease.tail, layout().PiecesFor(after % block_tokens_));
  }
}

void CacheCore::Commit(ReservationState& reservation) {
  const auto tokens = absl::MakeConstSpan(reservation.tokens);
  for (const ReservationState::Growth& growth : reservation.growths) {
    growth.lease->growing = false;
    AppendTokens(*growth.lease,
                 tokens.subspan(growth.first_token, growth.token_count));
  }
  reserving_ = false;
}

void CacheCore::Drop(ReservationState& reservation) {
  for (const ReservationState::Growth& growth : reservation.growths) {
    growth.lease->growing = false;
    ShrinkTable(*growth.lease);
  }
  reserving_ = false;
}

void CacheCore::ShrinkTable(LeaseState& lease) {
  const auto open_tokens =
      static_cast<int32_t>(lease.token_count % block_tokens_);
  const int64_t blocks = layout().BlocksFor(lease.token_count);
  const bool in_pieces = layout().PiecesPerBlock() > 1 && open_tokens > 0;
  if (!in_pieces || lease.tail.tokens > 0) {
    // What is open was not joined: it is still in the tail, or never was.
    tails_.Resize(lease.tail, layout().PiecesFor(lease.tail.tokens));
    return lease.table.Truncate(blocks - (lease.tail.tokens > 0 ? 1 : 0));
  }
  tails_.Resize(lease.tail, 0);
  lease.table.Truncate(blocks);
  tails_.Split(lease.table.TakeLast(), open_tokens, lease.tail);
}

absl::Status CacheCore::CheckRange(int64_t blocks) const {
  if (blocks >= 1 && blocks <= arena_.max_blocks()) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "wanted 1 to ", arena_.max_blocks(),
      " blocks (the address space reserved at start), found ", blocks));
}

absl::Status CacheCore::CheckTarget(int64_t blocks) const {
  RETURN_IF_ERROR(CheckRange(blocks));
  const int64_t pinned = prefixes_.book().pinned_blocks();
  if (blocks > pinned) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("wanted more than the ", pinned,
                   " blocks of pinned prefixes, found ", blocks));
}

absl::Status CacheCore::SetTarget(int64_t blocks) {
  KV_CHECK(!reserving_) << "in the middle of a step";
  RETURN_IF_ERROR(CheckRange(blocks));
  resizer_.SetTarget(blocks);
  prefixes_.Reserve(blocks);
  prefixes_.book().SetLimit(pool_.limit());
  EvictOverQuota();  // of what is a share
  return absl::OkStatus();
}

absl::Status CacheCore::ContinueResize() {
  KV_CHECK(!reserving_) << "in the middle of a step";
  const absl::Status status = resizer_.Continue(leases_);
  prefixes_.book().SetLimit(pool_.limit());
  return status;
}

// Counts what the pool may hold, not where: while a shrink is under way, some
// free blocks are promised to those that have to move.
CapacityView CacheCore::Capacity() const {
  const int64_t per_block = layout().PiecesPerBlock();
  const BlockTally& tally = pool_.tally();
  const int64_t whole =
      tally.blocks.pinned - tally.split_blocks + tally.blocks.reserved;
  const int64_t left =
      pool_.limit() * per_block - whole * per_block - tails_.used_pieces();
  const int64_t kept =
      std::min(prefixes_.book().protected_blocks(), tally.blocks.cached);
  const int64_t available = std::max<int64_t>(left - kept * per_block, 0);
  const int64_t free =
      std::max<int64_t>(left - tally.blocks.cached * per_block, 0);
  return {.block_tokens = layout().block_tokens,
          .pieces_per_block = layout().PiecesPerBlock(),
          .total_blocks = pool_.limit(),
          .free_pieces = free,
          .cached_pieces = available - free};
}

BlockTableView CacheCore::View(const LeaseState& lease,
                               bool with_reserved) const {
  BlockTableView view = {.base = arena_.base(),
                         .block_bytes = arena_.block_bytes(),
                         .blocks = lease.table.ids(),
                         .tail = lease.tail.pieces};
  if (with_reserved) return view;
  view.blocks = view.blocks.subspan(0, layout().BlocksFor(lease.token_count));
  view.tail = view.tail.subspan(0, layout().PiecesFor(lease.tail.tokens));
  return view;
}

bool CacheCore::OnEngineThread() const {
  const std::thread::id engine_thread = engine_thread_.load();
  return engine_thread == std::thread::id() ||
         engine_thread == std::this_thread::get_id();
}

std::shared_ptr<const BlockScope> CacheCore::ScopeOf(
    const LeaseRequest& request) {
  const CacheVersion& version = versions_.At(request.version);
  return scopes_.Share({.fingerprint = version.fingerprint,
                        .version = version.label,
                        .salt = std::string(request.salt)});
}

bool CacheCore::UsesIndex(const LeaseState& lease) const {
  return options_.prefix_caching && !lease.cut_off &&
         (lease.read_cache || lease.write_cache);
}

bool CacheCore::IsFindable(const LeaseState& lease, int64_t block_count) const {
  return block_count == 0 ||
         prefixes_.Findable(lease.table.ids()[block_count - 1]);
}

int64_t CacheCore::AppendCached(LeaseState& lease,
                                absl::Span<const TokenId> tokens) {
  const int64_t known = static_cast<int64_t>(tokens.size());
  const int64_t before = lease.token_count;
  BlockIdentity identity{.scope = lease.scope};
  if (lease.table.size() > 0) identity.parent = lease.table.ids().back();
  lease.table.Reserve(known / block_tokens_);
  // The last known token is computed in any case: its logits are wanted.
  while (lease.token_count + block_tokens_ < known) {
    identity.tokens = tokens.subspan(lease.token_count, block_tokens_);
    BlockRef block = prefixes_.Find(identity);
    if (!block.held()) break;
    identity.parent = block.block();
    if (!lease.resumed) prefixes_.RecordHit(block.block());
    lease.table.Append(std::move(block));
    lease.token_count += block_tokens_;
  }
  return lease.token_count - before;
}

void CacheCore::CountHits(LeaseState& lease, int64_t tokens) {
  lease.cached_token_count += tokens;
  if (lease.resumed) return;
  counters_.hit_tokens += tokens;
  versions_.CountHits(lease.version, tokens);
}

void CacheCore::CountHot(LeaseState& lease, absl::Span<const TokenId> tokens) {
  if (lease.resumed) return;
  const int64_t blocks =
      std::min(lease.token_count, HotPrefixes::kMaxPrefixTokens) /
      block_tokens_;
  if (blocks == lease.hot_blocks) return;
  const auto key_of = [&](int64_t count) -> const BlockKey& {
    return prefixes_.index().Key(lease.table.ids()[count - 1]);
  };
  HotPrefixes& hot = hot_prefixes_[lease.version];
  if (lease.hot_blocks > 0) hot.TakeBack(key_of(lease.hot_blocks));
  hot.Count(key_of(blocks), tokens.subspan(0, blocks * block_tokens_),
            lease.scope->salt);
  lease.hot_blocks = blocks;
}

void CacheCore::SampleHit(const LeaseState& lease) {
  if (options_.hits_per_sample == 0 || lease.resumed ||
      lease.table.size() == 0 ||
      ++sampled_hits_ % options_.hits_per_sample != 0) {
    return;
  }
  hit_sample_ = KeyOf(lease.table.ids().back());
}

std::optional<HitSample> CacheCore::TakeHitSample() {
  if (!hit_sample_.has_value()) return std::nullopt;
  const BlockId last = prefixes_.index().keys().Find(*hit_sample_);
  hit_sample_.reset();
  if (!last.valid()) return std::nullopt;
  const IndexedBlock& entry = prefixes_.index().At(last);
  HitSample sample{.version = pool_.owner(last), .salt = entry.scope->salt};
  sample.tokens.resize((int64_t{entry.depth} + 1) * block_tokens_);
  auto end = sample.tokens.end();
  for (BlockId block = last; block.valid();
       block = prefixes_.index().At(block).parent) {
    const absl::Span<const TokenId> tokens = prefixes_.index().Tokens(block);
    end = std::copy_backward(tokens.begin(), tokens.end(), end);
  }
  return sample;
}

void CacheCore::AppendTokens(LeaseState& lease,
                             absl::Span<const TokenId> tokens) {
  if (lease.resumed) {
    const int64_t left = lease.recompute_tokens - lease.token_count;
    counters_.recomputed_tokens +=
        std::clamp<int64_t>(left, 0, static_cast<int64_t>(tokens.size()));
  }
  while (!tokens.empty()) {
    const int64_t index = lease.token_count / block_tokens_;
    const int64_t filled = lease.token_count % block_tokens_;
    const auto part = tokens.subspan(0, block_tokens_ - filled);
    const int64_t now_filled = filled + static_cast<int64_t>(part.size());
    lease.open_tokens.insert(lease.open_tokens.end(), part.begin(), part.end());
    if (index < lease.table.size()) {
      pool_.Fill(lease.table.ref(index), static_cast<int32_t>(now_filled));
    } else {
      lease.tail.tokens = static_cast<int32_t>(now_filled);
    }
    lease.token_count += part.size();
    if (now_filled == block_tokens_) {
      Seal(lease, index);
      lease.open_tokens.clear();
    }
    tokens.remove_prefix(part.size());
  }
}

// With the codecs f32 and f16 the sealed form of a block is its open form, so
// sealing changes no byte; it gives the block its identity.
void CacheCore::Seal(LeaseState& lease, int64_t index) {
  if (!UsesIndex(lease) || !IsFindable(lease, index)) return;
  BlockIdentity identity{.scope = lease.scope, .tokens = lease.open_tokens};
  if (index > 0) identity.parent = lease.table.ids()[index - 1];
  BlockRef same = prefixes_.Find(identity);
  if (same.held()) {
    lease.table.Replace(index, std::move(same));
    ++counters_.deduplicated_blocks;
  } else if (lease.write_cache) {
    prefixes_.Publish(identity, lease.table.ref(index));
    ++counters_.inserted_blocks;
  }
}

}  // namespace kvasir

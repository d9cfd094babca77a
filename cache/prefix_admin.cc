#include "cache/prefix_admin.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

std::string Hex(const BlockKey& key) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(key.data()), key.size()));
}

}  // namespace

int64_t MostPinnedBlocks(const PrefixCache& prefixes,
                         int64_t most_lease_blocks) {
  const RetentionBook& book = prefixes.book();
  return std::max<int64_t>(
      std::min(book.max_pinned_blocks(), book.limit() - most_lease_blocks), 0);
}

std::vector<PrefixInfo> PrefixAdmin::List(const PrefixFilter& filter) const {
  std::vector<PrefixInfo> infos;
  PrefixListing listing{{.filter = filter}};
  for (bool done = false; !done;) {
    done = Continue(listing);
    infos.insert(infos.end(), listing.found.begin(), listing.found.end());
  }
  std::sort(
      infos.begin(), infos.end(),
      [](const PrefixInfo& a, const PrefixInfo& b) { return a.key < b.key; });
  return infos;
}

bool PrefixAdmin::Continue(PrefixListing& listing) const {
  const PrefixIndex& index = prefixes_.index();
  listing.found.clear();
  if (listing.left < 0) listing.left = index.id_limit();
  int64_t budget = listing.slice_blocks;
  while (listing.left > 0 && budget > 0) {
    const BlockId block(static_cast<BlockId::Value>(--listing.left));
    --budget;
    if (!index.Contains(block) || !IsListed(block) ||
        !Matches(block, listing.filter)) {
      continue;
    }
    listing.found.push_back(InfoOf(block));
    budget -= PrefixWalk::kListCost;
  }
  return listing.left == 0;
}

bool PrefixAdmin::Continue(PrefixSweep& sweep) {
  const PrefixIndex& index = prefixes_.index();
  if (sweep.left < 0) BeginPass(sweep);
  int64_t budget = sweep.slice_blocks;
  if (sweep.unfinished.has_value()) {
    const BlockId block = index.keys().Find(*sweep.unfinished);
    sweep.unfinished.reset();
    if (block.valid()) EatFrom(block, sweep, budget);
  }
  while (sweep.left > 0 && budget > 0) {
    const BlockId block(static_cast<BlockId::Value>(--sweep.left));
    --budget;
    if (!index.Contains(block) || sweep.gone.contains(block) ||
        !Matches(block, sweep.filter)) {
      continue;
    }
    ++sweep.sum.kept_blocks;  // until it goes
    if (sweep.unpin && !sweep.dry_run && prefixes_.Unpin(block)) {
      budget -= index.At(block).depth;
    }
    EatFrom(block, sweep, budget);
  }
  return sweep.left == 0 && !sweep.unfinished.has_value() && EndPass(sweep);
}

void PrefixAdmin::BeginPass(PrefixSweep& sweep) const {
  sweep.left = prefixes_.index().id_limit();
  ++sweep.pass;
  sweep.own_drops = 0;
  sweep.changes_then = prefixes_.change_count();
  sweep.sum.kept_blocks = 0;
}

// True if it was the last one.
bool PrefixAdmin::EndPass(PrefixSweep& sweep) const {
  const int64_t changes = prefixes_.change_count() - sweep.changes_then;
  const bool met_any = sweep.own_drops > 0 || sweep.sum.kept_blocks > 0;
  if (!sweep.dry_run && changes != sweep.own_drops && met_any &&
      sweep.pass < PrefixSweep::kMaxPasses) {
    BeginPass(sweep);
    return false;
  }
  // Blocks that were relocated may have been met twice.
  const int64_t there =
      prefixes_.index().size() - static_cast<int64_t>(sweep.gone.size());
  sweep.sum.kept_blocks = std::clamp<int64_t>(sweep.sum.kept_blocks, 0,
                                              std::max<int64_t>(there, 0));
  return true;
}

bool PrefixAdmin::MayGo(BlockId block, const PrefixSweep& sweep) const {
  int32_t children = prefixes_.index().At(block).child_count;
  if (const auto gone = sweep.gone_children.find(block);
      gone != sweep.gone_children.end()) {
    children -= gone->second;
  }
  return children == 0 && pool_.state(block) == BlockState::kCached &&
         !sweep.gone.contains(block) && Matches(block, sweep.filter) &&
         (sweep.unpin || sweep.filter.pinned.value_or(false) ||
          !prefixes_.Pinned(block));
}

// From the end of a prefix towards its beginning, as far as it may go now. So
// it does not matter in which order the walk meets its blocks.
void PrefixAdmin::EatFrom(BlockId block, PrefixSweep& sweep, int64_t& budget) {
  while (block.valid() && MayGo(block, sweep)) {
    if (budget <= 0) {
      sweep.unfinished = prefixes_.index().Key(block);
      return;
    }
    budget -= PrefixWalk::kDropCost;
    const BlockId parent = prefixes_.index().At(block).parent;
    // It was met, unless it has come since.
    if (block.value() >= sweep.left && sweep.sum.kept_blocks > 0) {
      --sweep.sum.kept_blocks;
    }
    ++sweep.sum.blocks;
    ++sweep.own_drops;
    if (sweep.dry_run) {
      sweep.gone.insert(block);
      ++sweep.gone_children[parent];
    } else {
      prefixes_.Evict(block, sweep.cause);
    }
    block = parent;
  }
}

std::vector<PrefixInfo> PrefixAdmin::ListByDigits(
    absl::string_view digits) const {
  std::vector<PrefixInfo> infos;
  for (const BlockId block : prefixes_.index().keys().StartingWith(digits)) {
    if (IsListed(block)) infos.push_back(InfoOf(block));
  }
  return infos;
}

absl::StatusOr<PrefixInfo> PrefixAdmin::Find(const BlockKey& key) const {
  ASSIGN_OR_RETURN(const BlockId block, BlockOf(key));
  return InfoOf(block);
}

absl::StatusOr<PrefixInfo> PrefixAdmin::Pin(const BlockKey& key,
                                            absl::Duration until,
                                            int64_t most_lease_blocks) {
  ASSIGN_OR_RETURN(const BlockId block, BlockOf(key));
  const int64_t added = prefixes_.CountUnpinnedPath(block);
  const int64_t pinned = prefixes_.book().pinned_blocks();
  const int64_t most = MostPinnedBlocks(prefixes_, most_lease_blocks);
  if (added > 0 && pinned + added > most) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "wanted at most ", most, " blocks kept by pins (", kMaxKeptPercent,
        " % of the cache, less if a running request needs more), found ",
        pinned, " and ", added, " of this prefix"));
  }
  prefixes_.Pin(block, until);
  return InfoOf(block);
}

absl::StatusOr<PrefixInfo> PrefixAdmin::Unpin(const BlockKey& key) {
  ASSIGN_OR_RETURN(const BlockId block, BlockOf(key));
  if (prefixes_.Unpin(block)) return InfoOf(block);
  return absl::FailedPreconditionError(
      absl::StrCat("prefix ", Hex(key), " is not pinned"));
}

PrefixEviction PrefixAdmin::Evict(const PrefixFilter& filter, bool dry_run) {
  PrefixSweep sweep{{.filter = filter}, dry_run};
  while (!Continue(sweep)) {
  }
  return sweep.sum;
}

absl::StatusOr<PrefixEviction> PrefixAdmin::Evict(
    absl::Span<const BlockKey> keys, bool dry_run) {
  absl::flat_hash_set<BlockId> named;
  for (const BlockKey& key : keys) {
    ASSIGN_OR_RETURN(const BlockId block, BlockOf(key));
    named.insert(block);
  }
  absl::flat_hash_set<BlockId> meant;
  for (const BlockId block : named) {
    const std::vector<BlockId> found = prefixes_.index().Subtree(block);
    meant.insert(found.begin(), found.end());
  }
  meant = WithNeeded(named, std::move(meant));
  return Drop(
      {meant.begin(), meant.end()},
      [&named](BlockId block) { return named.contains(block); }, dry_run);
}

// And the blocks before the named ones that are needed only to find what is
// meant.
absl::flat_hash_set<BlockId> PrefixAdmin::WithNeeded(
    const absl::flat_hash_set<BlockId>& named,
    absl::flat_hash_set<BlockId> meant) const {
  const PrefixIndex& index = prefixes_.index();
  absl::flat_hash_map<BlockId, int32_t> meant_children;
  for (const BlockId block : meant) ++meant_children[index.At(block).parent];
  for (const BlockId block : named) {
    BlockId before = index.At(block).parent;
    while (before.valid() &&
           meant_children[before] == index.At(before).child_count &&
           !prefixes_.Pinned(before) && meant.insert(before).second) {
      before = index.At(before).parent;
      ++meant_children[before];
    }
  }
  return meant;
}

absl::StatusOr<BlockId> PrefixAdmin::BlockOf(const BlockKey& key) const {
  const BlockId block = prefixes_.index().keys().Find(key);
  if (block.valid()) return block;
  return absl::NotFoundError(
      absl::StrCat("no prefix ", Hex(key), " is cached"));
}

PrefixInfo PrefixAdmin::InfoOf(BlockId block) const {
  const IndexedBlock& entry = prefixes_.index().At(block);
  const BlockRetention& retention = prefixes_.book().Of(block);
  PrefixInfo info;
  info.key = prefixes_.index().Key(block);
  if (entry.parent.valid()) {
    info.parent = prefixes_.index().Key(entry.parent);
  }
  info.version = retention.version;
  info.salt = entry.scope->salt;
  info.block_count = int64_t{entry.depth} + 1;
  info.token_count = info.block_count * pool_.block_tokens();
  info.hit_count = entry.hit_count;
  info.lease_count = pool_.pin_count(block);
  info.retention = retention.wish;
  info.pinned = prefixes_.Pinned(block);
  if (info.pinned) info.pinned_until = prefixes_.PinnedUntil(block);
  info.created = retention.created;
  info.last_hit = retention.last_hit;
  info.expires = retention.expires;
  return info;
}

bool PrefixAdmin::IsListed(BlockId block) const {
  return prefixes_.index().At(block).child_count == 0 ||
         prefixes_.Pinned(block);
}

bool PrefixAdmin::Matches(BlockId block, const PrefixFilter& filter) const {
  const IndexedBlock& entry = prefixes_.index().At(block);
  return filter.version.value_or(pool_.owner(block)) == pool_.owner(block) &&
         (!filter.salt.has_value() || *filter.salt == entry.scope->salt) &&
         (!filter.salt_is || filter.salt_is(entry.scope->salt)) &&
         filter.pinned.value_or(prefixes_.Pinned(block)) ==
             prefixes_.Pinned(block) &&
         (int64_t{entry.depth} + 1) * pool_.block_tokens() >= filter.min_tokens;
}

// From the ends of prefixes on, each block once all that is found through it
// has gone.
PrefixEviction PrefixAdmin::Drop(std::vector<BlockId> meant,
                                 absl::FunctionRef<bool(BlockId)> pinned_too,
                                 bool dry_run) {
  std::sort(meant.begin(), meant.end(), [&](BlockId a, BlockId b) {
    const int64_t depth_a = prefixes_.index().At(a).depth;
    const int64_t depth_b = prefixes_.index().At(b).depth;
    return depth_a != depth_b ? depth_a > depth_b : a < b;
  });
  PrefixEviction eviction;
  absl::flat_hash_map<BlockId, int64_t> gone_children;
  for (const BlockId block : meant) {
    const IndexedBlock& entry = prefixes_.index().At(block);
    const int64_t children =
        entry.child_count - (dry_run ? gone_children[block] : 0);
    if (children > 0 || pool_.state(block) != BlockState::kCached ||
        (prefixes_.Pinned(block) && !pinned_too(block))) {
      ++eviction.kept_blocks;
      continue;
    }
    ++eviction.blocks;
    ++gone_children[entry.parent];
    if (!dry_run) prefixes_.Evict(block, EvictionCause::kNamed);
  }
  return eviction;
}

}  // namespace kvasir

#include "cache/prefix_cache.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {

PrefixCache::PrefixCache(BlockPool& pool, int32_t block_tokens,
                         int32_t hash_bits,
                         std::unique_ptr<EvictionPolicy> policy)
    : pool_(pool), index_(block_tokens, hash_bits), policy_(std::move(policy)) {
  KV_CHECK(policy_ != nullptr);
}

void PrefixCache::Reserve(int64_t blocks) {
  index_.Reserve(blocks);
  book_.Reserve(blocks);
  groups_.Reserve(blocks);
}

BlockRef PrefixCache::Find(const BlockIdentity& identity) {
  const BlockId block = index_.Find(identity);
  if (!block.valid()) return BlockRef();
  if (pool_.state(block) == BlockState::kCached) {
    if (index_.At(block).child_count == 0) groups_.Remove(block);
    book_.Hold(block);
  }
  return pool_.Pin(block);
}

void PrefixCache::Publish(const BlockIdentity& identity, const BlockRef& own) {
  index_.Insert(identity, own.block());
  pool_.Keep(own);
  book_.Insert(own.block(), pool_.owner(own.block()), identity.scope->salt);
  if (told_capacity_ != pool_.limit()) {
    told_capacity_ = pool_.limit();
    policy_->OnResize(told_capacity_);
  }
  policy_->OnInsert(FactsOf(own.block()), tick_);
}

void PrefixCache::RecordHit(BlockId block) {
  index_.RecordHit(block);
  book_.Hit(block);
  policy_->OnHit(FactsOf(block), tick_);
}

void PrefixCache::Release(BlockTable table,
                          const std::optional<Retention>& wish) {
  ++tick_;
  // From the end, so that a parent is looked at when its child is at rest.
  while (table.size() > 0) {
    const BlockId block = table.ids().back();
    if (index_.Contains(block)) book_.Keep(block, wish);
    table.Truncate(table.size() - 1);
    if (pool_.state(block) != BlockState::kCached) continue;
    index_.RecordUse(block, tick_);
    book_.Rest(block);
    policy_->OnRelease(FactsOf(block));
    if (index_.At(block).child_count == 0) MakeEvictable(block);
  }
}

bool PrefixCache::EvictOne(EvictionCause cause) {
  const auto standing = [this](const EvictionGroupKey& group) {
    return book_.StandingOf(group);
  };
  // The policy hears of a choice only if one is made.
  if (!groups_.Offers(standing)) return false;
  while (true) {
    const BlockId unguarded = policy_->TakeUnguarded();
    if (!unguarded.valid()) break;
    if (groups_.Contains(unguarded)) Regroup(unguarded);
  }
  return EvictFirst(standing, cause);
}

int64_t PrefixCache::Condemn(const BlockKey& key) {
  const BlockId wrong = index_.keys().Find(key);
  if (!wrong.valid()) return 0;
  const std::vector<BlockId> order = index_.Subtree(wrong);
  const BlockId parent = index_.At(wrong).parent;
  for (auto block = order.rbegin(); block != order.rend(); ++block) {
    if (groups_.Contains(*block)) groups_.Remove(*block);
    Drop(*block, EvictionCause::kCanary);
  }
  if (IsLeafAtRest(parent)) MakeEvictable(parent);
  return static_cast<int64_t>(order.size());
}

bool PrefixCache::EvictOverQuota(int64_t limit) {
  const auto over = [this](const EvictionGroupKey& group) {
    return book_.OverQuota(group) ? book_.StandingOf(group) : std::nullopt;
  };
  while (limit-- > 0) {
    if (!EvictFirst(over, EvictionCause::kQuota)) return true;
  }
  return false;
}

bool PrefixCache::EvictFirst(Standing standing, EvictionCause cause) {
  const auto rank_of = [this](BlockId block) {
    return policy_->RankOf(FactsOf(block), tick_);
  };
  const EvictionGroups::RankOf rank(rank_of);
  const BlockId block =
      groups_.First(standing, policy_->ranks_change() ? &rank : nullptr,
                    policy_->may_evict_guarded());
  if (!block.valid()) return false;
  Evict(block, cause);
  return true;
}

void PrefixCache::Evict(BlockId block, EvictionCause cause) {
  const BlockId parent = index_.At(block).parent;
  groups_.Remove(block);
  Drop(block, cause);
  if (IsLeafAtRest(parent)) MakeEvictable(parent);
}

void PrefixCache::Advance(absl::Duration now, int64_t limit) {
  book_.SetNow(now);
  if (next_pin_end_ <= now) EndPins();
  int64_t freed = 0;
  for (int64_t looks = 0;
       looks < kMaxExpiryLooks && freed < limit && book_.next_expiry() <= now;
       ++looks) {
    const BlockId block = book_.TakeExpired();
    // What others are found through, or a pin keeps, goes when it can.
    if (!block.valid() || !groups_.Contains(block)) continue;
    if (Pinned(block)) {
      Regroup(block);
    } else {
      Evict(block, EvictionCause::kTtl);
      ++freed;
    }
  }
}

void PrefixCache::EndPins() {
  next_pin_end_ = absl::InfiniteDuration();
  for (auto pin = pins_.begin(); pin != pins_.end();) {
    const auto [block, until] = *pin++;
    if (until <= book_.now()) {
      Unpin(block);
    } else {
      next_pin_end_ = std::min(next_pin_end_, until);
    }
  }
}

void PrefixCache::UnpinExcess(VersionId version, int64_t most) {
  std::vector<BlockId> blocks;
  for (const auto& [block, until] : pins_) {
    if (pool_.owner(block) == version) blocks.push_back(block);
  }
  std::sort(blocks.begin(), blocks.end());
  while (!blocks.empty() && book_.pinned_blocks() > most) {
    Unpin(blocks.back());
    blocks.pop_back();
  }
}

void PrefixCache::Pin(BlockId block, absl::Duration until) {
  next_pin_end_ = std::min(next_pin_end_, until);
  const bool added = pins_.insert_or_assign(block, until).second;
  if (!added) return;
  book_.AddPin(block, 1);
  for (BlockId each = block; each.valid(); each = index_.At(each).parent) {
    book_.AddPinBelow(each, 1);
  }
  if (groups_.Contains(block)) Regroup(block);
}

bool PrefixCache::Unpin(BlockId block) {
  if (pins_.erase(block) == 0) return false;
  book_.AddPin(block, -1);
  for (BlockId each = block; each.valid(); each = index_.At(each).parent) {
    book_.AddPinBelow(each, -1);
  }
  if (groups_.Contains(block)) Regroup(block);
  return true;
}

int64_t PrefixCache::CountUnpinnedPath(BlockId block) const {
  int64_t count = 0;
  while (block.valid() && book_.Of(block).pins_below == 0) {
    ++count;
    block = index_.At(block).parent;
  }
  return count;
}

absl::Status PrefixCache::SetQuota(std::string_view salt,
                                   const TenantQuota& quota) {
  if (absl::Status set = book_.SetQuota(salt, quota); !set.ok()) return set;
  for (const BlockId block : index_.Blocks()) {
    if (index_.At(block).scope->salt != salt) continue;
    book_.Assign(block, salt);
    if (groups_.Contains(block)) Regroup(block);
  }
  return absl::OkStatus();
}

void PrefixCache::Drop(BlockId block, EvictionCause cause) {
  Unpin(block);
  ++change_count_;
  policy_->OnEvict(FactsOf(block));
  book_.Drop(block, cause);
  index_.Remove(block);
  pool_.Forget(block);
}

void PrefixCache::Relocate(BlockId from, BlockId to) {
  if (!index_.Contains(from)) return;
  ++change_count_;
  index_.Relocate(from, to);
  book_.Relocate(from, to);
  policy_->OnRelocate(FactsOf(to));
  if (const auto pin = pins_.find(from); pin != pins_.end()) {
    const absl::Duration until = pin->second;
    pins_.erase(pin);
    pins_.emplace(to, until);
  }
  if (!groups_.Contains(from)) return;
  groups_.Remove(from);
  MakeEvictable(to);
}

int64_t PrefixCache::DropVersion(VersionId version) {
  if (pool_.tally(version).blocks == BlockCounts()) return 0;
  std::vector<BlockId> blocks = index_.Blocks();
  std::erase_if(blocks,
                [&](BlockId block) { return pool_.owner(block) != version; });
  // Children first; a parent has the version of its children.
  std::stable_sort(blocks.begin(), blocks.end(), [&](BlockId a, BlockId b) {
    return index_.At(a).depth > index_.At(b).depth;
  });
  for (const BlockId block : blocks) {
    KV_CHECK(pool_.state(block) == BlockState::kCached)
        << "block " << block << " of version " << version << " is "
        << BlockStateName(pool_.state(block));
    if (groups_.Contains(block)) groups_.Remove(block);
    Drop(block, EvictionCause::kVersion);
  }
  return static_cast<int64_t>(blocks.size());
}

int64_t PrefixCache::Flush() {
  const int64_t cached = pool_.tally().blocks.cached;
  ++change_count_;
  for (const BlockId block : index_.Blocks()) pool_.Forget(block);
  index_.Clear();  // gives the room of its tables back
  index_.Reserve(pool_.limit());
  groups_.Clear();
  book_.Clear(EvictionCause::kFlush);
  pins_.clear();
  policy_->OnFlush();
  return cached;
}

bool PrefixCache::IsLeafAtRest(BlockId block) const {
  return block.valid() && index_.At(block).child_count == 0 &&
         pool_.state(block) == BlockState::kCached;
}

void PrefixCache::Regroup(BlockId block) {
  groups_.Remove(block);
  MakeEvictable(block);
}

BlockFacts PrefixCache::FactsOf(BlockId block) const {
  const IndexedBlock& entry = index_.At(block);
  return {.block = block,
          .name = entry.hash,
          .version = pool_.owner(block),
          .depth = entry.depth,
          .last_use = entry.last_use,
          .hit_count = entry.hit_count};
}

void PrefixCache::MakeEvictable(BlockId block) {
  if (book_.Of(block).expired && !Pinned(block)) book_.ExpireAgain(block);
  const BlockFacts facts = FactsOf(block);
  EvictionGroupKey group = book_.GroupOf(block);
  group.guarded = policy_->Guards(facts);
  groups_.Insert(group, {.rank = policy_->RankOf(facts, tick_),
                         .depth = facts.depth,
                         .block = block});
}

std::vector<std::string> PrefixCache::Violations() const {
  std::vector<std::string> found = index_.Violations();
  for (std::vector<std::string> violations :
       {groups_.Violations(), book_.Violations(index_.Blocks())}) {
    std::move(violations.begin(), violations.end(), std::back_inserter(found));
  }
  int64_t evictable = 0;
  for (int64_t i = 0; i < pool_.block_count(); ++i) {
    const BlockId block(static_cast<BlockId::Value>(i));
    const bool cached = pool_.state(block) == BlockState::kCached;
    const bool indexed = index_.Contains(block);
    if (pool_.kept(block) != indexed || (cached && !indexed)) {
      found.push_back(absl::StrCat("block ", i, " is ",
                                   BlockStateName(pool_.state(block)), ", ",
                                   pool_.kept(block) ? "" : "not ", "kept and ",
                                   indexed ? "" : "not ", "indexed"));
      continue;
    }
    const bool leaf = cached && index_.At(block).child_count == 0;
    evictable += leaf;
    if (groups_.Contains(block) != leaf) {
      found.push_back(absl::StrCat("block ", i, leaf ? " is not" : " is",
                                   " in the eviction order"));
    }
    if (!indexed || !index_.At(block).parent.valid()) continue;
    const BlockId parent = index_.At(block).parent;
    if (!cached && pool_.state(parent) == BlockState::kCached) {
      found.push_back(absl::StrCat("block ", i, " is pinned and its parent ",
                                   parent.value(), " is not"));
    }
  }
  if (groups_.size() != evictable) {
    found.push_back(absl::StrCat("the eviction order holds ", groups_.size(),
                                 " blocks instead of ", evictable));
  }
  return found;
}

}  // namespace kvasir

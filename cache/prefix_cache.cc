#include "cache/prefix_cache.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {
namespace {

BlockName NameOf(const BlockKey& key) {
  BlockName name = 0;
  for (size_t i = 0; i < sizeof(name); ++i) {
    name |= BlockName{key[i]} << (8 * i);
  }
  return name;
}

}  // namespace

PrefixCache::PrefixCache(BlockPool& pool, int32_t block_tokens,
                         int32_t hash_bits,
                         std::unique_ptr<EvictionPolicy> policy)
    : pool_(pool), index_(block_tokens, hash_bits), policy_(std::move(policy)) {
  KV_CHECK(policy_ != nullptr);
}

BlockRef PrefixCache::Find(const BlockIdentity& identity) {
  const BlockId block = index_.Find(identity);
  if (!block.valid()) return BlockRef();
  if (order_.Contains(block)) order_.Remove(block);
  return pool_.Pin(block);
}

void PrefixCache::Publish(const BlockIdentity& identity, const BlockRef& own) {
  index_.Insert(identity, own.block());
  pool_.Keep(own);
  if (told_capacity_ != pool_.limit()) {
    told_capacity_ = pool_.limit();
    policy_->OnResize(told_capacity_);
  }
  policy_->OnInsert(FactsOf(own.block()), tick_);
}

void PrefixCache::RecordHit(BlockId block) {
  index_.RecordHit(block);
  policy_->OnHit(FactsOf(block), tick_);
}

void PrefixCache::Release(BlockTable table) {
  ++tick_;
  // From the end, so that a parent is looked at when its child is at rest.
  while (table.size() > 0) {
    const BlockId block = table.ids().back();
    table.Truncate(table.size() - 1);
    if (pool_.state(block) != BlockState::kCached) continue;
    index_.RecordUse(block, tick_);
    policy_->OnRelease(FactsOf(block));
    if (index_.At(block).child_count == 0) MakeEvictable(block);
  }
}

void PrefixCache::EvictOne() {
  if (policy_->ranks_change()) {
    order_.Refresh([this](BlockId block) {
      return policy_->RankOf(FactsOf(block), tick_);
    });
  }
  const BlockId block = order_.First();
  const BlockId parent = index_.At(block).parent;
  order_.Remove(block);
  Drop(block);
  if (parent.valid() && index_.At(parent).child_count == 0 &&
      pool_.state(parent) == BlockState::kCached) {
    MakeEvictable(parent);
  }
}

void PrefixCache::Drop(BlockId block) {
  policy_->OnEvict(FactsOf(block));
  index_.Remove(block);
  pool_.Forget(block);
}

void PrefixCache::Relocate(BlockId from, BlockId to) {
  if (!index_.Contains(from)) return;
  index_.Relocate(from, to);
  if (!order_.Contains(from)) return;
  order_.Remove(from);
  MakeEvictable(to);
}

int64_t PrefixCache::DropVersion(VersionId version) {
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
    if (order_.Contains(block)) order_.Remove(block);
    Drop(block);
  }
  return static_cast<int64_t>(blocks.size());
}

int64_t PrefixCache::Flush() {
  const int64_t cached = pool_.tally().blocks.cached;
  for (const BlockId block : index_.Blocks()) pool_.Forget(block);
  index_.Clear();
  order_.Clear();
  policy_->OnFlush();
  return cached;
}

BlockFacts PrefixCache::FactsOf(BlockId block) const {
  const IndexedBlock& entry = index_.At(block);
  return {.block = block,
          .name = NameOf(entry.key),
          .version = pool_.owner(block),
          .depth = entry.depth,
          .last_use = entry.last_use,
          .hit_count = entry.hit_count};
}

void PrefixCache::MakeEvictable(BlockId block) {
  const BlockFacts facts = FactsOf(block);
  order_.Insert({.rank = policy_->RankOf(facts, tick_),
                 .depth = facts.depth,
                 .block = block});
}

std::vector<std::string> PrefixCache::Violations() const {
  std::vector<std::string> found = index_.Violations();
  for (std::string& violation : order_.Violations()) {
    found.push_back(std::move(violation));
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
    if (order_.Contains(block) != leaf) {
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
  if (order_.size() != evictable) {
    found.push_back(absl::StrCat("the eviction order holds ", order_.size(),
                                 " blocks instead of ", evictable));
  }
  return found;
}

}  // namespace kvasir

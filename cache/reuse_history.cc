#include "cache/reuse_history.h"

#include <algorithm>
#include <cstddef>

namespace kvasir {

static_assert(sizeof(ReuseHistory::Entry) == 32, "two to a cache line");

void ReuseHistory::Resize(int64_t blocks) {
  max_entries_ = std::max(kMinEntries, kEntriesPerBlock * blocks);
}

void ReuseHistory::LimitRecent(int64_t blocks) {
  recent_limit_ = blocks;
  for (; recent_count_ > recent_limit_; --recent_count_) {
    Entry& entry = entries_[oldest_recent_];
    entry.recent = false;
    missing_count_ -= entry.cached ? 0 : 1;
    oldest_recent_ = entry.newer;
  }
}

const ReuseHistory::Entry* ReuseHistory::Find(const BlockFacts& block) const {
  const int32_t entry = IndexOf(block);
  return entry == kNone ? nullptr : &entries_[entry];
}

// Most look-ups are about blocks that are cached, whose entry is found without
// the hash table, unless it has moved since.
int32_t ReuseHistory::IndexOf(const BlockFacts& block) const {
  const size_t id = static_cast<size_t>(block.block.value());
  if (id < by_block_.size()) {
    const int32_t guess = by_block_[id];
    if (guess < size() && guess != kNone &&
        entries_[guess].name == block.name) {
      return guess;
    }
  }
  const auto found = index_.find(block.name);
  return found == index_.end() ? kNone : found->second;
}

void ReuseHistory::Remember(BlockId block, int32_t entry) {
  entries_[entry].block = block;
  if (!block.valid()) return;
  const size_t id = static_cast<size_t>(block.value());
  if (id >= by_block_.size()) by_block_.resize(id + 1, kNone);
  by_block_[id] = entry;
}

ReuseHistory::Used ReuseHistory::Use(const BlockFacts& block) {
  std::optional<Entry> forgotten;
  bool was_recent = false;
  int32_t entry = IndexOf(block);
  if (entry != kNone) {
    was_recent = entries_[entry].recent;
    Unlink(entry);
  } else if (size() >= max_entries_) {
    // The new one takes the place of the oldest.
    entry = oldest_;
    forgotten = entries_[entry];
    Unlink(entry);
    index_.erase(forgotten->name);
    entries_[entry] = {.name = block.name};
    index_.emplace(block.name, entry);
  } else {
    entry = static_cast<int32_t>(entries_.size());
    entries_.push_back({.name = block.name});
    index_.emplace(block.name, entry);
  }
  entries_[entry].cached = true;
  Remember(block.block, entry);
  Link(entry);
  LimitRecent(recent_limit_);
  if (size() > max_entries_) {
    DropOldest();
    entry = newest_;
  }
  return {entries_[entry], was_recent, forgotten};
}

void ReuseHistory::Evict(const BlockFacts& block, bool from_both) {
  const int32_t entry = IndexOf(block);
  if (entry == kNone || !entries_[entry].cached) return;
  if (from_both && entries_[entry].recent) {
    Unlink(entry);
    entries_[entry].recent = false;
    LinkBehindRecent(entry);
  }
  entries_[entry].cached = false;
  missing_count_ += entries_[entry].recent ? 1 : 0;
}

void ReuseHistory::EvictAll() {
  LimitRecent(0);
  for (Entry& entry : entries_) entry.cached = false;
}

void ReuseHistory::Relocate(const BlockFacts& block) {
  if (const int32_t entry = IndexOf(block); entry != kNone) {
    Remember(block.block, entry);
  }
}

BlockId ReuseHistory::TakeStale() {
  for (;;) {
    const int32_t next = told_ == kNone ? oldest_ : entries_[told_].newer;
    if (next == kNone || entries_[next].recent) return BlockId();
    told_ = next;
    if (entries_[next].cached && entries_[next].block.valid()) {
      return entries_[next].block;
    }
  }
}

void ReuseHistory::Link(int32_t entry) {
  Entry& e = entries_[entry];
  e.newer = kNone;
  e.older = newest_;
  if (newest_ != kNone) entries_[newest_].newer = entry;
  newest_ = entry;
  if (oldest_ == kNone) oldest_ = entry;
  e.recent = true;
  missing_count_ += e.cached ? 0 : 1;
  if (recent_count_++ == 0) oldest_recent_ = entry;
}

void ReuseHistory::LinkBehindRecent(int32_t entry) {
  Entry& e = entries_[entry];
  e.newer = recent_count_ > 0 ? oldest_recent_ : kNone;
  e.older = e.newer == kNone ? newest_ : entries_[e.newer].older;
  (e.newer == kNone ? newest_ : entries_[e.newer].older) = entry;
  (e.older == kNone ? oldest_ : entries_[e.older].newer) = entry;
}

void ReuseHistory::Unlink(int32_t entry) {
  const Entry& e = entries_[entry];
  if (e.recent) {
    --recent_count_;
    missing_count_ -= e.cached ? 0 : 1;
    if (oldest_recent_ == entry) oldest_recent_ = e.newer;
  }
  if (told_ == entry) told_ = e.older;
  (e.newer == kNone ? newest_ : entries_[e.newer].older) = e.older;
  (e.older == kNone ? oldest_ : entries_[e.older].newer) = e.newer;
}

// The last entry moves into the gap, so that entries stay without gaps.
void ReuseHistory::DropOldest() {
  const int32_t gap = oldest_;
  const int32_t last = static_cast<int32_t>(entries_.size()) - 1;
  Unlink(gap);
  index_.erase(entries_[gap].name);
  if (gap != last) {
    const Entry& moved = entries_[gap] = entries_[last];
    index_.find(moved.name)->second = gap;
    if (moved.cached) Remember(moved.block, gap);
    (moved.newer == kNone ? newest_ : entries_[moved.newer].older) = gap;
    (moved.older == kNone ? oldest_ : entries_[moved.older].newer) = gap;
    if (oldest_recent_ == last) oldest_recent_ = gap;
    if (told_ == last) told_ = gap;
  }
  entries_.pop_back();
  if (entries_.size() * 4 < entries_.capacity()) entries_.shrink_to_fit();
}

}  // namespace kvasir

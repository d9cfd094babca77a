#include "cache/reuse_history.h"

#include <algorithm>
#include <utility>

namespace kvasir {

void ReuseHistory::Resize(int64_t blocks) {
  max_entries_ = std::max(kMinEntries, kEntriesPerBlock * blocks);
}

void ReuseHistory::LimitRecent(int64_t blocks) {
  recent_limit_ = blocks;
  for (; recent_count_ > recent_limit_; --recent_count_) {
    Entry& entry = entries_[oldest_recent_];
    entry.recent = false;
    oldest_recent_ = entry.newer;
  }
}

ReuseHistory::Entry* ReuseHistory::Find(BlockName name) {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

const ReuseHistory::Entry* ReuseHistory::Find(BlockName name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

ReuseHistory::Entry& ReuseHistory::Use(BlockName name) {
  const auto [place, added] =
      index_.try_emplace(name, static_cast<int32_t>(entries_.size()));
  int32_t entry = place->second;
  if (added) {
    entries_.push_back({.name = name});
  } else {
    Unlink(entry);
  }
  Link(entry);
  LimitRecent(recent_limit_);
  for (int i = 0; i < kDropsPerUse && size() > max_entries_; ++i) DropOldest();
  return entries_[newest_];
}

void ReuseHistory::Link(int32_t entry) {
  Entry& e = entries_[entry];
  e.newer = kNone;
  e.older = newest_;
  if (newest_ != kNone) entries_[newest_].newer = entry;
  newest_ = entry;
  if (oldest_ == kNone) oldest_ = entry;
  e.recent = true;
  if (recent_count_++ == 0) oldest_recent_ = entry;
}

void ReuseHistory::Unlink(int32_t entry) {
  const Entry& e = entries_[entry];
  if (e.recent) {
    --recent_count_;
    if (oldest_recent_ == entry) oldest_recent_ = e.newer;
  }
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
    (moved.newer == kNone ? newest_ : entries_[moved.newer].older) = gap;
    (moved.older == kNone ? oldest_ : entries_[moved.older].newer) = gap;
    if (oldest_recent_ == last) oldest_recent_ = gap;
  }
  entries_.pop_back();
  if (entries_.size() * 4 < entries_.capacity()) entries_.shrink_to_fit();
}

}  // namespace kvasir

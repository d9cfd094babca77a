#include "cache/eviction_order.h"

#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {

bool EvictionOrder::ComesBefore(const Place& a, const Place& b) {
  if (a.rank != b.rank) return a.rank < b.rank;
  if (a.depth != b.depth) return a.depth > b.depth;
  return a.block < b.block;
}

void EvictionOrder::Insert(const Place& place) {
  KV_CHECK(place.block.valid()) << "block " << place.block;
  KV_CHECK(std::isfinite(place.rank)) << "rank " << place.rank;
  const size_t id = static_cast<size_t>(place.block.value());
  if (id >= positions_.size()) positions_.resize(id + 1, kAbsent);
  KV_CHECK(positions_[id] == kAbsent) << "block " << place.block;
  positions_[id] = static_cast<int32_t>(heap_.size());
  heap_.push_back(place);
  MoveUp(heap_.size() - 1);
}

void EvictionOrder::Remove(BlockId block) {
  KV_CHECK(Contains(block)) << "block " << block << " is not in the order";
  const size_t index = static_cast<size_t>(positions_[block.value()]);
  const size_t last = heap_.size() - 1;
  if (index != last) Swap(index, last);
  heap_.pop_back();
  positions_[block.value()] = kAbsent;
  if (index == last) return;
  MoveUp(index);
  MoveDown(index);
}

const EvictionOrder::Place& EvictionOrder::FirstPlace() const {
  KV_CHECK(!heap_.empty()) << "nothing can be evicted";
  return heap_.front();
}

void EvictionOrder::Refresh(absl::FunctionRef<EvictionRank(BlockId)> rank_of) {
  if (heap_.empty()) return;
  int64_t asked = 0;
  for (int64_t i = 0; i < kSweepIds && asked < kSweepReranks; ++i) {
    if (swept_ >= positions_.size()) swept_ = 0;
    const int32_t position =
        PositionOf(BlockId(static_cast<BlockId::Value>(swept_++)));
    if (position == kAbsent) continue;
    Rerank(position, rank_of(heap_[position].block));
    ++asked;
  }
  while (asked++ < kMaxReranks) {
    const BlockId first = heap_.front().block;
    if (!Rerank(0, rank_of(first)) || heap_.front().block == first) return;
  }
}

bool EvictionOrder::Rerank(size_t index, EvictionRank rank) {
  KV_CHECK(std::isfinite(rank)) << "rank " << rank;
  const BlockId block = heap_[index].block;
  if (heap_[index].rank == rank) return false;
  heap_[index].rank = rank;
  MoveUp(index);
  MoveDown(static_cast<size_t>(positions_[block.value()]));
  return true;
}

void EvictionOrder::Clear() {
  for (const Place& place : heap_) positions_[place.block.value()] = kAbsent;
  heap_.clear();
  swept_ = 0;
}

// The block that stands there tells whose position it is.
int32_t EvictionOrder::PositionOf(BlockId block) const {
  const size_t id = static_cast<size_t>(block.value());
  if (id >= positions_.size() || positions_[id] == kAbsent) return kAbsent;
  const size_t index = static_cast<size_t>(positions_[id]);
  const bool ours = index < heap_.size() && heap_[index].block == block;
  return ours ? positions_[id] : kAbsent;
}

void EvictionOrder::Swap(size_t a, size_t b) {
  std::swap(heap_[a], heap_[b]);
  positions_[heap_[a].block.value()] = static_cast<int32_t>(a);
  positions_[heap_[b].block.value()] = static_cast<int32_t>(b);
}

void EvictionOrder::MoveUp(size_t index) {
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (!ComesBefore(heap_[index], heap_[parent])) return;
    Swap(index, parent);
    index = parent;
  }
}

void EvictionOrder::MoveDown(size_t index) {
  for (;;) {
    size_t first = index;
    for (const size_t child : {2 * index + 1, 2 * index + 2}) {
      if (child < heap_.size() && ComesBefore(heap_[child], heap_[first]))
        first = child;
    }
    if (first == index) return;
    Swap(index, first);
    index = first;
  }
}

std::vector<std::string> EvictionOrder::Violations() const {
  std::vector<std::string> found;
  for (size_t i = 0; i < heap_.size(); ++i) {
    const BlockId block = heap_[i].block;
    if (PositionOf(block) != static_cast<int32_t>(i) ||
        (i > 0 && ComesBefore(heap_[i], heap_[(i - 1) / 2]))) {
      found.push_back(absl::StrCat("block ", block.value(),
                                   " is misplaced in the eviction order"));
    }
  }
  return found;
}

}  // namespace kvasir

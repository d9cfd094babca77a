#include "cache/eviction_order.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {

EvictionOrder::EvictionOrder(std::unique_ptr<EvictionPolicy> policy)
    : policy_(std::move(policy)) {
  KV_CHECK(policy_ != nullptr);
}

void EvictionOrder::Insert(const EvictionCandidate& candidate) {
  KV_CHECK(candidate.block.valid() && !Contains(candidate.block))
      << "block " << candidate.block;
  const size_t id = static_cast<size_t>(candidate.block.value());
  if (id >= positions_.size()) positions_.resize(id + 1, kAbsent);
  positions_[id] = static_cast<int32_t>(heap_.size());
  heap_.push_back(candidate);
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

BlockId EvictionOrder::First() const {
  KV_CHECK(!heap_.empty()) << "nothing can be evicted";
  return heap_.front().block;
}

void EvictionOrder::Clear() {
  heap_.clear();
  positions_.clear();
}

bool EvictionOrder::Contains(BlockId block) const {
  const size_t id = static_cast<size_t>(block.value());
  return id < positions_.size() && positions_[id] != kAbsent;
}

bool EvictionOrder::Before(size_t a, size_t b) const {
  if (policy_->Before(heap_[a], heap_[b])) return true;
  if (policy_->Before(heap_[b], heap_[a])) return false;
  return heap_[a].block < heap_[b].block;
}

void EvictionOrder::Swap(size_t a, size_t b) {
  std::swap(heap_[a], heap_[b]);
  positions_[heap_[a].block.value()] = static_cast<int32_t>(a);
  positions_[heap_[b].block.value()] = static_cast<int32_t>(b);
}

void EvictionOrder::MoveUp(size_t index) {
  while (index > 0) {
    const size_t parent = (index - 1) / 2;
    if (!Before(index, parent)) return;
    Swap(index, parent);
    index = parent;
  }
}

void EvictionOrder::MoveDown(size_t index) {
  for (;;) {
    size_t first = index;
    for (const size_t child : {2 * index + 1, 2 * index + 2}) {
      if (child < heap_.size() && Before(child, first)) first = child;
    }
    if (first == index) return;
    Swap(index, first);
    index = first;
  }
}

std::vector<std::string> EvictionOrder::Violations() const {
  std::vector<std::string> found;
  int64_t present = 0;
  for (const int32_t position : positions_) present += position != kAbsent;
  if (present != size()) {
    found.push_back(absl::StrCat("the eviction order holds ", size(),
                                 " blocks and knows the place of ", present));
  }
  for (size_t i = 0; i < heap_.size(); ++i) {
    const BlockId block = heap_[i].block;
    if (!Contains(block) ||
        positions_[block.value()] != static_cast<int32_t>(i) ||
        (i > 0 && Before(i, (i - 1) / 2))) {
      found.push_back(absl::StrCat("block ", block.value(),
                                   " is misplaced in the eviction order"));
    }
  }
  return found;
}

}  // namespace kvasir

#include "cache/eviction_groups.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/check.h"

namespace kvasir {

void EvictionGroups::Insert(const EvictionGroupKey& key,
                            const EvictionOrder::Place& place) {
  KV_CHECK(!Contains(place.block)) << "block " << place.block;
  const size_t index = static_cast<size_t>(place.block.value());
  if (index >= slots_.size()) slots_.resize(index + 1, kAbsent);
  slots_[index] = SlotOf(key);
  groups_[slots_[index]]->order.Insert(place);
  ++size_;
}

void EvictionGroups::Remove(BlockId block) {
  KV_CHECK(Contains(block)) << "block " << block << " is in no group";
  int32_t& slot = slots_[block.value()];
  groups_[slot]->order.Remove(block);
  slot = kAbsent;
  --size_;
}

BlockId EvictionGroups::First(
    absl::FunctionRef<EvictionStanding(const EvictionGroupKey&)> standing,
    const RankOf* rank_of, bool guarded_too) {
  std::optional<int64_t> lowest;
  standings_.assign(groups_.size(), std::nullopt);
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i]->order.size() == 0) continue;
    standings_[i] = standing(groups_[i]->key);
    if (standings_[i].has_value() &&
        standings_[i] < lowest.value_or(*standings_[i] + 1)) {
      lowest = standings_[i];
    }
  }
  if (!lowest.has_value()) return BlockId();
  EvictionOrder* best = nullptr;
  bool best_waits = false;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (standings_[i] != lowest) continue;
    EvictionOrder& order = groups_[i]->order;
    if (rank_of != nullptr) order.Refresh(*rank_of);
    const bool waits = groups_[i]->key.guarded && !guarded_too;
    if (best == nullptr || waits < best_waits ||
        (waits == best_waits &&
         EvictionOrder::ComesBefore(order.FirstPlace(), best->FirstPlace()))) {
      best = &order;
      best_waits = waits;
    }
  }
  return best->First();
}

void EvictionGroups::Clear() {
  groups_.clear();
  slots_.clear();
  size_ = 0;
}

bool EvictionGroups::Contains(BlockId block) const {
  const size_t index = static_cast<size_t>(block.value());
  return index < slots_.size() && slots_[index] != kAbsent;
}

int32_t EvictionGroups::SlotOf(const EvictionGroupKey& key) {
  int32_t empty = kAbsent;
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i]->key == key) return static_cast<int32_t>(i);
    if (groups_[i]->order.size() == 0) empty = static_cast<int32_t>(i);
  }
  if (empty == kAbsent) {
    empty = static_cast<int32_t>(groups_.size());
    groups_.push_back(std::make_unique<Group>());
  }
  groups_[empty]->key = key;
  return empty;
}

std::vector<std::string> EvictionGroups::Violations() const {
  std::vector<std::string> found;
  int64_t total = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    for (std::string& violation : groups_[i]->order.Violations()) {
      found.push_back(std::move(violation));
    }
    total += groups_[i]->order.size();
  }
  int64_t placed = 0;
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i] == kAbsent) continue;
    ++placed;
    const BlockId block(static_cast<BlockId::Value>(i));
    if (!groups_[slots_[i]]->order.Contains(block)) {
      found.push_back(absl::StrCat("block ", i, " is not in its group"));
    }
  }
  if (total != size_ || placed != size_) {
    found.push_back(absl::StrCat("the eviction groups count ", size_,
                                 " blocks and hold ", total));
  }
  return found;
}

}  // namespace kvasir

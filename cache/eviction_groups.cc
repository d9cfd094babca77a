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
  if (index >= group_of_.size()) group_of_.resize(index + 1);
  Group& group = GroupOf(key);
  group.order.Insert(place);
  group_of_[index] = &group;
  ++size_;
}

void EvictionGroups::Remove(BlockId block) {
  KV_CHECK(Contains(block)) << "block " << block << " is in no group";
  Group& group = *std::exchange(group_of_[block.value()], nullptr);
  group.order.Remove(block);
  --size_;
  if (group.order.size() == 0) Retire(group);
}

BlockId EvictionGroups::First(
    absl::FunctionRef<EvictionStanding(const EvictionGroupKey&)> standing,
    const RankOf* rank_of, bool guarded_too) {
  std::optional<int64_t> lowest;
  standings_.assign(used_, std::nullopt);
  for (size_t i = 0; i < used_; ++i) {
    standings_[i] = standing(groups_[i]->key);
    if (standings_[i].has_value() &&
        standings_[i] < lowest.value_or(*standings_[i] + 1)) {
      lowest = standings_[i];
    }
  }
  if (!lowest.has_value()) return BlockId();
  EvictionOrder* best = nullptr;
  bool best_waits = false;
  for (size_t i = 0; i < used_; ++i) {
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

bool EvictionGroups::Offers(
    absl::FunctionRef<EvictionStanding(const EvictionGroupKey&)> standing)
    const {
  for (size_t i = 0; i < used_; ++i) {
    if (standing(groups_[i]->key).has_value()) return true;
  }
  return false;
}

void EvictionGroups::Clear() {
  by_key_.clear();
  groups_.clear();
  used_ = 0;
  group_of_.clear();
  positions_.clear();
  size_ = 0;
}

bool EvictionGroups::Contains(BlockId block) const {
  const size_t index = static_cast<size_t>(block.value());
  return index < group_of_.size() && group_of_[index] != nullptr;
}

// That group, with a block to come if it had none.
EvictionGroups::Group& EvictionGroups::GroupOf(const EvictionGroupKey& key) {
  Group*& group = by_key_[key];
  if (group != nullptr) return *group;
  if (used_ == groups_.size()) {
    PutAt(groups_.size(), std::make_unique<Group>(positions_));
  }
  group = groups_[used_++].get();
  group->key = key;
  return *group;
}

// The group has lost its last block.
void EvictionGroups::Retire(Group& group) {
  by_key_.erase(group.key);
  --used_;
  const size_t gap = group.index;
  std::unique_ptr<Group> empty = std::move(groups_[gap]);
  if (gap != used_) PutAt(gap, std::move(groups_[used_]));
  PutAt(used_, std::move(empty));
  if (groups_.size() - used_ > kMaxEmptyGroups) groups_.pop_back();
}

void EvictionGroups::PutAt(size_t index, std::unique_ptr<Group> group) {
  group->index = index;
  if (index == groups_.size()) return groups_.push_back(std::move(group));
  groups_[index] = std::move(group);
}

std::vector<std::string> EvictionGroups::Violations() const {
  std::vector<std::string> found;
  int64_t total = 0;
  for (size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = *groups_[i];
    for (std::string& violation : group.order.Violations()) {
      found.push_back(std::move(violation));
    }
    total += group.order.size();
    const auto known = by_key_.find(group.key);
    const bool used = known != by_key_.end() && known->second == &group;
    if (group.index != i || (group.order.size() > 0) != (i < used_) ||
        used != (i < used_)) {
      found.push_back(absl::StrCat("eviction group ", i, " is misplaced"));
    }
  }
  int64_t placed = 0;
  for (size_t i = 0; i < group_of_.size(); ++i) {
    if (group_of_[i] == nullptr) continue;
    ++placed;
    const BlockId block(static_cast<BlockId::Value>(i));
    if (!group_of_[i]->order.Contains(block)) {
      found.push_back(absl::StrCat("block ", i, " is not in its group"));
    }
  }
  int64_t positioned = 0;
  for (const int32_t position : positions_) {
    positioned += position != EvictionOrder::kAbsent;
  }
  if (total != size_ || placed != size_ || positioned != size_ ||
      by_key_.size() != used_) {
    found.push_back(absl::StrCat("the eviction groups count ", size_,
                                 " blocks and hold ", total));
  }
  return found;
}

}  // namespace kvasir

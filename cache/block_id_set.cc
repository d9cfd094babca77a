#include "cache/block_id_set.h"

#include <bit>
#include <cstddef>

#include "cache/base/check.h"

namespace kvasir {
namespace {

constexpr int64_t kWordBits = 64;

constexpr uint64_t Bit(int64_t index) {
  return uint64_t{1} << (index % kWordBits);
}

}  // namespace

void BlockIdSet::Resize(int64_t universe) {
  KV_CHECK(universe >= 0) << universe;
  int64_t words = (universe + kWordBits - 1) / kWordBits;
  Level members = levels_.empty() ? Level() : std::move(levels_.front());
  for (int64_t id = universe; id < universe_; ++id) {
    KV_CHECK((members[id / kWordBits] & Bit(id)) == 0)
        << "id " << id << " is a member beyond the new end " << universe;
  }
  members.resize(words, 0);
  levels_.clear();
  levels_.push_back(std::move(members));
  while (levels_.back().size() > 1) {
    const Level& below = levels_.back();
    Level summary((below.size() + kWordBits - 1) / kWordBits, 0);
    for (size_t word = 0; word < below.size(); ++word) {
      if (below[word] != 0) summary[word / kWordBits] |= Bit(word);
    }
    levels_.push_back(std::move(summary));
  }
  universe_ = universe;
}

void BlockIdSet::Insert(BlockId id) {
  KV_CHECK(!Contains(id)) << "id " << id << " is a member";
  int64_t index = id.value();
  for (Level& level : levels_) {
    level[index / kWordBits] |= Bit(index);
    index /= kWordBits;
  }
  ++size_;
}

void BlockIdSet::Erase(BlockId id) {
  KV_CHECK(Contains(id)) << "id " << id << " is no member";
  int64_t index = id.value();
  for (Level& level : levels_) {
    uint64_t& word = level[index / kWordBits];
    word &= ~Bit(index);
    if (word != 0) break;
    index /= kWordBits;
  }
  --size_;
}

bool BlockIdSet::Contains(BlockId id) const {
  KV_CHECK(id.valid() && id.value() < universe_)
      << "id " << id << " of " << universe_;
  return (levels_.front()[id.value() / kWordBits] & Bit(id.value())) != 0;
}

BlockId BlockIdSet::First() const {
  KV_CHECK(size_ > 0) << "the set is empty";
  int64_t index = 0;
  for (size_t level = levels_.size(); level-- > 0;) {
    index = index * kWordBits + std::countr_zero(levels_[level][index]);
  }
  return BlockId(static_cast<BlockId::Value>(index));
}

}  // namespace kvasir

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

std::vector<uint64_t> Summary(const std::vector<uint64_t>& below) {
  std::vector<uint64_t> summary((below.size() + kWordBits - 1) / kWordBits, 0);
  for (size_t word = 0; word < below.size(); ++word) {
    if (below[word] != 0) summary[word / kWordBits] |= Bit(word);
  }
  return summary;
}

}  // namespace

void BlockIdSet::Resize(int64_t universe) {
  KV_CHECK(universe >= 0) << universe;
  for (int64_t id = universe; id < universe_; ++id) {
    KV_CHECK((levels_.front()[id / kWordBits] & Bit(id)) == 0)
        << "id " << id << " is a member beyond the new end " << universe;
  }
  universe_ = universe;
  // What goes and what comes has no members, so levels that stay need nothing
  // but their new length: a pool gives its blocks up one by one.
  size_t words = (universe + kWordBits - 1) / kWordBits;
  size_t depth = 0;
  while (true) {
    if (depth == levels_.size()) {
      levels_.push_back(depth == 0 ? Level() : Summary(levels_.back()));
    }
    levels_[depth++].resize(words, 0);
    if (words <= 1) break;
    words = (words + kWordBits - 1) / kWordBits;
  }
  levels_.resize(depth);
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

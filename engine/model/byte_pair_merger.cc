#include "engine/model/byte_pair_merger.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace kvasir {
namespace {

constexpr int32_t kNone = -1;
constexpr MergeTable::Merge kNoMerge = {std::numeric_limits<int32_t>::max(),
                                        kNone};

uint64_t PairKey(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 |
         static_cast<uint32_t>(right);
}

// Orders a heap so that its front joins first.
constexpr auto kJoinsLater = [](const auto& a, const auto& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
};

}  // namespace

void MergeTable::Add(TokenId left, TokenId right, Merge merge) {
  merges_.try_emplace(PairKey(left, right), merge);
}

const MergeTable::Merge* MergeTable::Find(TokenId left, TokenId right) const {
  const auto it = merges_.find(PairKey(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void BytePairMerger::AppendWord(std::string_view word) {
  word_.clear();
  for (const char c : word) {
    const TokenId id = table_->byte_tokens[static_cast<uint8_t>(c)];
    if (id != kNone) word_.push_back(id);
  }
  if (word_.size() <= kMaxScannedTokens) {
    MergeByScan();
  } else {
    MergeByHeap();
  }
}

// `merges[i]` is what joins word_[i] and its right neighbour.
void BytePairMerger::MergeByScan() {
  std::array<MergeTable::Merge, kMaxScannedTokens> merges;
  auto find = [&](size_t i) {
    ++steps_;
    const MergeTable::Merge* merge = table_->Find(word_[i], word_[i + 1]);
    merges[i] = merge == nullptr ? kNoMerge : *merge;
  };
  size_t size = word_.size();
  for (size_t i = 0; i + 1 < size; ++i) find(i);
  while (size > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < size; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    steps_ += static_cast<int64_t>(size);
    if (merges[best].joined == kNone) break;
    word_[best] = merges[best].joined;
    for (size_t i = best + 1; i + 1 < size; ++i) {
      word_[i] = word_[i + 1];
      merges[i] = merges[i + 1];
    }
    --size;
    if (best + 1 < size) find(best);
    if (best > 0) find(best - 1);
  }
  ids_.insert(ids_.end(), word_.begin(),
              word_.begin() + static_cast<std::ptrdiff_t>(size));
}

void BytePairMerger::PushCandidate(int32_t left) {
  ++steps_;
  const int32_t right = nodes_[left].next;
  if (right == kNone) return;
  const MergeTable::Merge* merge =
      table_->Find(nodes_[left].id, nodes_[right].id);
  if (merge == nullptr) return;
  heap_.push_back(
      {merge->rank, left, nodes_[left].id, nodes_[right].id, merge->joined});
}

void BytePairMerger::MergeByHeap() {
  const auto size = static_cast<int32_t>(word_.size());
  nodes_.resize(word_.size());
  for (int32_t i = 0; i < size; ++i) {
    nodes_[i] = {word_[i], i - 1, i + 1 < size ? i + 1 : kNone};
  }
  heap_.clear();
  for (int32_t i = 0; i + 1 < size; ++i) PushCandidate(i);
  std::make_heap(heap_.begin(), heap_.end(), kJoinsLater);
  while (!heap_.empty()) {
    ++steps_;
    std::pop_heap(heap_.begin(), heap_.end(), kJoinsLater);
    const Candidate best = heap_.back();
    heap_.pop_back();
    Node& left = nodes_[best.left];
    const int32_t right = left.next;
    if (left.id != best.left_id || right == kNone ||
        nodes_[right].id != best.right_id) {
      continue;
    }
    left.id = best.joined;
    left.next = nodes_[right].next;
    nodes_[right].id = kNone;
    if (left.next != kNone) nodes_[left.next].previous = best.left;
    for (const int32_t changed : {best.left, left.previous}) {
      if (changed == kNone) continue;
      const size_t before = heap_.size();
      PushCandidate(changed);
      if (heap_.size() > before) {
        std::push_heap(heap_.begin(), heap_.end(), kJoinsLater);
      }
    }
  }
  for (int32_t i = 0; i != kNone; i = nodes_[i].next) {
    ids_.push_back(nodes_[i].id);
  }
}

}  // namespace kvasir

#include "engine/model/byte_pair_merger.h"

#include <algorithm>
#include <cstddef>
#include <functional>
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

uint64_t HeapEntry(int32_t rank, int32_t place) {
  return static_cast<uint64_t>(rank) << 32 | static_cast<uint32_t>(place);
}

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

bool BytePairMerger::UpdateMerge(int32_t place) {
  ++steps_;
  Node& node = nodes_[place];
  const MergeTable::Merge* merge =
      node.next == kNone ? nullptr
                         : table_->Find(node.id, nodes_[node.next].id);
  node.merge = merge == nullptr ? kNoMerge : *merge;
  return merge != nullptr;
}

void BytePairMerger::MergeByHeap() {
  const auto size = static_cast<int32_t>(word_.size());
  nodes_.resize(word_.size());
  for (int32_t i = 0; i < size; ++i) {
    nodes_[i] = {word_[i], i - 1, i + 1 < size ? i + 1 : kNone, kNoMerge};
  }
  constexpr std::greater<uint64_t> kLeastFirst;
  heap_.clear();
  for (int32_t i = 0; i < size; ++i) {
    if (UpdateMerge(i)) heap_.push_back(HeapEntry(nodes_[i].merge.rank, i));
  }
  std::make_heap(heap_.begin(), heap_.end(), kLeastFirst);
  while (!heap_.empty()) {
    ++steps_;
    std::pop_heap(heap_.begin(), heap_.end(), kLeastFirst);
    const auto rank = static_cast<int32_t>(heap_.back() >> 32);
    const auto place = static_cast<int32_t>(heap_.back() & 0xFFFFFFFF);
    heap_.pop_back();
    Node& left = nodes_[place];
    if (left.merge.rank != rank) continue;
    Node& right = nodes_[left.next];
    left.id = left.merge.joined;
    left.next = right.next;
    right.merge = kNoMerge;
    if (left.next != kNone) nodes_[left.next].previous = place;
    for (const int32_t changed : {place, left.previous}) {
      if (changed == kNone || !UpdateMerge(changed)) continue;
      heap_.push_back(HeapEntry(nodes_[changed].merge.rank, changed));
      std::push_heap(heap_.begin(), heap_.end(), kLeastFirst);
    }
  }
  for (int32_t i = 0; i != kNone; i = nodes_[i].next) {
    ids_.push_back(nodes_[i].id);
  }
}

}  // namespace kvasir

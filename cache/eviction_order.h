#ifndef KVASIR_CACHE_EVICTION_ORDER_H_
#define KVASIR_CACHE_EVICTION_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

#include "cache/base/strong_id.h"
#include "cache/eviction_policy.h"

namespace kvasir {

// Blocks that may be evicted now, by their rank. Among equal ranks the deeper
// block goes first, so that a prefix is eaten from its end, and then the lower
// id, so that the order is always the same.
//
// A binary heap that knows where each block stands: joining, leaving and taking
// the first cost a logarithm and no allocation. It knows nothing of the policy,
// so blocks of one policy may be spread over several orders and the firsts of
// them compared with ComesBefore(). Engine thread only.
class EvictionOrder {
 public:
  // Where each block stands in its heap, by block id; kAbsent for one that is
  // in no order. Orders that have no block in common share one of these, so
  // that it costs no more if they are many.
  using Positions = std::vector<int32_t>;
  static constexpr int32_t kAbsent = -1;

  // `positions` must live longer.
  explicit EvictionOrder(Positions& positions) : positions_(positions) {}

  // Where a block stands.
  struct Place {
    EvictionRank rank = 0;
    int64_t depth = 0;
    BlockId block;
  };
  static bool ComesBefore(const Place& a, const Place& b);

  // Most ranks that one Refresh() asks for.
  static constexpr int64_t kMaxReranks = 16;

  void Insert(const Place& place);  // its block is in none of these orders yet
  void Remove(BlockId block);       // must be in the order

  // The block to evict first; the order is not empty.
  BlockId First() const { return FirstPlace().block; }
  const Place& FirstPlace() const;

  // For ranks that change with time: asks `rank_of` again for the first until
  // it stays the first, and for a few others in turn, so that every rank gets
  // its turn within a fixed number of calls per block id. To be called once
  // before each First().
  void Refresh(absl::FunctionRef<EvictionRank(BlockId)> rank_of);

  void Clear();

  bool Contains(BlockId block) const { return PositionOf(block) != kAbsent; }
  int64_t size() const { return static_cast<int64_t>(heap_.size()); }

  // What must hold of the order and does not. Walks all blocks in it.
  std::vector<std::string> Violations() const;

 private:
  static constexpr int64_t kSweepReranks = 4;  // of kMaxReranks
  static constexpr int64_t kSweepIds = 16;     // looked at to find those

  int32_t PositionOf(BlockId block) const;
  // Gives the block at `index` a new rank. False if that is the old one.
  bool Rerank(size_t index, EvictionRank rank);
  void Swap(size_t a, size_t b);
  void MoveUp(size_t index);
  void MoveDown(size_t index);

  Positions& positions_;
  std::vector<Place> heap_;
  size_t swept_ = 0;  // block id whose turn is next
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_EVICTION_ORDER_H_

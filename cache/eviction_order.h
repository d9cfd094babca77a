#ifndef KVASIR_CACHE_EVICTION_ORDER_H_
#define KVASIR_CACHE_EVICTION_ORDER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cache/base/strong_id.h"
#include "cache/eviction_policy.h"

namespace kvasir {

// The blocks that may be evicted now, as the policy ranks them; among those it
// finds equal the lower id goes first, so that the order is always the same.
//
// A binary heap that knows where each block stands: joining, leaving and taking
// the first cost a logarithm and no allocation. Engine thread only.
class EvictionOrder {
 public:
  explicit EvictionOrder(std::unique_ptr<EvictionPolicy> policy);

  // The candidate's block must not be in the order yet. What the policy is told
  // of it stays as it is until it leaves.
  void Insert(const EvictionCandidate& candidate);

  void Remove(BlockId block);  // must be in the order

  // The block to evict first; the order is not empty.
  BlockId First() const;

  void Clear();

  bool Contains(BlockId block) const;
  int64_t size() const { return static_cast<int64_t>(heap_.size()); }

  // What must hold of the order and does not. Walks all blocks in it.
  std::vector<std::string> Violations() const;

 private:
  static constexpr int32_t kAbsent = -1;

  bool Before(size_t a, size_t b) const;
  void Swap(size_t a, size_t b);
  void MoveUp(size_t index);
  void MoveDown(size_t index);

  const std::unique_ptr<EvictionPolicy> policy_;
  std::vector<EvictionCandidate> heap_;
  std::vector<int32_t> positions_;  // in heap_, by block id
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_EVICTION_ORDER_H_

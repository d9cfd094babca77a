#ifndef KVASIR_CACHE_BLOCK_TABLE_H_
#define KVASIR_CACHE_BLOCK_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/block_pool.h"

namespace kvasir {

// A sequence's blocks in token order, each held by a pin. The ids lie in a row
// beside the pins, because kernels read them as one span.
//
// Owned by a lease; engine thread only.
class BlockTable {
 public:
  // Room for that many blocks at once, where the number is known.
  void Reserve(int64_t block_count);

  void Append(BlockRef block);

  // Puts `block` in the place of the one at `index`, whose pin goes.
  void Replace(int64_t index, BlockRef block);

  // The block at `index` was relocated to `to`.
  void Renumber(int64_t index, BlockId to);

  // Takes the last block out of the table, with its pin.
  BlockRef TakeLast();

  // Drops the pins from the end until `block_count` are left.
  void Truncate(int64_t block_count);

  int64_t size() const { return static_cast<int64_t>(ids_.size()); }
  const BlockRef& ref(int64_t index) const { return refs_[index]; }

  // Valid until the next change.
  absl::Span<const BlockId> ids() const { return ids_; }

 private:
  std::vector<BlockRef> refs_;
  std::vector<BlockId> ids_;  // of refs_, in the same order
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_BLOCK_TABLE_H_

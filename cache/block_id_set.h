#ifndef KVASIR_CACHE_BLOCK_ID_SET_H_
#define KVASIR_CACHE_BLOCK_ID_SET_H_

#include <cstdint>
#include <vector>

#include "cache/base/strong_id.h"

namespace kvasir {

// A set of block ids that knows its lowest member, so that a pool grants low
// ids first and the memory it touches stays compact.
//
// A tree of bitmaps: bit i of level l + 1 says that word i of level l is not
// zero. Every operation reads or writes one word per level, four of them for
// sixteen million ids. Engine thread only.
class BlockIdSet {
 public:
  // Ids [0, `universe`) may be members from now on. When it gets smaller, the
  // ids beyond must have been erased.
  void Resize(int64_t universe);

  void Insert(BlockId id);  // not a member yet
  void Erase(BlockId id);   // a member
  bool Contains(BlockId id) const;

  // The lowest member; the set is not empty.
  BlockId First() const;

  int64_t size() const { return size_; }
  int64_t universe() const { return universe_; }

 private:
  using Level = std::vector<uint64_t>;

  int64_t universe_ = 0;
  int64_t size_ = 0;
  std::vector<Level> levels_;  // the last one is a single word
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_BLOCK_ID_SET_H_

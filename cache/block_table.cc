#include "cache/block_table.h"

#include <cstddef>
#include <utility>

#include "cache/base/check.h"

namespace kvasir {

void BlockTable::Reserve(int64_t block_count) {
  refs_.reserve(static_cast<size_t>(block_count));
  ids_.reserve(static_cast<size_t>(block_count));
}

void BlockTable::Append(BlockRef block) {
  KV_CHECK(block.held());
  ids_.push_back(block.block());
  refs_.push_back(std::move(block));
}

void BlockTable::Replace(int64_t index, BlockRef block) {
  KV_CHECK(block.held() && index >= 0 && index < size())
      << "index " << index << " of " << size();
  ids_[index] = block.block();
  refs_[index] = std::move(block);
}

void BlockTable::Renumber(int64_t index, BlockId to) {
  KV_CHECK(index >= 0 && index < size())
      << "index " << index << " of " << size();
  refs_[index].block_ = to;
  ids_[index] = to;
}

BlockRef BlockTable::TakeLast() {
  KV_CHECK(size() > 0);
  BlockRef last = std::move(refs_.back());
  refs_.pop_back();
  ids_.pop_back();
  return last;
}

void BlockTable::Truncate(int64_t block_count) {
  KV_CHECK(block_count >= 0 && block_count <= size())
      << block_count << " of " << size();
  while (size() > block_count) {
    refs_.pop_back();
    ids_.pop_back();
  }
}

}  // namespace kvasir

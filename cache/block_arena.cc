#include "cache/block_arena.h"

#include <utility>

#include "cache/base/check.h"
#include "cache/base/status_macros.h"

namespace kvasir {
namespace {

int64_t CeilDiv(int64_t value, int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

}  // namespace

absl::StatusOr<BlockArena> BlockArena::Create(
    int64_t block_bytes, int64_t max_blocks,
    std::unique_ptr<DeviceMemory> memory) {
  KV_CHECK(block_bytes > 0 && max_blocks > 0)
      << block_bytes << " bytes, " << max_blocks << " blocks";
  const int64_t granule = memory->GranuleBytes();
  const int64_t extent_bytes = CeilDiv(kExtentBytes, granule) * granule;
  const int64_t extents = CeilDiv(block_bytes * max_blocks, extent_bytes);
  ASSIGN_OR_RETURN(std::byte* const base,
                   memory->Reserve(extents * extent_bytes));
  return BlockArena(block_bytes, max_blocks, extent_bytes, base,
                    std::move(memory));
}

BlockArena::BlockArena(int64_t block_bytes, int64_t max_blocks,
                       int64_t extent_bytes, std::byte* base,
                       std::unique_ptr<DeviceMemory> memory)
    : block_bytes_(block_bytes),
      max_blocks_(max_blocks),
      extent_bytes_(extent_bytes),
      base_(base),
      memory_(std::move(memory)) {}

absl::Status BlockArena::Grow(int64_t block_count) {
  const int64_t wanted = ExtentsFor(block_count);
  const int64_t before = extent_count_;
  while (extent_count_ < wanted) {
    const absl::Status committed =
        memory_->Commit(extent_count_ * extent_bytes_, extent_bytes_);
    if (!committed.ok()) {
      DropExtents(before);
      return committed;
    }
    ++extent_count_;
  }
  return absl::OkStatus();
}

void BlockArena::Shrink(int64_t block_count) {
  DropExtents(ExtentsFor(block_count));
}

int64_t BlockArena::ExtentsFor(int64_t block_count) const {
  KV_CHECK(block_count >= 0 && block_count <= max_blocks_)
      << block_count << " of at most " << max_blocks_ << " blocks";
  return CeilDiv(block_count * block_bytes_, extent_bytes_);
}

void BlockArena::DropExtents(int64_t extent_count) {
  while (extent_count_ > extent_count) {
    --extent_count_;
    memory_->Decommit(extent_count_ * extent_bytes_, extent_bytes_);
  }
}

}  // namespace kvasir

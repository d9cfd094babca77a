#ifndef KVASIR_CACHE_BLOCK_ARENA_H_
#define KVASIR_CACHE_BLOCK_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "cache/memory/device_memory.h"

namespace kvasir {

// The bytes behind the block ids of one tier: block `id` begins at
// base() + id * block_bytes and never moves.
//
// Addresses are reserved once, for the most blocks there can ever be; memory is
// committed and given back in extents of about kExtentBytes, which blocks may
// straddle. Owns the DeviceMemory. Engine thread only.
class BlockArena {
 public:
  static constexpr int64_t kExtentBytes = int64_t{4} << 20;

  // Reserves addresses for `max_blocks` and commits nothing. Errors are those
  // of DeviceMemory::Reserve().
  static absl::StatusOr<BlockArena> Create(
      int64_t block_bytes, int64_t max_blocks,
      std::unique_ptr<DeviceMemory> memory);

  // Commits what `block_count` blocks need. RESOURCE_EXHAUSTED if the system
  // does not give it; committed memory is then as before.
  absl::Status Grow(int64_t block_count);

  // Gives back the extents that lie wholly behind the first `block_count`
  // blocks. Whoever calls has made sure that no block there is in use.
  void Shrink(int64_t block_count);

  std::byte* base() const { return base_; }
  int64_t block_bytes() const { return block_bytes_; }
  int64_t max_blocks() const { return max_blocks_; }
  int64_t extent_bytes() const { return extent_bytes_; }
  int64_t committed_bytes() const { return memory_->committed_bytes(); }

 private:
  BlockArena(int64_t block_bytes, int64_t max_blocks, int64_t extent_bytes,
             std::byte* base, std::unique_ptr<DeviceMemory> memory);
  int64_t ExtentsFor(int64_t block_count) const;
  void DropExtents(int64_t extent_count);

  int64_t block_bytes_;
  int64_t max_blocks_;
  int64_t extent_bytes_;  // a multiple of the memory's granule
  int64_t extent_count_ = 0;
  std::byte* base_;
  std::unique_ptr<DeviceMemory> memory_;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_BLOCK_ARENA_H_

#ifndef KVASIR_CACHE_KV_LAYOUT_H_
#define KVASIR_CACHE_KV_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"

namespace kvasir {

// How one number of a key or value is stored in a block.
enum class KvType : uint8_t { kF32, kF16 };

constexpr int64_t KvTypeBytes(KvType type) {
  return type == KvType::kF32 ? 4 : 2;
}

// The shape of every block of a pool, from plain numbers; the one place that
// computes offsets inside a block. Plain value, any thread.
//
// A block holds, for each layer and each KV head in turn, first the keys as
// [head_dim][block_tokens] (transposed, so that a query times 16 keys is
// vertical arithmetic) and then the values as [block_tokens][head_dim].
struct KvLayout {
  int32_t layer_count = 0;
  int32_t kv_head_count = 0;
  int32_t head_dim = 0;
  int32_t block_tokens = 16;
  KvType type = KvType::kF16;

  // Bytes of the keys (or of the values) of one head of one layer.
  constexpr int64_t HeadPlaneBytes() const {
    return int64_t{head_dim} * block_tokens * KvTypeBytes(type);
  }
  constexpr int64_t BlockBytes() const {
    return 2 * HeadPlaneBytes() * kv_head_count * layer_count;
  }
  // Bytes that one token's keys and values take in all layers.
  constexpr int64_t TokenBytes() const { return BlockBytes() / block_tokens; }
  // Offset in bytes, from the block's first byte, of element [0][0].
  constexpr int64_t KeyOffset(int32_t layer, int32_t kv_head) const {
    return 2 * HeadPlaneBytes() * (int64_t{layer} * kv_head_count + kv_head);
  }
  constexpr int64_t ValueOffset(int32_t layer, int32_t kv_head) const {
    return KeyOffset(layer, kv_head) + HeadPlaneBytes();
  }
  constexpr int64_t BlocksFor(int64_t tokens) const {
    return (tokens + block_tokens - 1) / block_tokens;
  }
  friend constexpr bool operator==(const KvLayout&, const KvLayout&) = default;
};

// One sequence's blocks in token order, as kernels read them. Token t lies in
// slot t % block_tokens of block blocks[t / block_tokens], which begins at
// base + id * block_bytes. A view: valid while its Lease or Reservation is.
struct BlockTableView {
  std::byte* base = nullptr;  // first byte of block 0 of the pool
  int64_t block_bytes = 0;
  absl::Span<const BlockId> blocks;

  std::byte* Block(int64_t index) const {
    return base + int64_t{blocks[index].value()} * block_bytes;
  }
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_KV_LAYOUT_H_

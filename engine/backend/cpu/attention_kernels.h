#ifndef KVASIR_ENGINE_BACKEND_CPU_ATTENTION_KERNELS_H_
#define KVASIR_ENGINE_BACKEND_CPU_ATTENTION_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "cache/kv_layout.h"
#include "engine/backend/cpu/aligned_buffer.h"
#include "engine/backend/cpu/simd_target.h"

namespace kvasir {

// The softmax-weighted sum of values over some of a row's tokens, for one query
// head, while it is being made: floats [0, head_dim) hold the sum of 2^(score -
// max) * value, then follow the max and the sum of 2^(score - max). Scores are
// in units of log2, so that the kernels need 2^x only. A partial of no tokens
// has max -infinity and zeros.
constexpr int64_t PartialMaxIndex(int64_t head_dim) { return head_dim; }
constexpr int64_t PartialSumIndex(int64_t head_dim) { return head_dim + 1; }
constexpr int64_t PartialStride(int64_t head_dim) {
  return RoundUpToLine(head_dim + 2);
}

// Query vectors that read a loaded number of the cache together, at most, on
// any target.
constexpr int64_t kMaxVectors = 8;

// One walk: the query heads of one KV head, of `rows` rows at consecutive
// positions, over the blocks [first_block, end_block) of their sequence. Vector
// v is head v % group of row v / group. A row meets the tokens up to its own
// position; blocks behind the last row's are not to be listed.
struct AttentionWalk {
  KvLayout layout;
  BlockTableView table;
  int64_t key_offset = 0;    // bytes from the block's start to this head's keys
  int64_t value_offset = 0;  // ... and values
  int64_t first_block = 0;
  int64_t end_block = 0;
  int64_t first_position = 0;  // of row 0
  int64_t rows = 0;
  int64_t group = 0;
  const float* query = nullptr;  // [rows * group][head_dim], in log2 units
  float* partials = nullptr;     // [rows * group][PartialStride]: the result

  // Scratch. The sums are kept per slot until the walk ends.
  float* slot_sums = nullptr;  // [rows * group][block_tokens]
  float* scores = nullptr;     // [kMaxVectors][block_tokens]
  float* keys = nullptr;       // [head_dim][block_tokens]
  float* values = nullptr;     // [block_tokens][head_dim]
  // The head's part of a block in pieces, in the cache's number type.
  std::byte* tail_keys = nullptr;    // [head_dim][block_tokens]
  std::byte* tail_values = nullptr;  // [block_tokens][head_dim]
};

// Kernels of one SIMD target. Contract C2: every number of a partial is made by
// one chain of operations in the order of the tokens, whichever vectors share
// the walk: scores over the head's dimensions, sums over the tokens of a block
// and then its successors.
struct AttentionKernels {
  // out[i] = in[i] * factor.
  void (*scale)(const float* in, float factor, int64_t count, float* out);
  // Fills walk.partials.
  void (*walk)(const AttentionWalk& walk);
  // total = total and then part; a partial of no tokens changes nothing.
  void (*merge)(const float* part, int64_t head_dim, float* total);
  // out[d] = the weighted mean of the values.
  void (*finish)(const float* total, int64_t head_dim, float* out);
};

const AttentionKernels& AttentionKernelsFor(SimdTarget target);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_ATTENTION_KERNELS_H_

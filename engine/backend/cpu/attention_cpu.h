#ifndef KVASIR_ENGINE_BACKEND_CPU_ATTENTION_CPU_H_
#define KVASIR_ENGINE_BACKEND_CPU_ATTENTION_CPU_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"

#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/aligned_buffer.h"
#include "engine/backend/cpu/attention_kernels.h"
#include "engine/backend/cpu/simd_target.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/backend/tensor.h"

namespace kvasir {

// Tokens whose softmax is computed in one go. Longer contexts are cut into
// spans at fixed positions, computed by any threads, and merged in order.
constexpr int64_t kAttentionSpanTokens = 512;

// Paged attention over the sequences' blocks; the reference for other devices.
// Shapes are checked by ops.h.
//
// Contract C2: a row's result is made of its spans, merged in order, and those
// of the blocks in order, one online-softmax update a block (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018). Rows share
// walks over blocks in tiles; heads, tiles and spans go to any thread. None of
// it changes a bit. Slots behind a row's own position have no influence,
// whatever they hold.
//
// Owned by the CPU backend, its thread. `pool` outlives this object. Scratch
// grows with the shapes met and is kept.
class AttentionCpu {
 public:
  AttentionCpu(ThreadPool* pool, SimdTarget target)
      : pool_(pool),
        kernels_(AttentionKernelsFor(target)),
        workers_(pool->thread_count()) {}

  void PagedAttention(const KvLayout& layout, int32_t layer, float scale,
                      absl::Span<const SequenceRows> sequences,
                      Activations query, Activations out);

 private:
  // Rows of one sequence that walk over its blocks together.
  struct Tile {
    const SequenceRows* sequence;
    int64_t first_row;  // of the step
    int64_t rows;
    int64_t first_position;
    int64_t last_position() const { return first_position + rows - 1; }
  };

  // One call's numbers.
  struct Call {
    KvLayout layout;
    int32_t layer;
    float scale;
    Activations query;
    Activations out;
    int64_t group;        // query heads of one KV head
    int64_t tile_rows;    // rows of the largest tile
    int64_t span_blocks;  // blocks of a whole span
    int64_t max_spans;    // spans of the longest row
    bool split;           // spans of one row go to different threads

    int64_t tile_vectors() const { return tile_rows * group; }
    int64_t partials_stride() const {
      return tile_vectors() * PartialStride(layout.head_dim);
    }
    int64_t Spans(const Tile& tile) const {
      return tile.last_position() / (span_blocks * layout.block_tokens) + 1;
    }
  };

  // What one thread works in, all parts on lines of their own.
  struct alignas(kBufferAlignment) Worker {
    AlignedArray<float> memory;
    int64_t size = 0;
    float* query = nullptr;
    float* total = nullptr;
    float* part = nullptr;
    AttentionWalk walk;  // its scratch
  };

  Call MakeCall(const KvLayout& layout, int32_t layer, float scale,
                Activations query, Activations out) const;
  void MakeTiles(absl::Span<const SequenceRows> sequences, Call& call);
  void DecideSplit(Call& call);
  void PrepareWorker(const Call& call, Worker& worker) const;

  // Work on (tile, KV head), all its spans or one of them.
  void ComputeWhole(const Call& call, Worker& worker, int64_t unit) const;
  void ComputeSpan(const Call& call, Worker& worker, int64_t unit,
                   int64_t span);
  void WalkSpan(const Call& call, const Worker& worker, const Tile& tile,
                int64_t kv_head, int64_t span, float* partials) const;
  void Finish(const Call& call, const Tile& tile, int64_t kv_head,
              const float* totals) const;

  ThreadPool* const pool_;
  const AttentionKernels& kernels_;
  std::vector<Worker> workers_;
  std::vector<Tile> tiles_;

  // Of a split call: partials [unit][span][vector], and for each unit the spans
  // that are still missing.
  AlignedArray<float> partials_;
  int64_t partials_size_ = 0;
  std::unique_ptr<std::atomic<int64_t>[]> missing_;
  int64_t missing_size_ = 0;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_ATTENTION_CPU_H_

#include "engine/backend/cpu/attention_cpu.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"

#include "cache/base/check.h"
#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/aligned_buffer.h"
#include "engine/backend/cpu/attention_kernels.h"
#include "engine/backend/tensor.h"

namespace kvasir {
namespace {

// Query vectors of a tile: so many that converting a block is cheap beside
// using it, so few that they, their sums and the block stay in the L1 cache
// (48 KiB at 64 dimensions).
constexpr int64_t kTileVectors = 48;

// Units of work for each thread from which on spans are not split further.
constexpr int64_t kUnitsPerThread = 4;

// Partials of a split call beyond this many bytes are not worth their memory;
// its spans are then computed by one thread after the other.
constexpr int64_t kMaxSplitBytes = 16 << 20;

// Products of queries and keys below which waking other threads takes longer
// than computing.
constexpr int64_t kSerialProducts = 1 << 15;

AlignedArray<float> AllocateScratch(int64_t floats) {
  AlignedArray<float> memory = AllocateAligned<float>(floats);
  KV_CHECK(memory != nullptr)
      << "no memory for " << floats << " floats of attention scratch";
  return memory;
}

}  // namespace

void AttentionCpu::PagedAttention(const KvLayout& layout, int32_t layer,
                                  float scale,
                                  absl::Span<const SequenceRows> sequences,
                                  Activations query, Activations out) {
  Call call = MakeCall(layout, layer, scale, query, out);
  MakeTiles(sequences, call);
  DecideSplit(call);
  for (Worker& worker : workers_) PrepareWorker(call, worker);

  // Later tiles are longer; taken first, they leave no thread alone at the end.
  const int64_t units =
      static_cast<int64_t>(tiles_.size()) * layout.kv_head_count;
  const int64_t spans = call.split ? call.max_spans : 1;
  const auto compute = [&](Worker& worker, int64_t index) {
    const int64_t unit = units - 1 - index / spans;
    if (call.split) {
      ComputeSpan(call, worker, unit, index % spans);
    } else {
      ComputeWhole(call, worker, unit);
    }
  };
  int64_t products = 0;
  for (const Tile& tile : tiles_) {
    products += tile.rows * (tile.last_position() + 1) * query.columns;
  }
  if (pool_->thread_count() == 1 || units * spans == 1 ||
      products < kSerialProducts) {
    for (int64_t i = 0; i < units * spans; ++i) compute(workers_[0], i);
    return;
  }
  std::atomic<int64_t> next{0};
  pool_->Run([&](int32_t worker) {
    while (true) {
      const int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= units * spans) return;
      compute(workers_[worker], i);
    }
  });
}

AttentionCpu::Call AttentionCpu::MakeCall(const KvLayout& layout, int32_t layer,
                                          float scale, Activations query,
                                          Activations out) const {
  // Log2 units: 2^(x log2(e)) = e^x.
  constexpr float kLog2E = 1.44269504088896f;
  Call call;
  call.layout = layout;
  call.layer = layer;
  call.scale = scale * kLog2E;
  call.query = query;
  call.out = out;
  call.group = query.columns / layout.head_dim / layout.kv_head_count;
  call.tile_rows = std::max<int64_t>(1, kTileVectors / call.group);
  call.span_blocks =
      std::max<int64_t>(1, kAttentionSpanTokens / layout.block_tokens);
  call.max_spans = 0;
  call.split = false;
  return call;
}

void AttentionCpu::MakeTiles(absl::Span<const SequenceRows> sequences,
                             Call& call) {
  tiles_.clear();
  int64_t longest = 0;
  for (const SequenceRows& sequence : sequences) {
    for (int64_t first = 0; first < sequence.row_count;
         first += call.tile_rows) {
      const Tile tile = {&sequence, sequence.first_row + first,
                         std::min(call.tile_rows, sequence.row_count - first),
                         sequence.first_position + first};
      tiles_.push_back(tile);
      longest = std::max(longest, tile.rows);
      call.max_spans = std::max(call.max_spans, call.Spans(tile));
    }
  }
  call.tile_rows = longest;
}

void AttentionCpu::DecideSplit(Call& call) {
  const int64_t units =
      static_cast<int64_t>(tiles_.size()) * call.layout.kv_head_count;
  const int64_t size = units * call.max_spans * call.partials_stride();
  call.split = pool_->thread_count() > 1 && call.max_spans > 1 &&
               units < kUnitsPerThread * pool_->thread_count() &&
               size * static_cast<int64_t>(sizeof(float)) <= kMaxSplitBytes;
  if (!call.split) return;
  if (partials_size_ < size) {
    partials_ = AllocateScratch(size);
    partials_size_ = size;
  }
  if (missing_size_ < units) {
    missing_ = std::make_unique<std::atomic<int64_t>[]>(units);
    missing_size_ = units;
  }
  for (int64_t unit = 0; unit < units; ++unit) {
    missing_[unit].store(call.Spans(tiles_[unit / call.layout.kv_head_count]),
                         std::memory_order_relaxed);
  }
}

void AttentionCpu::PrepareWorker(const Call& call, Worker& worker) const {
  const int64_t dim = call.layout.head_dim;
  const int64_t tokens = call.layout.block_tokens;
  const int64_t vectors = call.tile_vectors();
  float* tail_keys = nullptr;
  float* tail_values = nullptr;
  float** const parts[] = {
      &worker.query,          &worker.total,       &worker.part,
      &worker.walk.slot_sums, &worker.walk.scores, &worker.walk.keys,
      &worker.walk.values,    &tail_keys,          &tail_values};
  const int64_t sizes[] = {
      vectors * dim,    call.partials_stride(), call.partials_stride(),
      vectors * tokens, kMaxVectors * tokens,   dim * tokens,
      dim * tokens,     dim * tokens,           dim * tokens};
  int64_t total = 0;
  for (int64_t size : sizes) total += RoundUpToLine(size);
  if (worker.size < total) {
    worker.memory = AllocateScratch(total);
    worker.size = total;
  }
  float* next = worker.memory.get();
  for (size_t i = 0; i < std::size(sizes); ++i) {
    *parts[i] = next;
    next += RoundUpToLine(sizes[i]);
  }
  worker.walk.tail_keys = reinterpret_cast<std::byte*>(tail_keys);
  worker.walk.tail_values = reinterpret_cast<std::byte*>(tail_values);
}

void AttentionCpu::ComputeWhole(const Call& call, Worker& worker,
                                int64_t unit) const {
  const Tile& tile = tiles_[unit / call.layout.kv_head_count];
  const int64_t kv_head = unit % call.layout.kv_head_count;
  const int64_t dim = call.layout.head_dim;
  const int64_t stride = PartialStride(dim);
  WalkSpan(call, worker, tile, kv_head, 0, worker.total);
  for (int64_t span = 1; span < call.Spans(tile); ++span) {
    WalkSpan(call, worker, tile, kv_head, span, worker.part);
    for (int64_t v = 0; v < tile.rows * call.group; ++v) {
      kernels_.merge(worker.part + v * stride, dim, worker.total + v * stride);
    }
  }
  Finish(call, tile, kv_head, worker.total);
}

void AttentionCpu::ComputeSpan(const Call& call, Worker& worker, int64_t unit,
                               int64_t span) {
  const Tile& tile = tiles_[unit / call.layout.kv_head_count];
  const int64_t kv_head = unit % call.layout.kv_head_count;
  if (span >= call.Spans(tile)) return;
  const int64_t dim = call.layout.head_dim;
  const int64_t stride = PartialStride(dim);
  float* const partials =
      partials_.get() + unit * call.max_spans * call.partials_stride();
  WalkSpan(call, worker, tile, kv_head, span,
           partials + span * call.partials_stride());
  // Whoever finishes the unit's last span merges them all.
  if (missing_[unit].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  for (int64_t s = 1; s < call.Spans(tile); ++s) {
    const float* part = partials + s * call.partials_stride();
    for (int64_t v = 0; v < tile.rows * call.group; ++v) {
      kernels_.merge(part + v * stride, dim, partials + v * stride);
    }
  }
  Finish(call, tile, kv_head, partials);
}

void AttentionCpu::WalkSpan(const Call& call, const Worker& worker,
                            const Tile& tile, int64_t kv_head, int64_t span,
                            float* partials) const {
  const KvLayout& layout = call.layout;
  const int64_t vector_numbers = call.group * layout.head_dim;
  for (int64_t row = 0; row < tile.rows; ++row) {
    kernels_.scale(
        call.query.Row(tile.first_row + row) + kv_head * vector_numbers,
        call.scale, vector_numbers, worker.query + row * vector_numbers);
  }
  AttentionWalk walk = worker.walk;
  walk.layout = layout;
  walk.table = tile.sequence->table;
  walk.key_offset = layout.KeyOffset(call.layer, static_cast<int32_t>(kv_head));
  walk.value_offset =
      layout.ValueOffset(call.layer, static_cast<int32_t>(kv_head));
  walk.first_block = span * call.span_blocks;
  walk.end_block = std::min(walk.first_block + call.span_blocks,
                            layout.BlocksFor(tile.last_position() + 1));
  walk.first_position = tile.first_position;
  walk.rows = tile.rows;
  walk.group = call.group;
  walk.query = worker.query;
  walk.partials = partials;
  kernels_.walk(walk);
}

void AttentionCpu::Finish(const Call& call, const Tile& tile, int64_t kv_head,
                          const float* totals) const {
  const int64_t dim = call.layout.head_dim;
  for (int64_t row = 0; row < tile.rows; ++row) {
    float* out =
        call.out.Row(tile.first_row + row) + kv_head * call.group * dim;
    for (int64_t head = 0; head < call.group; ++head) {
      kernels_.finish(totals + (row * call.group + head) * PartialStride(dim),
                      dim, out + head * dim);
    }
  }
}

}  // namespace kvasir

#include "engine/backend/cpu/rope_cpu.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/types/span.h"

#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/elementwise_cpu.h"
#include "engine/backend/tensor.h"

namespace kvasir {
namespace {

// Numbers of query, key and value together that a thread takes at least.
constexpr int64_t kGrainNumbers = 16384;

// Turns the pairs (2i, 2i+1) of one head.
void RotateAdjacent(const float* cosines, const float* sines, int64_t pairs,
                    float* head) {
  for (int64_t i = 0; i < pairs; ++i) {
    const float x = head[2 * i];
    const float y = head[2 * i + 1];
    head[2 * i] = x * cosines[i] - y * sines[i];
    head[2 * i + 1] = x * sines[i] + y * cosines[i];
  }
}

// Turns the pairs (i, i + pairs) of one head.
void RotateHalves(const float* __restrict cosines,
                  const float* __restrict sines, int64_t pairs,
                  float* __restrict head) {
  float* __restrict other = head + pairs;
  for (int64_t i = 0; i < pairs; ++i) {
    const float x = head[i];
    const float y = other[i];
    head[i] = x * cosines[i] - y * sines[i];
    other[i] = x * sines[i] + y * cosines[i];
  }
}

void RotateHeads(const RopeSpec& rope, const float* angles, int64_t head_dim,
                 int64_t columns, float* row) {
  const int64_t pairs = rope.rotated_dim / 2;
  const auto rotate = rope.pairing == RopeSpec::Pairing::kAdjacent
                          ? RotateAdjacent
                          : RotateHalves;
  for (int64_t first = 0; first < columns; first += head_dim) {
    rotate(angles, angles + pairs, pairs, row + first);
  }
}

// Writes one token's key and value, [G*D] in the block's number type, to its
// place in a block: the key as a column, the value as a row.
template <typename T>
void StoreToken(const KvLayout& layout, int32_t layer,
                const BlockTableView::Place& place, const T* key,
                const T* value) {
  const int64_t dim = layout.head_dim;
  for (int32_t head = 0; head < layout.kv_head_count; ++head) {
    T* keys = reinterpret_cast<T*>(place.block + layout.KeyOffset(layer, head));
    T* values =
        reinterpret_cast<T*>(place.block + layout.ValueOffset(layer, head));
    for (int64_t d = 0; d < dim; ++d) {
      keys[d * layout.block_tokens + place.slot] = key[head * dim + d];
    }
    std::memcpy(values + place.slot * dim, value + head * dim, dim * sizeof(T));
  }
}

// The sequence that has `row` of the step.
const SequenceRows& SequenceOf(absl::Span<const SequenceRows> sequences,
                               int64_t row) {
  return *(std::upper_bound(sequences.begin(), sequences.end(), row,
                            [](int64_t r, const SequenceRows& sequence) {
                              return r < sequence.first_row;
                            }) -
           1);
}

}  // namespace

void RopeCpu::RopeAndStore(const RopeSpec& rope, const KvLayout& layout,
                           int32_t layer,
                           absl::Span<const SequenceRows> sequences,
                           Activations query, Activations key,
                           Activations value) {
  const absl::Span<const float> angles = table_.Rows(rope, sequences);
  const int64_t numbers = query.columns + 2 * key.columns;
  const int64_t grain = std::max<int64_t>(1, kGrainNumbers / numbers);
  pool_->ParallelFor(query.rows, grain, [&](int64_t begin, int64_t end) {
    std::vector<uint16_t> halves(2 * key.columns);
    for (int64_t row = begin; row < end; ++row) {
      const float* turn = angles.data() + row * rope.rotated_dim;
      RotateHeads(rope, turn, layout.head_dim, query.columns, query.Row(row));
      RotateHeads(rope, turn, layout.head_dim, key.columns, key.Row(row));
      const SequenceRows& sequence = SequenceOf(sequences, row);
      const int64_t position =
          sequence.first_position + (row - sequence.first_row);
      const auto place = sequence.table.At(layout, position);
      if (layout.type == KvType::kF32) {
        StoreToken(layout, layer, place, key.Row(row), value.Row(row));
        continue;
      }
      kernels_.to_f16(key.Row(row), key.columns, halves.data());
      kernels_.to_f16(value.Row(row), key.columns, halves.data() + key.columns);
      StoreToken(layout, layer, place, halves.data(),
                 halves.data() + key.columns);
    }
  });
}

}  // namespace kvasir

#ifndef KVASIR_TESTS_ENGINE_BACKEND_PAGED_KV_H_
#define KVASIR_TESTS_ENGINE_BACKEND_PAGED_KV_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "engine/backend/cpu/float16.h"
#include "engine/backend/tensor.h"

namespace kvasir {

// A row-major matrix with an owner, for activations in tests. Rows are wider
// than they need to be, so that a kernel that forgets the stride is found out.
class Matrix {
 public:
  static constexpr int64_t kPadding = 3;

  Matrix(int64_t rows, int64_t columns)
      : rows_(rows),
        columns_(columns),
        data_(rows * (columns + kPadding), 0.0f) {}
  static Matrix Random(int64_t rows, int64_t columns, uint64_t seed) {
    Matrix matrix(rows, columns);
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    for (float& number : matrix.data_) number = normal(random);
    return matrix;
  }

  Activations View() {
    return {data_.data(), rows_, columns_, columns_ + kPadding};
  }
  float* Row(int64_t row) { return View().Row(row); }
  const float* Row(int64_t row) const {
    return data_.data() + row * (columns_ + kPadding);
  }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  // The numbers of row `row`, for comparing bits.
  std::vector<uint32_t> Bits(int64_t row) const {
    std::vector<uint32_t> bits(columns_);
    std::memcpy(bits.data(), Row(row), columns_ * sizeof(float));
    return bits;
  }
  std::vector<std::vector<uint32_t>> Bits() const {
    std::vector<std::vector<uint32_t>> all;
    for (int64_t row = 0; row < rows_; ++row) all.push_back(Bits(row));
    return all;
  }

 private:
  int64_t rows_;
  int64_t columns_;
  std::vector<float> data_;
};

// How the last block of a sequence lies in memory, if it is not full.
enum class OpenBlock : uint8_t {
  kWhole,      // as the others
  kScattered,  // in pieces of two blocks, in random order
  kInOrder,    // in pieces, as if it were whole
};

// The blocks of one sequence, scattered over a pool of their own in random
// order. What was never written is poison: NaN in both number types.
class PagedKv {
 public:
  static constexpr uint8_t kPoison = 0xff;

  PagedKv(const KvLayout& layout, int64_t tokens, uint64_t seed = 1,
          uint8_t poison = kPoison, OpenBlock open = OpenBlock::kScattered)
      : layout_(layout) {
    std::mt19937_64 random(seed);
    std::vector<int32_t> ids(2 * layout.BlocksFor(tokens) + 2);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random);
    const int64_t whole = open == OpenBlock::kWhole
                              ? layout.BlocksFor(tokens)
                              : tokens / layout.block_tokens;
    for (int64_t i = 0; i < whole; ++i) blocks_.push_back(BlockId(ids[i]));
    pool_.assign(ids.size() * layout.BlockBytes(), std::byte{poison});
    const int64_t left = tokens - whole * layout.block_tokens;
    if (left <= 0) return;
    for (int64_t i = 0; i < 2 * layout.PiecesPerBlock(); ++i) {
      tail_.push_back({BlockId(ids[whole + i / layout.PiecesPerBlock()]),
                       static_cast<int32_t>(i % layout.PiecesPerBlock()) *
                           layout.PieceTokens()});
    }
    if (open == OpenBlock::kScattered) {
      std::shuffle(tail_.begin(), tail_.end(), random);
    }
    tail_.resize(layout.PiecesFor(left));
  }
  PagedKv(const PagedKv&) = delete;
  PagedKv& operator=(const PagedKv&) = delete;

  const KvLayout& layout() const { return layout_; }
  BlockTableView Table() {
    return {pool_.data(), layout_.BlockBytes(), blocks_, tail_};
  }
  const std::vector<std::byte>& bytes() const { return pool_; }

  // Writes the keys and values [G*D] of token `position` in `layer`.
  void Write(int32_t layer, int64_t position, const float* key,
             const float* value) {
    for (int32_t head = 0; head < layout_.kv_head_count; ++head) {
      for (int32_t d = 0; d < layout_.head_dim; ++d) {
        const int64_t column = head * layout_.head_dim + d;
        Put(KeyAt(layer, head, position, d), key[column]);
        Put(ValueAt(layer, head, position, d), value[column]);
      }
    }
  }
  float Key(int32_t layer, int32_t head, int64_t position, int32_t d) {
    return Get(KeyAt(layer, head, position, d));
  }
  float Value(int32_t layer, int32_t head, int64_t position, int32_t d) {
    return Get(ValueAt(layer, head, position, d));
  }

 private:
  std::byte* KeyAt(int32_t layer, int32_t head, int64_t position, int32_t d) {
    const auto place = Table().At(layout_, position);
    return place.block + layout_.KeyOffset(layer, head) +
           (d * layout_.block_tokens + place.slot) * KvTypeBytes(layout_.type);
  }
  std::byte* ValueAt(int32_t layer, int32_t head, int64_t position, int32_t d) {
    const auto place = Table().At(layout_, position);
    return place.block + layout_.ValueOffset(layer, head) +
           (place.slot * layout_.head_dim + d) * KvTypeBytes(layout_.type);
  }
  void Put(std::byte* at, float number) const {
    if (layout_.type == KvType::kF32) {
      std::memcpy(at, &number, sizeof(number));
    } else {
      const uint16_t half = HalfFromFloat(number);
      std::memcpy(at, &half, sizeof(half));
    }
  }
  float Get(const std::byte* at) const {
    float number = 0;
    if (layout_.type == KvType::kF32) {
      std::memcpy(&number, at, sizeof(number));
    } else {
      uint16_t half = 0;
      std::memcpy(&half, at, sizeof(half));
      number = FloatFromHalf(half);
    }
    return number;
  }

  KvLayout layout_;
  std::vector<BlockId> blocks_;
  std::vector<TailPiece> tail_;
  std::vector<std::byte> pool_;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_ENGINE_BACKEND_PAGED_KV_H_

#include "engine/backend/cpu/rope_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/float16.h"
#include "engine/backend/cpu/rope_table.h"
#include "engine/backend/cpu/simd_target.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/backend/tensor.h"
#include "tests/engine/backend/paged_kv.h"

namespace kvasir {
namespace {

using Pairing = RopeSpec::Pairing;

constexpr int32_t kLayers = 3;
constexpr int32_t kLayer = 1;
constexpr int32_t kGroup = 2;

std::vector<float> Frequencies(int32_t rotated_dim, double base = 10000) {
  std::vector<float> frequencies(rotated_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = static_cast<float>(
        std::pow(base, -2.0 * static_cast<double>(i) / rotated_dim));
  }
  return frequencies;
}

TEST(SinCosTest, IsAsExactAsTheReductionAllows) {
  // f64's sine of a large angle is only as good as pi/2 in it.
  std::mt19937_64 random(3);
  for (const auto& [limit, bound] : std::vector<std::pair<double, double>>{
           {1.0, 1e-15}, {16384.0, 1e-15}, {1048576.0, 1e-14}}) {
    std::uniform_real_distribution<double> angles(0, limit);
    for (int i = 0; i < 20000; ++i) {
      const double angle = i == 0 ? 0 : angles(random);
      const SinCos value = SinCosOf(angle);
      const auto exact = static_cast<long double>(angle);
      ASSERT_NEAR(value.sin, static_cast<double>(std::sin(exact)), bound)
          << angle;
      ASSERT_NEAR(value.cos, static_cast<double>(std::cos(exact)), bound)
          << angle;
    }
  }
}

struct Shape {
  Pairing pairing;
  int32_t head_dim;
  int32_t rotated_dim;
  int32_t kv_heads;
  KvType type;
  int32_t block_tokens;
  float magnitude;

  KvLayout Layout() const {
    return {kLayers, kv_heads, head_dim, block_tokens, type};
  }
  int64_t KeyColumns() const { return int64_t{kv_heads} * head_dim; }
  int64_t QueryColumns() const { return kGroup * KeyColumns(); }
  friend void PrintTo(const Shape& s, std::ostream* out) {
    *out << (s.pairing == Pairing::kAdjacent ? "adjacent" : "halves") << ", "
         << s.rotated_dim << " of " << s.head_dim << " dimensions, "
         << s.kv_heads << " heads, " << (s.type == KvType::kF16 ? "f16" : "f32")
         << ", blocks of " << s.block_tokens;
  }
};

class RopeTest : public testing::TestWithParam<Shape> {
 protected:
  RopeSpec Spec() const {
    return {shape_.pairing, shape_.rotated_dim, frequencies_, shape_.magnitude};
  }
  // A head's dimensions turned to `position`, in f64.
  std::vector<double> Turned(const float* head, int64_t position) const {
    std::vector<double> out(head, head + shape_.head_dim);
    const int32_t pairs = shape_.rotated_dim / 2;
    for (int32_t i = 0; i < pairs; ++i) {
      const bool adjacent = shape_.pairing == Pairing::kAdjacent;
      const int32_t a = adjacent ? 2 * i : i;
      const int32_t b = adjacent ? 2 * i + 1 : i + pairs;
      const double angle =
          static_cast<double>(position) * static_cast<double>(frequencies_[i]);
      const double c = std::cos(angle) * shape_.magnitude;
      const double s = std::sin(angle) * shape_.magnitude;
      out[a] = head[a] * c - head[b] * s;
      out[b] = head[a] * s + head[b] * c;
    }
    return out;
  }

  const Shape shape_ = GetParam();
  const std::vector<float> frequencies_ = Frequencies(shape_.rotated_dim);
};

INSTANTIATE_TEST_SUITE_P(
    Shapes, RopeTest,
    testing::Values(
        Shape{Pairing::kAdjacent, 64, 64, 3, KvType::kF16, 16, 1.0f},
        Shape{Pairing::kHalves, 64, 64, 3, KvType::kF16, 16, 1.0f},
        Shape{Pairing::kHalves, 128, 128, 1, KvType::kF32, 16, 1.2f},
        Shape{Pairing::kAdjacent, 80, 32, 2, KvType::kF32, 8, 1.0f},
        Shape{Pairing::kHalves, 96, 24, 2, KvType::kF16, 32, 0.5f},
        Shape{Pairing::kAdjacent, 16, 0, 1, KvType::kF16, 64, 1.0f}));

TEST_P(RopeTest, TurnsQueriesAndKeysAndStoresThem) {
  // From a position in the middle of a block over two borders, far enough out
  // that an angle in f32 would be visibly wrong.
  constexpr int64_t kRows = 40;
  const Matrix query = Matrix::Random(kRows, shape_.QueryColumns(), 1);
  const Matrix key = Matrix::Random(kRows, shape_.KeyColumns(), 2);
  Matrix value = Matrix::Random(kRows, shape_.KeyColumns(), 3);
  for (SimdTarget target : UsableSimdTargets()) {
    ThreadPool pool(2);
    RopeCpu rope(&pool, target);
    for (int64_t first : {0, 5, 8190}) {
      PagedKv kv(shape_.Layout(), first + kRows);
      Matrix q = query;
      Matrix k = key;
      const SequenceRows rows = {0, kRows, first, kv.Table()};
      rope.RopeAndStore(Spec(), kv.layout(), kLayer, {&rows, 1}, q.View(),
                        k.View(), value.View());
      for (int64_t row = 0; row < kRows; ++row) {
        const int64_t position = first + row;
        for (int64_t at = 0; at < shape_.QueryColumns();
             at += shape_.head_dim) {
          const auto expected = Turned(query.Row(row) + at, position);
          for (int32_t d = 0; d < shape_.head_dim; ++d) {
            ASSERT_NEAR(q.Row(row)[at + d], expected[d], 1e-6)
                << SimdTargetName(target) << ", position " << position;
          }
        }
        for (int32_t head = 0; head < shape_.kv_heads; ++head) {
          const int64_t at = head * shape_.head_dim;
          const auto expected = Turned(key.Row(row) + at, position);
          for (int32_t d = 0; d < shape_.head_dim; ++d) {
            const float turned = k.Row(row)[at + d];
            const float plain = value.Row(row)[at + d];
            ASSERT_NEAR(turned, expected[d], 1e-6) << position;
            const bool f16 = shape_.type == KvType::kF16;
            ASSERT_EQ(kv.Key(kLayer, head, position, d),
                      f16 ? FloatFromHalf(HalfFromFloat(turned)) : turned);
            ASSERT_EQ(kv.Value(kLayer, head, position, d),
                      f16 ? FloatFromHalf(HalfFromFloat(plain)) : plain);
          }
        }
      }
    }
  }
}

TEST_P(RopeTest, WritesNothingButItsTokensAndLayer) {
  // The other layers and slots belong to tokens of this step or of others.
  constexpr int64_t kFirst = 5;
  constexpr int64_t kRows = 3;
  PagedKv kv(shape_.Layout(), kFirst + kRows);
  const std::vector<std::byte> before = kv.bytes();
  Matrix query = Matrix::Random(kRows, shape_.QueryColumns(), 1);
  Matrix key = Matrix::Random(kRows, shape_.KeyColumns(), 2);
  Matrix value = Matrix::Random(kRows, shape_.KeyColumns(), 3);
  ThreadPool pool(1);
  RopeCpu rope(&pool, BestSimdTarget());
  const SequenceRows rows = {0, kRows, kFirst, kv.Table()};
  rope.RopeAndStore(Spec(), kv.layout(), kLayer, {&rows, 1}, query.View(),
                    key.View(), value.View());
  int64_t changed = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (kv.bytes()[i] != before[i]) ++changed;
  }
  const int64_t written = kRows * kv.layout().TokenBytes() / kLayers;
  EXPECT_LE(changed, written);
  EXPECT_GT(changed, written * 9 / 10);  // some bytes equal the poison
  for (int64_t position = 0; position < kFirst; ++position) {
    EXPECT_TRUE(std::isnan(kv.Key(kLayer, 0, position, 0)));
    EXPECT_TRUE(std::isnan(kv.Value(kLayer, 0, position, 0)));
  }
}

TEST_P(RopeTest, ChunksBatchesAndThreadsChangeNoBit) {
  // Contract C2: two sequences in steps of their own, row by row, against both
  // in one step.
  constexpr int64_t kRows[] = {70, 33};
  constexpr int64_t kFirst[] = {3, 100};
  const int64_t all = kRows[0] + kRows[1];
  const Matrix query = Matrix::Random(all, shape_.QueryColumns(), 1);
  const Matrix key = Matrix::Random(all, shape_.KeyColumns(), 2);
  Matrix value = Matrix::Random(all, shape_.KeyColumns(), 3);

  Matrix expected_query = query;
  Matrix expected_key = key;
  std::vector<std::unique_ptr<PagedKv>> expected;
  ThreadPool single(1);
  RopeCpu alone(&single, PortableSimdTarget());
  int64_t row = 0;
  for (int s = 0; s < 2; ++s) {
    expected.push_back(
        std::make_unique<PagedKv>(shape_.Layout(), kFirst[s] + kRows[s], s));
    for (int64_t i = 0; i < kRows[s]; ++i, ++row) {
      const SequenceRows one = {0, 1, kFirst[s] + i, expected[s]->Table()};
      alone.RopeAndStore(Spec(), shape_.Layout(), kLayer, {&one, 1},
                         expected_query.View().Rows(row, 1),
                         expected_key.View().Rows(row, 1),
                         value.View().Rows(row, 1));
    }
  }
  for (SimdTarget target : UsableSimdTargets()) {
    for (int32_t threads : {1, 2, 4}) {
      ThreadPool pool(threads);
      RopeCpu rope(&pool, target);
      PagedKv first(shape_.Layout(), kFirst[0] + kRows[0], 0);
      PagedKv second(shape_.Layout(), kFirst[1] + kRows[1], 1);
      const SequenceRows sequences[] = {
          {0, kRows[0], kFirst[0], first.Table()},
          {kRows[0], 0, 7, second.Table()},
          {kRows[0], kRows[1], kFirst[1], second.Table()}};
      Matrix q = query;
      Matrix k = key;
      rope.RopeAndStore(Spec(), shape_.Layout(), kLayer, sequences, q.View(),
                        k.View(), value.View());
      EXPECT_EQ(q.Bits(), expected_query.Bits()) << SimdTargetName(target);
      EXPECT_EQ(k.Bits(), expected_key.Bits()) << SimdTargetName(target);
      EXPECT_EQ(first.bytes(), expected[0]->bytes());
      EXPECT_EQ(second.bytes(), expected[1]->bytes());
    }
  }
}

TEST(RopeTableTest, KeepsTablesApart) {
  // Layers with local and global frequencies alternate; a table kept for the
  // one, for another magnitude or for the last step's rows must not serve.
  RopeTable table;
  std::vector<std::vector<float>> bases;
  for (int i = 0; i < 6; ++i) bases.push_back(Frequencies(8, 100 << i));
  for (int64_t first : {4, 9, 4}) {
    const SequenceRows rows[] = {{0, 2, first, {}}, {2, 1, 50, {}}};
    const int64_t positions[] = {first, first + 1, 50};
    for (const std::vector<float>& frequencies : bases) {
      for (float magnitude : {1.0f, 2.0f, 1.0f}) {
        const RopeSpec spec = {Pairing::kHalves, 8, frequencies, magnitude};
        const absl::Span<const float> found = table.Rows(spec, rows);
        ASSERT_EQ(found.size(), 3u * 8);
        for (int row = 0; row < 3; ++row) {
          for (int i = 0; i < 4; ++i) {
            const double angle = static_cast<double>(positions[row]) *
                                 static_cast<double>(frequencies[i]);
            EXPECT_NEAR(found[row * 8 + i], magnitude * std::cos(angle), 2e-7);
            EXPECT_NEAR(found[row * 8 + 4 + i], magnitude * std::sin(angle),
                        2e-7);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace kvasir

#include "engine/backend/cpu/attention_cpu.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "cache/kv_layout.h"
#include "engine/backend/backend.h"
#include "engine/backend/cpu/simd_target.h"
#include "engine/backend/cpu/thread_pool.h"
#include "engine/backend/tensor.h"
#include "tests/engine/backend/paged_kv.h"

namespace kvasir {
namespace {

constexpr int32_t kLayers = 2;
constexpr int32_t kLayer = 1;

struct Shape {
  int32_t kv_heads;
  int32_t group;
  int32_t head_dim;
  KvType type;
  int32_t block_tokens;

  KvLayout Layout() const {
    return {kLayers, kv_heads, head_dim, block_tokens, type};
  }
  int64_t QueryColumns() const { return int64_t{kv_heads} * group * head_dim; }
  int64_t KeyColumns() const { return int64_t{kv_heads} * head_dim; }
  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }
  friend void PrintTo(const Shape& s, std::ostream* out) {
    *out << s.kv_heads << "x" << s.group << " heads of " << s.head_dim << ", "
         << (s.type == KvType::kF16 ? "f16" : "f32") << ", blocks of "
         << s.block_tokens;
  }
};

// Queries, keys and values of one sequence.
struct Tokens {
  Tokens(const Shape& shape, int64_t count, uint64_t seed)
      : query(Matrix::Random(count, shape.QueryColumns(), seed)),
        key(Matrix::Random(count, shape.KeyColumns(), seed + 1)),
        value(Matrix::Random(count, shape.KeyColumns(), seed + 2)) {}

  void Write(int64_t first, int64_t end, PagedKv& kv) const {
    for (int64_t i = first; i < end; ++i) {
      kv.Write(kLayer, i, key.Row(i), value.Row(i));
    }
  }

  Matrix query, key, value;
};

// Softmax attention of one row and query head in f64, straight from its
// definition.
std::vector<double> Reference(const Shape& shape, const float* query,
                              PagedKv& kv, int64_t position, int32_t head) {
  const int32_t kv_head = head / shape.group;
  std::vector<double> weights(position + 1);
  for (int64_t t = 0; t <= position; ++t) {
    double dot = 0;
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      dot += static_cast<double>(query[head * shape.head_dim + d]) *
             kv.Key(kLayer, kv_head, t, d);
    }
    weights[t] = dot * shape.Scale();
  }
  const double max = *std::max_element(weights.begin(), weights.end());
  double sum = 0;
  for (double& weight : weights) sum += weight = std::exp(weight - max);
  std::vector<double> out(shape.head_dim, 0.0);
  for (int64_t t = 0; t <= position; ++t) {
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      out[d] += weights[t] / sum * kv.Value(kLayer, kv_head, t, d);
    }
  }
  return out;
}

// Reference() of all heads of the rows [first, end), like a row of the output.
std::vector<std::vector<double>> References(const Shape& shape,
                                            const Tokens& tokens, PagedKv& kv,
                                            int64_t first, int64_t end) {
  std::vector<std::vector<double>> rows(end - first);
  for (int64_t row = 0; row < end - first; ++row) {
    for (int32_t head = 0; head < shape.kv_heads * shape.group; ++head) {
      const std::vector<double> one = Reference(
          shape, tokens.query.Row(first + row), kv, first + row, head);
      rows[row].insert(rows[row].end(), one.begin(), one.end());
    }
  }
  return rows;
}

// Rows [first, end) of `tokens` in one call; their keys are in `kv`.
Matrix Attend(const Shape& shape, const Tokens& tokens, PagedKv& kv,
              int64_t first, int64_t end, AttentionCpu& attention) {
  Matrix query = tokens.query;
  Matrix out(end - first, shape.QueryColumns());
  const SequenceRows rows = {0, end - first, first, kv.Table()};
  attention.PagedAttention(kv.layout(), kLayer, shape.Scale(), {&rows, 1},
                           query.View().Rows(first, end - first), out.View());
  return out;
}

// Each row of the sequence alone, like a decode that never saw a batch.
std::vector<std::vector<uint32_t>> RowsAlone(const Shape& shape,
                                             const Tokens& tokens,
                                             int64_t count,
                                             AttentionCpu& attention) {
  PagedKv kv(shape.Layout(), count);
  std::vector<std::vector<uint32_t>> bits;
  for (int64_t i = 0; i < count; ++i) {
    tokens.Write(i, i + 1, kv);
    bits.push_back(Attend(shape, tokens, kv, i, i + 1, attention).Bits(0));
  }
  return bits;
}

class AttentionTest : public testing::TestWithParam<Shape> {};

constexpr KvType kF16 = KvType::kF16;
constexpr KvType kF32 = KvType::kF32;

INSTANTIATE_TEST_SUITE_P(
    Shapes, AttentionTest,
    testing::Values(Shape{3, 3, 64, kF16, 16}, Shape{3, 3, 64, kF32, 16},
                    Shape{2, 1, 128, kF16, 16}, Shape{1, 4, 80, kF16, 16},
                    Shape{1, 8, 64, kF32, 16}, Shape{2, 2, 16, kF16, 16},
                    Shape{1, 1, 16, kF32, 16}, Shape{1, 3, 256, kF16, 16},
                    Shape{2, 3, 24, kF16, 8}, Shape{1, 5, 64, kF32, 8},
                    Shape{1, 7, 64, kF16, 32}, Shape{1, 9, 96, kF16, 64},
                    Shape{2, 13, 8, kF32, 24}));

TEST_P(AttentionTest, MatchesTheDefinitionAtEveryBorder) {
  // Contexts that end on, before and behind the border of a block or a span;
  // a batch of the last rows, so that tiles cross the border too.
  const Shape shape = GetParam();
  const Tokens tokens(shape, 1100, 7);
  PagedKv kv(shape.Layout(), 1100);
  tokens.Write(0, 1100, kv);
  for (int64_t context : {1, 15, 16, 17, 511, 512, 513, 1100}) {
    const int64_t first = std::max<int64_t>(0, context - 3);
    const auto expected = References(shape, tokens, kv, first, context);
    for (SimdTarget target : UsableSimdTargets()) {
      for (int32_t threads : {1, 2}) {
        ThreadPool pool(threads);
        AttentionCpu attention(&pool, target);
        const Matrix out = Attend(shape, tokens, kv, first, context, attention);
        for (int64_t row = 0; row < out.rows(); ++row) {
          for (int64_t i = 0; i < out.columns(); ++i) {
            ASSERT_NEAR(out.Row(row)[i], expected[row][i], 4e-6)
                << SimdTargetName(target) << ", " << threads
                << " threads, context " << context << ", row " << row
                << ", column " << i;
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, ChunksAndThreadsChangeNoBit) {
  // Contract C2: a prompt computed token by token, in chunks, or whole, by any
  // number of threads. Slots behind the chunk are poison until they are
  // written.
  const Shape shape = GetParam();
  constexpr int64_t kCount = 84;
  const Tokens tokens(shape, kCount, 11);
  for (SimdTarget target : UsableSimdTargets()) {
    ThreadPool single(1);
    AttentionCpu reference(&single, target);
    const auto expected = RowsAlone(shape, tokens, kCount, reference);
    for (int32_t threads : {1, 2, 4}) {
      ThreadPool pool(threads);
      AttentionCpu attention(&pool, target);
      for (int64_t chunk :
           {int64_t{1}, int64_t{5}, int64_t{16}, int64_t{64}, kCount}) {
        PagedKv kv(shape.Layout(), kCount);
        for (int64_t first = 0; first < kCount; first += chunk) {
          const int64_t end = std::min(kCount, first + chunk);
          tokens.Write(first, end, kv);
          const Matrix out = Attend(shape, tokens, kv, first, end, attention);
          for (int64_t row = 0; row < out.rows(); ++row) {
            ASSERT_EQ(out.Bits(row), expected[first + row])
                << SimdTargetName(target) << ", " << threads
                << " threads, chunks of " << chunk << ", row " << first + row;
          }
        }
      }
    }
  }
}

TEST_P(AttentionTest, PiecesOfTheOpenBlockChangeNoBit) {
  // Contract C2: where the cache has put a tail depends on what else runs.
  const Shape shape = GetParam();
  const int64_t most = 2 * int64_t{shape.block_tokens};
  const Tokens tokens(shape, most, 17);
  for (SimdTarget target : UsableSimdTargets()) {
    ThreadPool pool(1);
    AttentionCpu attention(&pool, target);
    for (int64_t count = 1; count < most; ++count) {
      for (int64_t first : {int64_t{0}, count - 1}) {
        std::vector<std::vector<uint32_t>> expected;
        for (OpenBlock open :
             {OpenBlock::kWhole, OpenBlock::kScattered, OpenBlock::kInOrder}) {
          PagedKv kv(shape.Layout(), count, count, PagedKv::kPoison, open);
          tokens.Write(0, count, kv);
          const Matrix out = Attend(shape, tokens, kv, first, count, attention);
          if (open == OpenBlock::kWhole) expected = out.Bits();
          ASSERT_EQ(out.Bits(), expected)
              << SimdTargetName(target) << ", rows " << first << " to " << count
              << ", layout " << static_cast<int>(open);
        }
      }
    }
  }
}

TEST_P(AttentionTest, LongContextsAreEqualHoweverSpansAreShared) {
  // Few rows over several spans: with one thread the spans are computed one
  // after the other, with more they are split and merged at the end.
  const Shape shape = GetParam();
  const Tokens tokens(shape, 1100, 13);
  PagedKv kv(shape.Layout(), 1100);
  tokens.Write(0, 1100, kv);
  for (SimdTarget target : UsableSimdTargets()) {
    ThreadPool single(1);
    AttentionCpu reference(&single, target);
    for (const auto& [first, end] : std::vector<std::pair<int64_t, int64_t>>{
             {1099, 1100}, {1030, 1100}, {500, 530}, {1023, 1026}}) {
      const Matrix expected = Attend(shape, tokens, kv, first, end, reference);
      for (int32_t threads : {2, 4}) {
        ThreadPool pool(threads);
        AttentionCpu attention(&pool, target);
        for (int repeat = 0; repeat < 3; ++repeat) {
          ASSERT_EQ(Attend(shape, tokens, kv, first, end, attention).Bits(),
                    expected.Bits())
              << SimdTargetName(target) << ", " << threads << " threads, rows "
              << first << " to " << end;
        }
      }
    }
  }
}

TEST_P(AttentionTest, OtherSequencesOfTheStepChangeNoBit) {
  // A step mixes decodes and prefill chunks of unequal sequences; each must
  // get what it would get alone.
  const Shape shape = GetParam();
  struct Part {
    int64_t first;
    int64_t end;
  };
  const Part parts[] = {{0, 1},   {600, 601}, {17, 80},  {0, 33},
                        {31, 32}, {40, 40},   {520, 530}};
  for (SimdTarget target : UsableSimdTargets()) {
    for (int32_t threads : {1, 2, 4}) {
      ThreadPool pool(threads);
      AttentionCpu attention(&pool, target);
      std::vector<std::unique_ptr<PagedKv>> kvs;
      std::vector<SequenceRows> sequences;
      std::vector<std::vector<uint32_t>> expected;
      int64_t rows = 0;
      Matrix query(200, shape.QueryColumns());
      for (size_t i = 0; i < std::size(parts); ++i) {
        const auto [first, end] = parts[i];
        const Tokens tokens(shape, end, 100 * i);
        kvs.push_back(std::make_unique<PagedKv>(shape.Layout(), end, i));
        tokens.Write(0, end, *kvs.back());
        const Matrix alone =
            Attend(shape, tokens, *kvs.back(), first, end, attention);
        sequences.push_back({rows, end - first, first, kvs.back()->Table()});
        for (int64_t row = first; row < end; ++row) {
          std::copy_n(tokens.query.Row(row), query.columns(),
                      query.Row(rows++));
          expected.push_back(alone.Bits(row - first));
        }
      }
      Matrix out(rows, shape.QueryColumns());
      attention.PagedAttention(shape.Layout(), kLayer, shape.Scale(), sequences,
                               query.View().Rows(0, rows), out.View());
      for (int64_t row = 0; row < rows; ++row) {
        ASSERT_EQ(out.Bits(row), expected[row])
            << SimdTargetName(target) << ", " << threads << " threads, row "
            << row;
      }
    }
  }
}

TEST_P(AttentionTest, UnwrittenSlotsHaveNoInfluence) {
  // A block that is granted again still holds another sequence's numbers.
  const Shape shape = GetParam();
  for (SimdTarget target : UsableSimdTargets()) {
    ThreadPool pool(2);
    AttentionCpu attention(&pool, target);
    for (int64_t context : {1, 3, 16, 19, 530}) {
      const Tokens tokens(shape, context, 17);
      std::vector<std::vector<std::vector<uint32_t>>> results;
      // NaN, zeros, and numbers of ordinary size or huge.
      for (uint8_t poison : {0xff, 0x00, 0x3c, 0x7b}) {
        PagedKv kv(shape.Layout(), context, 1, poison);
        tokens.Write(0, context, kv);
        const int64_t first = std::max<int64_t>(0, context - 20);
        results.push_back(
            Attend(shape, tokens, kv, first, context, attention).Bits());
        EXPECT_EQ(results.back(), results.front())
            << SimdTargetName(target) << ", poison " << int{poison};
      }
    }
  }
}

TEST_P(AttentionTest, SimdTargetsAgreeInEveryBit) {
  // Blocks that travel between machines, and bug reports from one about the
  // other, are worth more if the targets do not differ. The portable one does,
  // having no fused multiply-add.
  const Shape shape = GetParam();
  const Tokens tokens(shape, 700, 19);
  PagedKv kv(shape.Layout(), 700);
  tokens.Write(0, 700, kv);
  ThreadPool pool(1);
  std::vector<std::vector<uint32_t>> first;
  for (SimdTarget target : UsableSimdTargets()) {
    if (target == PortableSimdTarget()) continue;
    AttentionCpu attention(&pool, target);
    const auto bits = Attend(shape, tokens, kv, 660, 700, attention).Bits();
    if (first.empty()) first = bits;
    EXPECT_EQ(bits, first) << SimdTargetName(target);
  }
}

TEST_P(AttentionTest, ExtremeScoresStayFinite) {
  // Scores that grow with every block move the max each time; their weights
  // would overflow without it.
  const Shape shape = GetParam();
  Tokens tokens(shape, 64, 23);
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t c = 0; c < shape.KeyColumns(); ++c) {
      tokens.key.Row(i)[c] = static_cast<float>(i) * 10;
    }
    for (int64_t c = 0; c < shape.QueryColumns(); ++c) {
      tokens.query.Row(i)[c] = 30;
    }
  }
  PagedKv kv(shape.Layout(), 64);
  tokens.Write(0, 64, kv);
  for (SimdTarget target : UsableSimdTargets()) {
    ThreadPool pool(1);
    AttentionCpu attention(&pool, target);
    const Matrix out = Attend(shape, tokens, kv, 63, 64, attention);
    for (int32_t head = 0; head < shape.kv_heads * shape.group; ++head) {
      for (int32_t d = 0; d < shape.head_dim; ++d) {
        // The last token outweighs all others by e^1000 and more.
        EXPECT_EQ(out.Row(0)[head * shape.head_dim + d],
                  kv.Value(kLayer, head / shape.group, 63, d));
      }
    }
  }
}

TEST_P(AttentionTest, NotANumberSpreadsToItsRowAlone) {
  // A broken activation must not turn into a plausible answer, nor reach the
  // rows of other users that share the tile.
  const Shape shape = GetParam();
  Tokens tokens(shape, 600, 29);
  PagedKv kv(shape.Layout(), 600);
  tokens.Write(0, 600, kv);
  for (SimdTarget target : UsableSimdTargets()) {
    ThreadPool pool(1);
    AttentionCpu attention(&pool, target);
    const Matrix expected = Attend(shape, tokens, kv, 590, 600, attention);
    Tokens broken = tokens;
    broken.query.Row(595)[0] = std::numeric_limits<float>::quiet_NaN();
    const Matrix out = Attend(shape, broken, kv, 590, 600, attention);
    for (int64_t row = 0; row < 10; ++row) {
      if (row == 5) continue;
      EXPECT_EQ(out.Bits(row), expected.Bits(row));
    }
    for (int32_t d = 0; d < shape.head_dim; ++d) {
      EXPECT_TRUE(std::isnan(out.Row(5)[d])) << SimdTargetName(target);
    }
  }
}

TEST_P(AttentionTest, NotANumberInOneSpanSpreadsThroughTheMerge) {
  // The last span holds the broken key alone, so it has no max to speak of and
  // looks like a span without tokens.
  const Shape shape = GetParam();
  const KvLayout layout = shape.Layout();
  const int64_t border =
      kAttentionSpanTokens / layout.block_tokens * layout.block_tokens;
  Tokens tokens(shape, border + 1, 31);
  std::fill_n(tokens.key.Row(border), shape.KeyColumns(),
              std::numeric_limits<float>::quiet_NaN());
  PagedKv kv(layout, border + 1);
  tokens.Write(0, border + 1, kv);
  for (SimdTarget target : UsableSimdTargets()) {
    for (int32_t threads : {1, 2}) {
      ThreadPool pool(threads);
      AttentionCpu attention(&pool, target);
      const Matrix out =
          Attend(shape, tokens, kv, border - 1, border + 1, attention);
      for (int64_t i = 0; i < out.columns(); ++i) {
        ASSERT_TRUE(std::isfinite(out.Row(0)[i])) << SimdTargetName(target);
        ASSERT_TRUE(std::isnan(out.Row(1)[i])) << SimdTargetName(target);
      }
    }
  }
}

}  // namespace
}  // namespace kvasir

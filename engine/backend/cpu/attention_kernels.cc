#include "engine/backend/cpu/attention_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cache/kv_layout.h"
#include "engine/backend/cpu/simd_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/attention_kernels.cc"
#include "hwy/foreach_target.h"
// foreach_target.h must come first: it compiles what follows once per target.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include "engine/backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir {
namespace HWY_NAMESPACE {
namespace {

using Full = hn::ScalableTag<float>;
using Eight = hn::CappedTag<float, 8>;

// Query vectors of one pass over a block: as many as have room in the registers
// beside what they are multiplied with.
#if HWY_TARGET == HWY_AVX3
constexpr int64_t kPassVectors = 8;
#else
constexpr int64_t kPassVectors = 4;
#endif
static_assert(kPassVectors <= kMaxVectors);

// Above this many vectors a block is converted to f32 once for all of them.
constexpr int64_t kMaxConvertingVectors = kPassVectors;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Vectors of values that N query vectors accumulate in registers together.
template <int N>
constexpr int ValueVectors() {
#if HWY_TARGET == HWY_AVX3
  return N <= 2 ? 8 : N <= 4 ? 4 : 2;
#else
  return N == 1 ? 8 : N <= 3 ? 4 : 2;
#endif
}

// Where keys or values are read from: the cache itself, or a copy in f32 that
// is in the L1 cache. While a block of the cache is read, the next one, which
// lies elsewhere, is fetched line by line.
template <typename T>
struct InCache {
  const T* numbers;
  int64_t ahead;  // bytes from this block to the next; 0: there is none

  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, int64_t index) const {
    return LoadAsF32(d, numbers + index);
  }
  HWY_INLINE void FetchAhead(int64_t index, int64_t count) const {
    const auto* from = reinterpret_cast<const std::byte*>(numbers + index);
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < bytes; i += kBufferAlignment) {
      hwy::Prefetch(from + ahead + i);
    }
  }
};

struct InScratch {
  const float* numbers;

  template <class D>
  HWY_INLINE hn::Vec<D> Load(D d, int64_t index) const {
    return hn::LoadU(d, numbers + index);
  }
  HWY_INLINE void FetchAhead(int64_t, int64_t) const {}
};

// One block of one head, and how many of its tokens the vectors see.
template <class Source>
struct HeadBlock {
  Source keys;    // [head_dim][block_tokens]
  Source values;  // [block_tokens][head_dim]
  int64_t valid;
};

// scores[n][t] = query n . key t for the tokens of one block. D and M: M
// vectors of tag D hold the tokens that are computed together.
template <int N, int M, class D, class Source>
HWY_INLINE void Scores(D d, const float* query, const Source& keys, int64_t dim,
                       int64_t tokens, float* scores) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  for (int64_t first = 0; first < tokens; first += M * kLanes) {
    hn::Vec<D> sums[N][M];
    for (auto& row : sums) {
      for (auto& sum : row) sum = hn::Zero(d);
    }
    for (int64_t i = 0; i < dim; ++i) {
      const int64_t at = i * tokens + first;
      keys.FetchAhead(at, M * kLanes);
      hn::Vec<D> key[M];
      for (int m = 0; m < M; ++m) key[m] = keys.Load(d, at + m * kLanes);
      for (int n = 0; n < N; ++n) {
        const hn::Vec<D> q = hn::Set(d, query[n * dim + i]);
        for (int m = 0; m < M; ++m) {
          sums[n][m] = hn::MulAdd(q, key[m], sums[n][m]);
        }
      }
    }
    for (int n = 0; n < N; ++n) {
      for (int m = 0; m < M; ++m) {
        hn::StoreU(sums[n][m], d, scores + n * tokens + first + m * kLanes);
      }
    }
  }
}

void Multiply(float factor, int64_t count, float* numbers) {
  for (int64_t i = 0; i < count; ++i) numbers[i] *= factor;
}

float ScalarExp2(float x) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(Exp2OfNegative(d, hn::Set(d, x)));
}

// Turns the scores of the first `valid` tokens of a block into weights against
// the running max, those of the others into 0, and adds them to the slots'
// sums. If the max grows, what was summed before is brought to the new one.
template <class D>
HWY_INLINE void Weigh(D d, int64_t valid, int64_t dim, int64_t tokens,
                      float* scores, float* slot_sums, float* partial) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  hn::Vec<D> highest = hn::Set(d, kMinusInfinity);
  if (valid < tokens) {
    std::fill(scores + valid, scores + tokens, kMinusInfinity);
  }
  for (int64_t t = 0; t < tokens; t += kLanes) {
    highest = hn::Max(highest, hn::LoadU(d, scores + t));
  }
  float max = partial[PartialMaxIndex(dim)];
  if (!hn::AllFalse(d, hn::Gt(highest, hn::Set(d, max)))) {
    const float grown = hn::GetLane(hn::MaxOfLanes(d, highest));
    const float factor = ScalarExp2(max - grown);
    Multiply(factor, dim, partial);
    Multiply(factor, tokens, slot_sums);
    partial[PartialMaxIndex(dim)] = grown;
    max = grown;
  }
  for (int64_t t = 0; t < tokens; t += kLanes) {
    const hn::Vec<D> weight =
        Exp2OfNegative(d, hn::Sub(hn::LoadU(d, scores + t), hn::Set(d, max)));
    hn::StoreU(weight, d, scores + t);
    hn::StoreU(hn::Add(hn::LoadU(d, slot_sums + t), weight), d, slot_sums + t);
  }
}

// Dimensions [first, first + C vectors) of partial n += weights n . values,
// over the tokens that are seen.
template <int N, int C, class D, class Source>
HWY_INLINE void AddValues(D d, const float* weights, int64_t tokens,
                          const HeadBlock<Source>& block, int64_t dim,
                          int64_t first, float* partials) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  const int64_t stride = PartialStride(dim);
  hn::Vec<D> sums[N][C];
  for (int n = 0; n < N; ++n) {
    for (int c = 0; c < C; ++c) {
      sums[n][c] = hn::LoadU(d, partials + n * stride + first + c * kLanes);
    }
  }
  for (int64_t t = 0; t < block.valid; ++t) {
    const int64_t at = t * dim + first;
    block.values.FetchAhead(at, C * kLanes);
    hn::Vec<D> value[C];
    for (int c = 0; c < C; ++c) {
      value[c] = block.values.Load(d, at + c * kLanes);
    }
    for (int n = 0; n < N; ++n) {
      const hn::Vec<D> weight = hn::Set(d, weights[n * tokens + t]);
      for (int c = 0; c < C; ++c) {
        sums[n][c] = hn::MulAdd(weight, value[c], sums[n][c]);
      }
    }
  }
  for (int n = 0; n < N; ++n) {
    for (int c = 0; c < C; ++c) {
      hn::StoreU(sums[n][c], d, partials + n * stride + first + c * kLanes);
    }
  }
}

// All dimensions of AddValues().
template <int N, class Source>
HWY_INLINE void AddAllValues(const float* weights, int64_t tokens,
                             const HeadBlock<Source>& block, int64_t dim,
                             float* partials) {
  constexpr int kTogether = ValueVectors<N>();
  constexpr int64_t kLanes = hn::MaxLanes(Full());
  int64_t i = 0;
  for (; i + kTogether * kLanes <= dim; i += kTogether * kLanes) {
    AddValues<N, kTogether>(Full(), weights, tokens, block, dim, i, partials);
  }
  for (; i + kLanes <= dim; i += kLanes) {
    AddValues<N, 1>(Full(), weights, tokens, block, dim, i, partials);
  }
  if (i < dim) {
    AddValues<N, 1>(Eight(), weights, tokens, block, dim, i, partials);
  }
}

// N vectors from `first` on meet one block.
template <int N, int M, class D, class Source>
void MeetBlock(D d, const AttentionWalk& walk, const HeadBlock<Source>& block,
               int64_t first) {
  const int64_t dim = walk.layout.head_dim;
  const int64_t tokens = walk.layout.block_tokens;
  const int64_t stride = PartialStride(dim);
  float* partials = walk.partials + first * stride;
  Scores<N, M>(d, walk.query + first * dim, block.keys, dim, tokens,
               walk.scores);
  for (int n = 0; n < N; ++n) {
    Weigh(d, block.valid, dim, tokens, walk.scores + n * tokens,
          walk.slot_sums + (first + n) * tokens, partials + n * stride);
  }
  AddAllValues<N>(walk.scores, tokens, block, dim, partials);
}

// The vectors [begin, end) meet one block, as many at a time as fit.
template <int M, class D, class Source>
void MeetBlockInPasses(D d, const AttentionWalk& walk,
                       const HeadBlock<Source>& block, int64_t begin,
                       int64_t end) {
#if HWY_TARGET == HWY_AVX3
  for (; begin + 8 <= end; begin += 8) MeetBlock<8, M>(d, walk, block, begin);
#endif
  for (; begin + 4 <= end; begin += 4) MeetBlock<4, M>(d, walk, block, begin);
  switch (end - begin) {
    case 3:
      return MeetBlock<3, M>(d, walk, block, begin);
    case 2:
      return MeetBlock<2, M>(d, walk, block, begin);
    case 1:
      return MeetBlock<1, M>(d, walk, block, begin);
  }
}

// The vectors of all rows that see a token of block `index`: first those to
// whom the whole block lies in the past, then the rows that end in it.
template <int M, class D, class Source>
void MeetBlockByRows(D d, const AttentionWalk& walk, int64_t index,
                     const Source& keys, const Source& values) {
  const int64_t tokens = walk.layout.block_tokens;
  const int64_t start = index * tokens - walk.first_position;  // row units
  const int64_t first_whole =
      std::clamp<int64_t>(start + tokens - 1, 0, walk.rows);
  MeetBlockInPasses<M>(d, walk, HeadBlock<Source>{keys, values, tokens},
                       first_whole * walk.group, walk.rows * walk.group);
  for (int64_t row = std::max<int64_t>(0, start); row < first_whole; ++row) {
    const HeadBlock<Source> block = {keys, values, row - start + 1};
    MeetBlockInPasses<M>(d, walk, block, row * walk.group,
                         (row + 1) * walk.group);
  }
}

// One head's keys, or values, of a block in f32: themselves or in `scratch`.
InScratch Widen(const InCache<float>& from, int64_t, float*) {
  return {from.numbers};
}
InScratch Widen(const InCache<hwy::float16_t>& from, int64_t count,
                float* scratch) {
  constexpr int64_t kTogether = kBufferAlignment / sizeof(hwy::float16_t);
  const Eight d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t first = 0; first < count; first += kTogether) {
    from.FetchAhead(first, kTogether);
    for (int64_t i = first; i < first + kTogether; i += lanes) {
      hn::Store(from.Load(d, i), d, scratch + i);
    }
  }
  return {scratch};
}

// Brings the pieces of the tail together that hold a token the rows see.
template <typename T>
HWY_NOINLINE void GatherTail(const AttentionWalk& walk) {
  constexpr int64_t kPiece = KvLayout::kPieceTokens;
  const int64_t dim = walk.layout.head_dim;
  const int64_t tokens = walk.layout.block_tokens;
  const int64_t seen = walk.first_position + walk.rows -
                       static_cast<int64_t>(walk.table.blocks.size()) * tokens;
  T* const keys = reinterpret_cast<T*>(walk.tail_keys);
  T* const values = reinterpret_cast<T*>(walk.tail_values);
  for (int64_t first = 0; first < seen; first += kPiece) {
    const TailPiece& piece = walk.table.tail[first / kPiece];
    const std::byte* block = walk.table.At(piece.block);
    const T* from_keys =
        reinterpret_cast<const T*>(block + walk.key_offset) + piece.first_slot;
    const T* from_values =
        reinterpret_cast<const T*>(block + walk.value_offset) +
        piece.first_slot * dim;
    for (int64_t d = 0; d < dim; ++d) {
      std::memcpy(keys + d * tokens + first, from_keys + d * tokens,
                  kPiece * sizeof(T));
    }
    std::memcpy(values + first * dim, from_values, kPiece * dim * sizeof(T));
  }
}

template <int M, class D, typename T>
void WalkBlocks(D d, const AttentionWalk& walk) {
  const BlockTableView& table = walk.table;
  const int64_t count =
      int64_t{walk.layout.head_dim} * walk.layout.block_tokens;
  const bool widen = walk.rows * walk.group > kMaxConvertingVectors;
  const int64_t whole = static_cast<int64_t>(table.blocks.size());
  const std::byte* const tail =
      walk.end_block > whole ? table.At(table.tail.front().block) : nullptr;
  const bool gather = tail != nullptr && !table.TailInPlace(walk.layout);
  if (gather) GatherTail<T>(walk);
  const auto start_of = [&](int64_t index) {
    return index < whole ? table.Block(index) : tail;
  };
  for (int64_t index = walk.first_block; index < walk.end_block; ++index) {
    const std::byte* block = start_of(index);
    const int64_t ahead =
        index + 1 < walk.end_block ? start_of(index + 1) - block : 0;
    const bool gathered = gather && index == whole;
    const InCache<T> keys = {
        reinterpret_cast<const T*>(gathered ? walk.tail_keys
                                            : block + walk.key_offset),
        ahead};
    const InCache<T> values = {
        reinterpret_cast<const T*>(gathered ? walk.tail_values
                                            : block + walk.value_offset),
        ahead};
    if (widen) {
      MeetBlockByRows<M>(d, walk, index, Widen(keys, count, walk.keys),
                         Widen(values, count, walk.values));
    } else {
      MeetBlockByRows<M>(d, walk, index, keys, values);
    }
  }
}

template <typename T>
void WalkBlocksOf(const AttentionWalk& walk) {
  if (walk.layout.block_tokens % 16 == 0) {
    WalkBlocks<16 / hn::MaxLanes(Full()), Full, T>(Full(), walk);
  } else {
    WalkBlocks<8 / hn::MaxLanes(Eight()), Eight, T>(Eight(), walk);
  }
}

void Walk(const AttentionWalk& walk) {
  const int64_t dim = walk.layout.head_dim;
  const int64_t tokens = walk.layout.block_tokens;
  const int64_t vectors = walk.rows * walk.group;
  const int64_t stride = PartialStride(dim);
  std::fill(walk.partials, walk.partials + vectors * stride, 0.0f);
  std::fill(walk.slot_sums, walk.slot_sums + vectors * tokens, 0.0f);
  for (int64_t v = 0; v < vectors; ++v) {
    walk.partials[v * stride + PartialMaxIndex(dim)] = kMinusInfinity;
  }
  if (walk.layout.type == KvType::kF32) {
    WalkBlocksOf<float>(walk);
  } else {
    WalkBlocksOf<hwy::float16_t>(walk);
  }
  for (int64_t v = 0; v < vectors; ++v) {
    float sum = 0;
    for (int64_t t = 0; t < tokens; ++t) sum += walk.slot_sums[v * tokens + t];
    walk.partials[v * stride + PartialSumIndex(dim)] = sum;
  }
}

void Merge(const float* part, int64_t dim, float* total) {
  // A partial with tokens has a sum of 1 or more, or NaN, which has to spread.
  if (part[PartialSumIndex(dim)] == 0) return;
  if (total[PartialSumIndex(dim)] == 0) {
    std::copy(part, part + PartialStride(dim), total);
    return;
  }
  const float part_max = part[PartialMaxIndex(dim)];
  const float total_max = total[PartialMaxIndex(dim)];
  const float max = std::max(part_max, total_max);
  const float part_factor = ScalarExp2(part_max - max);
  const float total_factor = ScalarExp2(total_max - max);
  for (int64_t i = 0; i < dim; ++i) {
    total[i] = total[i] * total_factor + part[i] * part_factor;
  }
  total[PartialSumIndex(dim)] = total[PartialSumIndex(dim)] * total_factor +
                                part[PartialSumIndex(dim)] * part_factor;
  total[PartialMaxIndex(dim)] = max;
}

void Finish(const float* total, int64_t dim, float* out) {
  const float factor = 1.0f / total[PartialSumIndex(dim)];
  for (int64_t i = 0; i < dim; ++i) out[i] = total[i] * factor;
}

void Scale(const float* in, float factor, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = in[i] * factor;
}

const AttentionKernels* Kernels() {
  static constexpr AttentionKernels kKernels = {&Scale, &Walk, &Merge, &Finish};
  return &kKernels;
}

}  // namespace
// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kvasir
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kvasir {

HWY_EXPORT(Kernels);

const AttentionKernels& AttentionKernelsFor(SimdTarget target) {
  return *KV_SIMD_FUNCTION(Kernels, target)();
}

}  // namespace kvasir
#endif  // HWY_ONCE

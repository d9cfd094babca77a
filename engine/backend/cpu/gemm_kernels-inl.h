// The SIMD kernels, written once over a description S of the vectors: AVX2's 8
// lanes or AVX-512's 16. Included by the one .cc file of each target, between
// HWY_PUSH_ATTRIBUTES and HWY_POP_ATTRIBUTES, after every other header; S has
// internal linkage there, so no two files share an instance.
//
// S offers F and I (vectors of float and of 32-bit integers or bytes), their
// arithmetic, and
//   Weights<kBits>  bytes of levels made ready for Dot
//   Dot<kBits>      the exact integer sum over the steps of a block
// Half a group (AVX2) or a whole one (AVX-512) is a slice: kLanes outputs, a
// vector of each line.
#ifndef KVASIR_ENGINE_BACKEND_CPU_GEMM_KERNELS_INL_H_
#define KVASIR_ENGINE_BACKEND_CPU_GEMM_KERNELS_INL_H_

#include <cstdint>
#include <utility>

#include "engine/backend/cpu/gemm_kernels.h"

#define KVASIR_INLINE inline __attribute__((always_inline))

namespace kvasir {

// The levels of one step, unsigned, a byte each. `levels` points to the slice
// in the first line of the block.
template <class S, int kBits, int kStep>
KVASIR_INLINE typename S::I LoadLevels(const uint8_t* levels) {
  if constexpr (kBits == 8) {
    return S::Load(levels + kStep * kStepBytes);
  } else {
    typename S::I low = S::Load(levels + kStep / 2 * kStepBytes);
    low = S::And(S::template ShiftRight16<kStep % 2 * 4>(low), S::Bytes(0x0F));
    if constexpr (kBits == 5) {
      const typename S::I high = S::Load(levels + 4 * kStepBytes);
      return S::Or(
          low, S::And(S::template Shift16<4 - kStep>(high), S::Bytes(0x10)));
    } else if constexpr (kBits == 6) {
      const typename S::I high = S::Load(levels + (4 + kStep / 4) * kStepBytes);
      return S::Or(low, S::And(S::template Shift16<4 - kStep % 4 * 2>(high),
                               S::Bytes(0x30)));
    } else {
      return low;
    }
  }
}

// What scales the integers of a block: one value a lane.
template <class S>
struct SliceFactors {
  typename S::F scale;
  typename S::F min;
  typename S::I half[2];  // kSuperSigned
};

template <class S, ScaleKind kKind>
KVASIR_INLINE SliceFactors<S> LoadFactors(const uint8_t* scales, int64_t block,
                                          int64_t slice) {
  const int64_t lane = slice * S::kLanes;
  SliceFactors<S> out;
  if constexpr (kKind == ScaleKind::kScale) {
    out.scale = S::LoadF16(scales + block * kHalfRowBytes + 2 * lane);
  } else if constexpr (kKind == ScaleKind::kScaleMin) {
    const uint8_t* pair = scales + block * 2 * kHalfRowBytes + 2 * lane;
    out.scale = S::LoadF16(pair);
    out.min = S::LoadF16(pair + kHalfRowBytes);
  } else {
    constexpr bool kMin = kKind == ScaleKind::kSuperMin;
    constexpr int64_t kHead = (kMin ? 2 : 1) * kHalfRowBytes;
    constexpr int64_t kSuperBytes =
        ScaleBytes(kKind, kSuperBlocks * kBlockWeights);
    const uint8_t* super = scales + block / kSuperBlocks * kSuperBytes;
    const uint8_t* factor =
        super + kHead + block % kSuperBlocks * 2 * kGroupRows + lane;
    out.scale = S::LoadF16(super + 2 * lane);
    if constexpr (kMin) {
      const typename S::F min = S::LoadF16(super + kHalfRowBytes + 2 * lane);
      out.scale = S::Mul(out.scale, S::ToFloat(S::LoadU8(factor)));
      out.min = S::Mul(min, S::ToFloat(S::LoadU8(factor + kGroupRows)));
    } else {
      out.half[0] = S::LoadI8(factor);
      out.half[1] = S::LoadI8(factor + kGroupRows);
    }
  }
  return out;
}

template <class S, int kBits, int kRows, int kStep>
KVASIR_INLINE void AddStep(const uint8_t* levels, const Q8Block* activations,
                           typename S::template Dot<kBits> (&dots)[kRows]) {
  const typename S::template Weights<kBits> weights(
      LoadLevels<S, kBits, kStep>(levels));
  for (int r = 0; r < kRows; ++r) {
    dots[r].template Add<kStep>(
        weights, S::BroadcastI32(activations[r].level + kStep * kStepColumns));
  }
}

template <class S, int kBits, int kRows, int... kSteps>
KVASIR_INLINE void AddSteps(const uint8_t* levels, const Q8Block* activations,
                            typename S::template Dot<kBits> (&dots)[kRows],
                            std::integer_sequence<int, kSteps...>) {
  (AddStep<S, kBits, kRows, kSteps>(levels, activations, dots), ...);
}

// sums[r] = the integer I (gemm_kernels.h) of row r and the slice's outputs.
template <class S, DType kType, int kRows>
KVASIR_INLINE void BlockSums(const uint8_t* levels, const Q8Block* activations,
                             const SliceFactors<S>& factors,
                             typename S::I (&sums)[kRows]) {
  constexpr QuantFormat kFormat = QuantFormatOf(kType);
  constexpr int kBits = kFormat.bits;
  typename S::template Dot<kBits> dots[kRows];
  if constexpr (kFormat.scales != ScaleKind::kSuperSigned) {
    for (int r = 0; r < kRows; ++r) {
      dots[r].template Start<kFormat.offset>(
          S::BroadcastI32(&activations[r].negative_sum));
    }
    AddSteps<S, kBits, kRows>(levels, activations, dots,
                              std::make_integer_sequence<int, kBlockSteps>());
    for (int r = 0; r < kRows; ++r) sums[r] = dots[r].Sum();
  } else {
    for (int r = 0; r < kRows; ++r) {
      dots[r].template Start<kFormat.offset>(
          S::Sub(S::BroadcastI32(&activations[r].negative_sum),
                 S::BroadcastI32(&activations[r].negative_high_sum)));
    }
    AddSteps<S, kBits, kRows>(levels, activations, dots,
                              std::integer_sequence<int, 0, 1, 2, 3>());
    for (int r = 0; r < kRows; ++r) {
      sums[r] = S::MulI32(dots[r].Sum(), factors.half[0]);
      dots[r].template Start<kFormat.offset>(
          S::BroadcastI32(&activations[r].negative_high_sum));
    }
    AddSteps<S, kBits, kRows>(levels, activations, dots,
                              std::integer_sequence<int, 4, 5, 6, 7>());
    for (int r = 0; r < kRows; ++r) {
      sums[r] = S::Add(sums[r], S::MulI32(dots[r].Sum(), factors.half[1]));
    }
  }
}

// A kernel fetches the weights of its next tile into the second-level cache, at
// the place where it reads this one's: the processor itself stops looking ahead
// at each 4 KiB page, and a tile is a few pages. Tiles too long for that cache
// are read far enough within each page to do with a short way ahead.
constexpr int64_t kMaxTileAhead = 128 << 10;
constexpr int64_t kBytesAhead = 4 << 10;

constexpr int64_t FetchAhead(int64_t tile_bytes) {
  return tile_bytes <= kMaxTileAhead ? tile_bytes : kBytesAhead;
}

template <int64_t kBytes>
KVASIR_INLINE void Fetch(const uint8_t* at) {
  for (int64_t line = 0; line < kBytes; line += kStepBytes) {
    __builtin_prefetch(at + line, /*rw=*/0, /*locality=*/2);
  }
}

// kRows rows by kGroups groups from `group` on, of each kSlices slices from
// `slice` on.
template <class S, DType kType, int kRows, int kGroups, int kSlices>
KVASIR_INLINE void TileQ8(const PackedGroups& weights, int64_t group,
                          int64_t slice, const Q8Block* activations,
                          int64_t stride, float* result) {
  constexpr QuantFormat kFormat = QuantFormatOf(kType);
  constexpr bool kHasMin = kFormat.scales == ScaleKind::kScaleMin ||
                           kFormat.scales == ScaleKind::kSuperMin;
  constexpr int kVectors = kGroups * kSlices;
  const uint8_t* scales = weights.Scales(group);
  const uint8_t* levels = weights.Levels(group) + slice * S::kBytes;
  const int64_t group_bytes = weights.group_bytes;
  const int64_t ahead = FetchAhead(kGroups * group_bytes);
  typename S::F sums[kVectors][kRows];
  for (int v = 0; v < kVectors; ++v) {
    for (int r = 0; r < kRows; ++r) sums[v][r] = S::Zero();
  }
  const int64_t blocks = weights.columns / kBlockWeights;
  for (int64_t b = 0; b < blocks; ++b) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t offset = v / kSlices * group_bytes;
      const int64_t part = v % kSlices;
      if (slice + part == 0) {
        Fetch<LevelBytes(kFormat.bits)>(levels + offset + ahead);
      }
      const SliceFactors<S> factors =
          LoadFactors<S, kFormat.scales>(scales + offset, b, slice + part);
      typename S::I integers[kRows];
      BlockSums<S, kType, kRows>(levels + offset + part * S::kBytes,
                                 activations, factors, integers);
      for (int r = 0; r < kRows; ++r) {
        const Q8Block& block = activations[r];
        sums[v][r] = S::Fma(
            S::ToFloat(integers[r]),
            S::Mul(factors.scale, S::BroadcastF32(&block.scale)), sums[v][r]);
        if constexpr (kHasMin) {
          sums[v][r] = S::Fma(factors.min, S::BroadcastF32(&block.scaled_sum),
                              sums[v][r]);
        }
      }
    }
    levels += LevelBytes(kFormat.bits);
    activations += stride;
  }
  result += group * kGroupRows + slice * S::kLanes;
  for (int v = 0; v < kVectors; ++v) {
    for (int r = 0; r < kRows; ++r) {
      S::Store(sums[v][r], result + r * kTileOutputs +
                               v / kSlices * kGroupRows +
                               v % kSlices * S::kLanes);
    }
  }
}

// As RowsF32() below.
template <class S, DType kType, int kRows, int kGroups, int kSlices>
int64_t RowsQ8(const PackedGroups& weights, const Q8Block* activations,
               int64_t stride, int64_t row, int64_t rows, float* result) {
  for (; row + kRows <= rows; row += kRows) {
    float* out = result + row * kTileOutputs;
    int64_t g = 0;
    for (; g + kGroups <= weights.count; g += kGroups) {
      for (int64_t slice = 0; slice < S::kSlices; slice += kSlices) {
        TileQ8<S, kType, kRows, kGroups, kSlices>(
            weights, g, slice, activations + row, stride, out);
      }
    }
    if constexpr (kGroups > 1) {
      for (; g < weights.count; ++g) {
        TileQ8<S, kType, kRows, 1, kSlices>(weights, g, 0, activations + row,
                                            stride, out);
      }
    }
  }
  return row;
}

// One or two rows take all slices at once, so that a line is used while it is
// at hand; more rows need the registers for themselves. A single row reads
// several groups side by side: more streams of memory, more of its bandwidth.
template <class S, DType kType>
void MultiplyQ8(const PackedGroups& weights, const Q8Block* activations,
                int64_t stride, int64_t rows, float* result) {
  int64_t row = 0;
  row = RowsQ8<S, kType, S::kRowsQ8, 1, 1>(weights, activations, stride, row,
                                           rows, result);
  row = RowsQ8<S, kType, 4, 1, 1>(weights, activations, stride, row, rows,
                                  result);
  row = RowsQ8<S, kType, 2, 1, S::kSlices>(weights, activations, stride, row,
                                           rows, result);
  RowsQ8<S, kType, 1, kTileGroups, S::kSlices>(weights, activations, stride,
                                               row, rows, result);
}

// The four columns of step kStep: out[c] of column c.
template <class S, DType kType, int kStep>
KVASIR_INLINE void UnpackStep(const uint8_t* levels,
                              const SliceFactors<S>& factors, float* out) {
  constexpr QuantFormat kFormat = QuantFormatOf(kType);
  const typename S::I bytes = LoadLevels<S, kFormat.bits, kStep>(levels);
  typename S::F scale = factors.scale;
  if constexpr (kFormat.scales == ScaleKind::kSuperSigned) {
    scale = S::Mul(scale, S::ToFloat(factors.half[kStep / 4]));
  }
  const typename S::I columns[kStepColumns] = {
      S::template Byte<0>(bytes), S::template Byte<1>(bytes),
      S::template Byte<2>(bytes), S::template Byte<3>(bytes)};
  const int32_t offset = kFormat.offset;
  for (int c = 0; c < kStepColumns; ++c) {
    typename S::F weight =
        S::Mul(scale, S::ToFloat(S::Sub(columns[c], S::BroadcastI32(&offset))));
    if constexpr (kFormat.scales == ScaleKind::kScaleMin ||
                  kFormat.scales == ScaleKind::kSuperMin) {
      weight = S::Add(weight, factors.min);
    }
    S::Store(weight, out + (kStep * kStepColumns + c) * kGroupRows);
  }
}

template <class S, DType kType, int... kSteps>
KVASIR_INLINE void UnpackSteps(const uint8_t* levels,
                               const SliceFactors<S>& factors, float* out,
                               std::integer_sequence<int, kSteps...>) {
  (UnpackStep<S, kType, kSteps>(levels, factors, out), ...);
}

template <class S, DType kType>
void Unpack(const PackedGroups& group, float* out) {
  constexpr QuantFormat kFormat = QuantFormatOf(kType);
  for (int64_t b = 0; b < group.columns / kBlockWeights; ++b) {
    const uint8_t* levels = group.Levels(0) + b * LevelBytes(kFormat.bits);
    for (int64_t slice = 0; slice < S::kSlices; ++slice) {
      UnpackSteps<S, kType>(
          levels + slice * S::kBytes,
          LoadFactors<S, kFormat.scales>(group.Scales(0), b, slice),
          out + b * kBlockWeights * kGroupRows + slice * S::kLanes,
          std::make_integer_sequence<int, kBlockSteps>());
    }
  }
}

template <class S, DType kType>
KVASIR_INLINE typename S::F LoadPlain(const uint8_t* at) {
  if constexpr (kType == DType::kF32) {
    return S::LoadF32(reinterpret_cast<const float*>(at));
  } else if constexpr (kType == DType::kF16) {
    return S::LoadF16(at);
  } else {
    return S::LoadBF16(at);
  }
}

// kRows rows by kGroups whole groups.
template <class S, DType kType, int kRows, int kGroups>
void TileF32(const PackedGroups& weights, int64_t group,
             const Activations& activations, float* result) {
  constexpr int64_t kElement = kType == DType::kF32 ? 4 : 2;
  constexpr int kVectors = kGroups * S::kSlices;
  const uint8_t* from[kGroups];
  for (int g = 0; g < kGroups; ++g) from[g] = weights.Scales(group + g);
  const float* rows[kRows];
  for (int r = 0; r < kRows; ++r) rows[r] = activations.Row(r);
  typename S::F sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = S::Zero();
  }
  const int64_t ahead = FetchAhead(kGroups * weights.group_bytes);
  for (int64_t column = 0; column < weights.columns; ++column) {
    for (int v = 0; v < kVectors; ++v) {
      if (kRows == 1 && v % S::kSlices == 0) {
        Fetch<1>(from[v / S::kSlices] + column * kGroupRows * kElement + ahead);
      }
      const typename S::F weight = LoadPlain<S, kType>(
          from[v / S::kSlices] +
          (column * kGroupRows + v % S::kSlices * S::kLanes) * kElement);
      for (int r = 0; r < kRows; ++r) {
        sums[r][v] =
            S::Fma(weight, S::BroadcastF32(rows[r] + column), sums[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      S::Store(sums[r][v],
               result + r * kTileOutputs + group * kGroupRows + v * S::kLanes);
    }
  }
}

// Rows [row, rows) in tiles of kRows rows and kGroups groups, as long as a tile
// is full; returns the first row left.
template <class S, DType kType, int kRows, int kGroups>
int64_t RowsF32(const PackedGroups& weights, const Activations& activations,
                int64_t row, float* result) {
  for (; row + kRows <= activations.rows; row += kRows) {
    const Activations tile = activations.Rows(row, kRows);
    float* out = result + row * kTileOutputs;
    int64_t g = 0;
    for (; g + kGroups <= weights.count; g += kGroups) {
      TileF32<S, kType, kRows, kGroups>(weights, g, tile, out);
    }
    if constexpr (kGroups > 1) {
      for (; g < weights.count; ++g) {
        TileF32<S, kType, kRows, 1>(weights, g, tile, out);
      }
    }
  }
  return row;
}

// Few rows need several groups at once: the chain of a sum waits for each
// addition, and only other chains fill the wait.
template <class S, DType kType>
void MultiplyF32(const PackedGroups& weights, const Activations& activations,
                 float* result) {
  int64_t row = 0;
  row = RowsF32<S, kType, S::kRowsF32, 1>(weights, activations, row, result);
  row = RowsF32<S, kType, 4, 1>(weights, activations, row, result);
  row =
      RowsF32<S, kType, 2, kTileGroups / 2>(weights, activations, row, result);
  RowsF32<S, kType, 1, kTileGroups>(weights, activations, row, result);
}

template <class S>
void QuantizeRow(const float* row, int64_t blocks, Q8Block* out,
                 int64_t stride) {
  constexpr int kVectors = kBlockWeights / S::kLanes;
  for (int64_t b = 0; b < blocks; ++b, row += kBlockWeights, out += stride) {
    typename S::F largest = S::Zero();
    for (int v = 0; v < kVectors; ++v) {
      largest = S::MaxAbs(largest, S::LoadF32(row + v * S::kLanes));
    }
    const float magnitude = S::LargestLane(largest);
    if (!(magnitude <= kLargestMagnitude)) {
      *out = NotFiniteBlock();
      continue;
    }
    const bool zero = magnitude < kSmallestMagnitude;
    const float factor = zero ? 0.0f : 127.0f / magnitude;
    int32_t sums[2] = {0, 0};
    for (int v = 0; v < kVectors; ++v) {
      const typename S::I levels = S::Round(
          S::Mul(S::LoadF32(row + v * S::kLanes), S::BroadcastF32(&factor)));
      S::StoreBytes(levels, out->level + v * S::kLanes);
      sums[v * S::kLanes / kHalfWeights] += S::SumLanes(levels);
    }
    out->scale = zero ? 0.0f : magnitude / 127.0f;
    out->scaled_sum = out->scale * static_cast<float>(sums[0] + sums[1]);
    out->negative_sum = -(sums[0] + sums[1]);
    out->negative_high_sum = -sums[1];
  }
}

template <class S>
constexpr GemmKernels SimdGemmKernels(const char* name) {
  return {name,
          QuantizeRow<S>,
          {nullptr, nullptr, nullptr, MultiplyQ8<S, DType::kQ8_0>,
           MultiplyQ8<S, DType::kQ4_0>, MultiplyQ8<S, DType::kQ4_1>,
           MultiplyQ8<S, DType::kQ5_0>, MultiplyQ8<S, DType::kQ5_1>,
           MultiplyQ8<S, DType::kQ4_K>, MultiplyQ8<S, DType::kQ5_K>,
           MultiplyQ8<S, DType::kQ6_K>},
          {nullptr, nullptr, nullptr, Unpack<S, DType::kQ8_0>,
           Unpack<S, DType::kQ4_0>, Unpack<S, DType::kQ4_1>,
           Unpack<S, DType::kQ5_0>, Unpack<S, DType::kQ5_1>,
           Unpack<S, DType::kQ4_K>, Unpack<S, DType::kQ5_K>,
           Unpack<S, DType::kQ6_K>},
          {MultiplyF32<S, DType::kF32>, MultiplyF32<S, DType::kF16>,
           MultiplyF32<S, DType::kBF16>}};
}

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_GEMM_KERNELS_INL_H_

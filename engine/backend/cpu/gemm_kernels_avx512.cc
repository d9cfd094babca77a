#include "engine/backend/cpu/gemm_kernels.h"

#if defined(__x86_64__)

// GCC 12 warns of the undefined vectors in its own AVX-512 header once they are
// inlined (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "hwy/base.h"

#include "engine/backend/cpu/packed_weight.h"
#include "engine/backend/cpu/quant_formats.h"
#include "engine/backend/tensor.h"

// Written by hand and not over Highway's AVX-512 target: that of version 1.0.3
// lacks the instructions of VNNI.
HWY_PUSH_ATTRIBUTES(
    "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni");
#include "engine/backend/cpu/gemm_kernels-inl.h"

namespace kvasir {
namespace {

struct Avx512 {
  using F = __m512;
  using I = __m512i;
  static constexpr int kLanes = 16;
  static constexpr int kBytes = 64;
  static constexpr int kSlices = kGroupRows / kLanes;
  static constexpr int kRowsQ8 = 8;
  static constexpr int kRowsF32 = 8;

  static KVASIR_INLINE F Zero() { return _mm512_setzero_ps(); }
  static KVASIR_INLINE F LoadF32(const float* at) {
    return _mm512_loadu_ps(at);
  }
  static KVASIR_INLINE F LoadF16(const uint8_t* at) {
    return _mm512_cvtph_ps(
        _mm256_load_si256(reinterpret_cast<const __m256i*>(at)));
  }
  static KVASIR_INLINE F LoadBF16(const uint8_t* at) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(
        _mm512_cvtepu16_epi32(
            _mm256_load_si256(reinterpret_cast<const __m256i*>(at))),
        16));
  }
  static KVASIR_INLINE void Store(F value, float* at) {
    _mm512_storeu_ps(at, value);
  }
  static KVASIR_INLINE F BroadcastF32(const float* at) {
    return _mm512_set1_ps(*at);
  }
  static KVASIR_INLINE F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  static KVASIR_INLINE F Add(F a, F b) { return _mm512_add_ps(a, b); }
  static KVASIR_INLINE F Fma(F a, F b, F sum) {
    return _mm512_fmadd_ps(a, b, sum);
  }
  static KVASIR_INLINE F ToFloat(I value) { return _mm512_cvtepi32_ps(value); }
  static KVASIR_INLINE I Round(F value) { return _mm512_cvtps_epi32(value); }
  // Of magnitudes as integers, which are in the same order; what is no number
  // is above them all and stays.
  static KVASIR_INLINE F MaxAbs(F largest, F value) {
    return _mm512_castsi512_ps(
        _mm512_max_epi32(_mm512_castps_si512(largest),
                         _mm512_castps_si512(_mm512_abs_ps(value))));
  }
  static KVASIR_INLINE float LargestLane(F value) {
    return std::bit_cast<float>(
        _mm512_reduce_max_epi32(_mm512_castps_si512(value)));
  }

  static KVASIR_INLINE I Load(const uint8_t* at) {
    return _mm512_load_si512(at);
  }
  static KVASIR_INLINE I LoadU8(const uint8_t* at) {
    return _mm512_cvtepu8_epi32(
        _mm_load_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static KVASIR_INLINE I LoadI8(const uint8_t* at) {
    return _mm512_cvtepi8_epi32(
        _mm_load_si128(reinterpret_cast<const __m128i*>(at)));
  }
  // Four bytes, in every lane.
  static KVASIR_INLINE I BroadcastI32(const void* at) {
    return _mm512_castps_si512(_mm512_set1_ps(*static_cast<const float*>(at)));
  }
  static KVASIR_INLINE I Bytes(char value) { return _mm512_set1_epi8(value); }
  static KVASIR_INLINE I And(I a, I b) { return _mm512_and_si512(a, b); }
  static KVASIR_INLINE I Or(I a, I b) { return _mm512_or_si512(a, b); }
  static KVASIR_INLINE I Add(I a, I b) { return _mm512_add_epi32(a, b); }
  static KVASIR_INLINE I Sub(I a, I b) { return _mm512_sub_epi32(a, b); }
  static KVASIR_INLINE I MulI32(I a, I b) { return _mm512_mullo_epi32(a, b); }
  // Byte kIndex of each lane, as 32 bits.
  template <int kIndex>
  static KVASIR_INLINE I Byte(I value) {
    return And(_mm512_srli_epi32(value, 8 * kIndex), _mm512_set1_epi32(0xFF));
  }
  template <int kCount>
  static KVASIR_INLINE I ShiftRight16(I value) {
    return Shift16<-kCount>(value);
  }
  // To the left; a negative count to the right. Across the two bytes of 16
  // bits: the caller masks what came from the neighbour.
  template <int kCount>
  static KVASIR_INLINE I Shift16(I value) {
    if constexpr (kCount > 0) return _mm512_slli_epi16(value, kCount);
    if constexpr (kCount < 0) return _mm512_srli_epi16(value, -kCount);
    return value;
  }
  static KVASIR_INLINE void StoreBytes(I value, int8_t* at) {
    _mm_store_si128(reinterpret_cast<__m128i*>(at),
                    _mm512_cvtsepi32_epi8(value));
  }
  static KVASIR_INLINE int32_t SumLanes(I value) {
    return _mm512_reduce_add_epi32(value);
  }

  template <int kBits>
  struct Weights {
    explicit KVASIR_INLINE Weights(I levels) : levels(levels) {}
    I levels;
  };

  // dpbusd adds four products of unsigned and signed bytes to 32 bits without
  // saturation, so the offset can come in beforehand: as offset times the
  // negative sum of the activations.
  template <int kBits>
  class Dot {
   public:
    template <int kOffset>
    KVASIR_INLINE void Start(I negative_sum) {
      if constexpr (kOffset == 0) {
        sum_ = _mm512_setzero_si512();
      } else {
        sum_ = _mm512_slli_epi32(negative_sum, __builtin_ctz(kOffset));
      }
    }
    template <int kStep>
    KVASIR_INLINE void Add(const Weights<kBits>& weights, I activations) {
      sum_ = _mm512_dpbusd_epi32(sum_, weights.levels, activations);
    }
    KVASIR_INLINE I Sum() const { return sum_; }

   private:
    I sum_;
  };
};

}  // namespace
}  // namespace kvasir
HWY_POP_ATTRIBUTES;

namespace kvasir {

const GemmKernels* Avx512VnniGemmKernels() {
  static constexpr GemmKernels kKernels =
      SimdGemmKernels<Avx512>("AVX512-VNNI");
  static const bool kUsable =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
  return kUsable ? &kKernels : nullptr;
}

}  // namespace kvasir

#else

namespace kvasir {
const GemmKernels* Avx512VnniGemmKernels() { return nullptr; }
}  // namespace kvasir

#endif

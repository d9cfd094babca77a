#include "engine/backend/cpu/gemm_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "hwy/base.h"

#include "engine/backend/cpu/packed_weight.h"
#include "engine/backend/cpu/quant_formats.h"
#include "engine/backend/tensor.h"

HWY_PUSH_ATTRIBUTES("avx2,fma,f16c");
#include "engine/backend/cpu/gemm_kernels-inl.h"

namespace kvasir {
namespace {

struct Avx2 {
  using F = __m256;
  using I = __m256i;
  static constexpr int kLanes = 8;
  static constexpr int kBytes = 32;
  static constexpr int kSlices = kGroupRows / kLanes;
  static constexpr int kRowsQ8 = 4;
  static constexpr int kRowsF32 = 4;

  static KVASIR_INLINE F Zero() { return _mm256_setzero_ps(); }
  static KVASIR_INLINE F LoadF32(const float* at) {
    return _mm256_loadu_ps(at);
  }
  static KVASIR_INLINE F LoadF16(const uint8_t* at) {
    return _mm256_cvtph_ps(
        _mm_load_si128(reinterpret_cast<const __m128i*>(at)));
  }
  static KVASIR_INLINE F LoadBF16(const uint8_t* at) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(
        _mm256_cvtepu16_epi32(
            _mm_load_si128(reinterpret_cast<const __m128i*>(at))),
        16));
  }
  static KVASIR_INLINE void Store(F value, float* at) {
    _mm256_storeu_ps(at, value);
  }
  static KVASIR_INLINE F BroadcastF32(const float* at) {
    return _mm256_broadcast_ss(at);
  }
  static KVASIR_INLINE F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  static KVASIR_INLINE F Add(F a, F b) { return _mm256_add_ps(a, b); }
  static KVASIR_INLINE F Fma(F a, F b, F sum) {
    return _mm256_fmadd_ps(a, b, sum);
  }
  static KVASIR_INLINE F ToFloat(I value) { return _mm256_cvtepi32_ps(value); }
  static KVASIR_INLINE I Round(F value) { return _mm256_cvtps_epi32(value); }
  // Of magnitudes as integers, which are in the same order; what is no number
  // is above them all and stays.
  static KVASIR_INLINE F MaxAbs(F largest, F value) {
    return _mm256_castsi256_ps(_mm256_max_epi32(
        _mm256_castps_si256(largest),
        _mm256_castps_si256(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), value))));
  }
  static KVASIR_INLINE float LargestLane(F value) {
    const __m256i bits = _mm256_castps_si256(value);
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(bits),
                                 _mm256_extracti128_si256(bits, 1));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    return _mm_cvtss_f32(_mm_castsi128_ps(four));
  }

  static KVASIR_INLINE I Load(const uint8_t* at) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
  }
  static KVASIR_INLINE I LoadU8(const uint8_t* at) {
    return _mm256_cvtepu8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  }
  static KVASIR_INLINE I LoadI8(const uint8_t* at) {
    return _mm256_cvtepi8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
  }
  // Four bytes, in every lane.
  static KVASIR_INLINE I BroadcastI32(const void* at) {
    return _mm256_castps_si256(
        _mm256_broadcast_ss(static_cast<const float*>(at)));
  }
  static KVASIR_INLINE I Bytes(char value) { return _mm256_set1_epi8(value); }
  static KVASIR_INLINE I And(I a, I b) { return _mm256_and_si256(a, b); }
  static KVASIR_INLINE I Or(I a, I b) { return _mm256_or_si256(a, b); }
  static KVASIR_INLINE I Add(I a, I b) { return _mm256_add_epi32(a, b); }
  static KVASIR_INLINE I Sub(I a, I b) { return _mm256_sub_epi32(a, b); }
  static KVASIR_INLINE I MulI32(I a, I b) { return _mm256_mullo_epi32(a, b); }
  // Byte kIndex of each lane, as 32 bits.
  template <int kIndex>
  static KVASIR_INLINE I Byte(I value) {
    return And(_mm256_srli_epi32(value, 8 * kIndex), _mm256_set1_epi32(0xFF));
  }
  template <int kCount>
  static KVASIR_INLINE I ShiftRight16(I value) {
    return Shift16<-kCount>(value);
  }
  // To the left; a negative count to the right. Across the two bytes of 16
  // bits: the caller masks what came from the neighbour.
  template <int kCount>
  static KVASIR_INLINE I Shift16(I value) {
    if constexpr (kCount > 0) return _mm256_slli_epi16(value, kCount);
    if constexpr (kCount < 0) return _mm256_srli_epi16(value, -kCount);
    return value;
  }
  static KVASIR_INLINE void StoreBytes(I value, int8_t* at) {
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(value),
                                          _mm256_extracti128_si256(value, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(at),
                     _mm_packs_epi16(words, words));
  }
  static KVASIR_INLINE int32_t SumLanes(I value) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(value),
                                 _mm256_extracti128_si256(value, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    return _mm_cvtsi128_si32(
        _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1)));
  }

  // maddubs multiplies unsigned by signed bytes and saturates the sum of two
  // products at 16 bits. 8-bit levels therefore go in as magnitude and sign:
  // 128 * 127 * 2 = 32,512 fits.
  template <int kBits>
  struct Weights {
    explicit KVASIR_INLINE Weights(I levels) : magnitude(levels) {
      if constexpr (kBits == 8) {
        sign = _mm256_xor_si256(levels, Bytes(-128));
        magnitude = _mm256_abs_epi8(sign);
      }
    }
    I magnitude;
    I sign;
  };

  // Sums of fewer bits stay in 16 bits for a run of steps:
  // 8 * 2 * 15 * 127, 4 * 2 * 31 * 127 and 2 * 2 * 63 * 127 are all below 2^15.
  template <int kBits>
  class Dot {
   public:
    template <int kOffset>
    KVASIR_INLINE void Start(I negative_sum) {
      if constexpr (kBits == 8) {
        sum_ = _mm256_setzero_si256();
      } else {
        constexpr int kShift = kOffset == 0 ? 0 : __builtin_ctz(kOffset);
        sum_ = kOffset == 0 ? _mm256_setzero_si256()
                            : _mm256_slli_epi32(negative_sum, kShift);
      }
    }
    template <int kStep>
    KVASIR_INLINE void Add(const Weights<kBits>& weights, I activations) {
      if constexpr (kBits == 8) {
        activations = _mm256_sign_epi8(activations, weights.sign);
      }
      const I pairs = _mm256_maddubs_epi16(weights.magnitude, activations);
      run_ = kStep % kRun == 0 ? pairs : _mm256_add_epi16(run_, pairs);
      Keep(run_);
      if constexpr (kStep % kRun == kRun - 1) {
        sum_ = _mm256_add_epi32(sum_,
                                _mm256_madd_epi16(run_, _mm256_set1_epi16(1)));
        Keep(sum_);
      }
    }
    KVASIR_INLINE I Sum() const { return sum_; }

   private:
    static constexpr int kRun = kBits == 8 ? 1 : 128 >> kBits;

    // GCC would reorder the additions to do them last, with all products of a
    // block spilled to the stack until then; it cannot look through this.
    static KVASIR_INLINE void Keep(I& sum) { asm("" : "+x"(sum)); }

    I sum_;
    I run_;
  };
};

}  // namespace
}  // namespace kvasir
HWY_POP_ATTRIBUTES;

namespace kvasir {

const GemmKernels* Avx2GemmKernels() {
  static constexpr GemmKernels kKernels = SimdGemmKernels<Avx2>("AVX2");
  // F16C is older than AVX2: no processor has this without that.
  static const bool kUsable =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return kUsable ? &kKernels : nullptr;
}

}  // namespace kvasir

#else

namespace kvasir {
const GemmKernels* Avx2GemmKernels() { return nullptr; }
}  // namespace kvasir

#endif

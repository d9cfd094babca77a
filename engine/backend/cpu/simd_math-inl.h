// Vector functions of the kernels; re-included once per SIMD target, hence the
// guard that flips.

#if defined(KVASIR_ENGINE_BACKEND_CPU_SIMD_MATH_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef KVASIR_ENGINE_BACKEND_CPU_SIMD_MATH_INL_H_
#undef KVASIR_ENGINE_BACKEND_CPU_SIMD_MATH_INL_H_
#else
#define KVASIR_ENGINE_BACKEND_CPU_SIMD_MATH_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "hwy/highway.h"

#include "engine/backend/cpu/float16.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// e^r for |r| <= ln(2)/2, as 1 + r + r^2 * q(r). The coefficients of q minimise
// the largest relative error of the whole (Remez exchange with 40 digits):
// 3.1e-9, a twentieth of f32's rounding.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpNearZero(D d, V r) {
  V q = hn::Set(d, 0.00138145986467f);
  q = hn::MulAdd(q, r, hn::Set(d, 0.00836871687973f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.0416683880453f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.166665206317f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.499999934478f));
  return hn::MulAdd(hn::MulAdd(q, r, hn::Set(d, 1.0f)), r, hn::Set(d, 1.0f));
}

// value * 2^n for whole n and a normal result: exact, and NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ScaleByPowerOf2(D d, V value, V n) {
  const hn::RebindToSigned<D> di;
  const auto exponent = hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127));
  return hn::Mul(value, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
}

// 2^x for x <= 0, with 0 below 2^-125; NaN for NaN. Largest relative error
// 1.2e-7 (measured over 10^6 points, every target).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp2OfNegative(D d, V x) {
  const V lowest = hn::Set(d, -125.0f);
  const auto vanishes = hn::Lt(x, lowest);
  x = hn::IfThenElse(vanishes, lowest, x);
  const V n = hn::Round(x);
  const V r = hn::Mul(hn::Sub(x, n), hn::Set(d, 0.693147180559945f));
  return hn::IfThenZeroElse(vanishes, ScaleByPowerOf2(d, ExpNearZero(d, r), n));
}

// e^x, with x held within +-87 so that the result is a normal number; NaN for
// NaN. Largest relative error 1.2e-7 (measured likewise).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Exp(D d, V x) {
  const V limit = hn::Set(d, 87.0f);
  x = hn::IfThenElse(hn::Gt(x, limit), limit, x);
  x = hn::IfThenElse(hn::Lt(x, hn::Neg(limit)), hn::Neg(limit), x);
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504088896f)));
  // ln(2) in two parts, the first with so few bits that n times it is exact.
  V r = hn::Sub(x, hn::Mul(n, hn::Set(d, 0.693145751953125f)));
  r = hn::Sub(r, hn::Mul(n, hn::Set(d, 1.428606765330187e-6f)));
  return ScaleByPowerOf2(d, ExpNearZero(d, r), n);
}

// Highway's portable targets do not round when they narrow to f16 and take
// infinity for a number, so those use our own conversions.
#undef KV_PORTABLE_F16
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define KV_PORTABLE_F16 1
#else
#define KV_PORTABLE_F16 0
#endif

// Lanes(d) numbers from memory, as f32.
template <class D>
HWY_INLINE hn::Vec<D> LoadAsF32(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE hn::Vec<D> LoadAsF32(D d, const hwy::float16_t* from) {
#if KV_PORTABLE_F16
  HWY_ALIGN float wide[hn::MaxLanes(D())];
  const uint16_t* bits = reinterpret_cast<const uint16_t*>(from);
  for (size_t i = 0; i < hn::Lanes(d); ++i) wide[i] = FloatFromHalf(bits[i]);
  return hn::Load(d, wide);
#else
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), from));
#endif
}

// Writes Lanes(d) numbers as f16, rounded to the nearest, ties to even.
template <class D>
HWY_INLINE void StoreAsF16(D d, hn::Vec<D> value, uint16_t* to) {
#if KV_PORTABLE_F16
  HWY_ALIGN float wide[hn::MaxLanes(D())];
  hn::Store(value, d, wide);
  for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = HalfFromFloat(wide[i]);
#else
  const hn::Rebind<hwy::float16_t, D> dh;
  hn::StoreU(hn::DemoteTo(dh, value), dh,
             reinterpret_cast<hwy::float16_t*>(to));
#endif
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace HWY_NAMESPACE
}  // namespace kvasir
HWY_AFTER_NAMESPACE();

#endif  // KVASIR_ENGINE_BACKEND_CPU_SIMD_MATH_INL_H_

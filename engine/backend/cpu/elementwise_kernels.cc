#include <algorithm>
#include <cmath>
#include <cstdint>

#include "engine/backend/cpu/elementwise_cpu.h"
#include "engine/backend/cpu/simd_target.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backend/cpu/elementwise_kernels.cc"
#include "hwy/foreach_target.h"
// foreach_target.h must come first: it compiles what follows once per target.
#include "hwy/highway.h"

#include "engine/backend/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kvasir {
namespace HWY_NAMESPACE {
namespace {

using F32 = hn::ScalableTag<float>;
using V32 = hn::Vec<F32>;

// Chains of a sum, the same for all targets.
constexpr int64_t kSumLanes = 32;

// Calls body(pointer, ...) over whole vectors of the arrays, the last time on
// zero-padded copies. `out` may be one of the inputs.
template <class Body>
HWY_INLINE void Map2(const float* a, const float* b, int64_t count, float* out,
                     const Body& body) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(body(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  }
  if (i == count) return;
  HWY_ALIGN float tail_a[hn::MaxLanes(F32())] = {};
  HWY_ALIGN float tail_b[hn::MaxLanes(F32())] = {};
  std::copy(a + i, a + count, tail_a);
  std::copy(b + i, b + count, tail_b);
  hn::Store(body(hn::Load(d, tail_a), hn::Load(d, tail_b)), d, tail_a);
  std::copy(tail_a, tail_a + (count - i), out + i);
}

float SumOfSquares(const float* in, int64_t count) {
  const F32 d;
  constexpr int64_t kVectors = kSumLanes / hn::MaxLanes(F32());
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  V32 sums[kVectors];
  for (V32& sum : sums) sum = hn::Zero(d);
  const auto add = [&](const float* from) {
    for (int64_t v = 0; v < kVectors; ++v) {
      const V32 x = hn::LoadU(d, from + v * lanes);
      sums[v] = hn::MulAdd(x, x, sums[v]);
    }
  };
  int64_t i = 0;
  for (; i + kSumLanes <= count; i += kSumLanes) add(in + i);
  HWY_ALIGN float buffer[kSumLanes] = {};
  if (i < count) {
    std::copy(in + i, in + count, buffer);
    add(buffer);
  }
  for (int64_t v = 0; v < kVectors; ++v) {
    hn::Store(sums[v], d, buffer + v * lanes);
  }
  float total = 0;
  for (float sum : buffer) total += sum;
  return total;
}

void RmsNorm(const float* in, const float* gain, float epsilon, int64_t count,
             float* out) {
  const float mean = SumOfSquares(in, count) / static_cast<float>(count);
  const V32 factor = hn::Set(F32(), 1.0f / std::sqrt(mean + epsilon));
  Map2(in, gain, count, out, [factor](V32 x, V32 g) HWY_ATTR {
    return hn::Mul(hn::Mul(x, factor), g);
  });
}

void Silu(const float* gate, const float* up, int64_t count, float* out) {
  const F32 d;
  Map2(gate, up, count, out, [d](V32 x, V32 u) HWY_ATTR {
    const V32 one = hn::Set(d, 1.0f);
    return hn::Mul(hn::Div(x, hn::Add(one, Exp(d, hn::Neg(x)))), u);
  });
}

void GeluTanh(const float* gate, const float* up, int64_t count, float* out) {
  const F32 d;
  Map2(gate, up, count, out, [d](V32 x, V32 u) HWY_ATTR {
    const V32 one = hn::Set(d, 1.0f);
    constexpr float kLinear = -1.5957691216057308f;  // -2 sqrt(2/pi)
    constexpr float kCubic = 0.044715f * kLinear;
    const V32 linear = hn::Set(d, kLinear);
    const V32 cubic = hn::Set(d, kCubic);
    const V32 minus_z = hn::Mul(x, hn::MulAdd(hn::Mul(x, x), cubic, linear));
    return hn::Mul(hn::Div(x, hn::Add(one, Exp(d, minus_z))), u);
  });
}

void Add(const float* in, int64_t count, float* inout) {
  Map2(in, inout, count, inout,
       [](V32 a, V32 b) HWY_ATTR { return hn::Add(b, a); });
}

void ToF16(const float* in, int64_t count, uint16_t* out) {
  const F32 d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    StoreAsF16(d, hn::LoadU(d, in + i), out + i);
  }
  for (; i < count; ++i) out[i] = HalfFromFloat(in[i]);
}

const ElementwiseKernels* Kernels() {
  static constexpr ElementwiseKernels kKernels = {&RmsNorm, &Silu, &GeluTanh,
                                                  &Add, &ToF16};
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

const ElementwiseKernels& ElementwiseKernelsFor(SimdTarget target) {
  return *KV_SIMD_FUNCTION(Kernels, target)();
}

}  // namespace kvasir
#endif  // HWY_ONCE

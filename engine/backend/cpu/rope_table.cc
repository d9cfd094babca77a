#include "engine/backend/cpu/rope_table.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "engine/backend/backend.h"

namespace kvasir {
namespace {

// Terms 1, r^2, r^4 ... of both series; at |r| <= pi/4 the next one is below
// 5e-17.
constexpr int kTerms = 8;

// sum of (-1)^k r2^k / (first * (first + 1) * ... ) as Taylor's series of cos
// (offset 0) and of sin(r)/r (offset 1) go on.
double Series(double r2, int offset) {
  double sum = 1.0;
  for (int k = kTerms; k > 0; --k) {
    const double factors = (2 * k - 1 + offset) * (2 * k + offset);
    sum = 1.0 - r2 / factors * sum;
  }
  return sum;
}

}  // namespace

SinCos SinCosOf(double angle) {
  // pi/2 = kHigh + kMiddle + kLow, the first two of 33 bits, so that their
  // products with quarters below 2^20 are exact.
  constexpr double kHigh = 0x1.921fb544p+0;
  constexpr double kMiddle = 0x1.0b4611a6p-34;
  constexpr double kLow = 0x1.3198a2e037073p-69;
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  const double quarters = std::floor(angle * kTwoOverPi + 0.5);
  const double r =
      ((angle - quarters * kHigh) - quarters * kMiddle) - quarters * kLow;
  const double sin = r * Series(r * r, 1);
  const double cos = Series(r * r, 0);
  switch (static_cast<int64_t>(quarters) & 3) {
    case 0:
      return {sin, cos};
    case 1:
      return {cos, -sin};
    case 2:
      return {-sin, -cos};
    default:
      return {-cos, sin};
  }
}

RopeTable::Kept& RopeTable::Find(const RopeSpec& rope) {
  for (Kept& kept : kept_) {
    if (kept.magnitude == rope.magnitude &&
        absl::MakeConstSpan(kept.frequencies) == rope.inverse_frequencies) {
      return kept;
    }
  }
  if (kept_.size() < kMaxKept) kept_.emplace_back();
  Kept& kept = kept_[next_victim_];
  next_victim_ = (next_victim_ + 1) % kMaxKept;
  kept.frequencies.assign(rope.inverse_frequencies.begin(),
                          rope.inverse_frequencies.end());
  kept.magnitude = rope.magnitude;
  kept.positions.clear();
  return kept;
}

absl::Span<const float> RopeTable::Rows(
    const RopeSpec& rope, absl::Span<const SequenceRows> sequences) {
  positions_.clear();
  for (const SequenceRows& sequence : sequences) {
    for (int64_t i = 0; i < sequence.row_count; ++i) {
      positions_.push_back(sequence.first_position + i);
    }
  }
  Kept& kept = Find(rope);
  if (kept.positions == positions_) return kept.table;
  kept.positions = positions_;
  const int64_t pairs = rope.rotated_dim / 2;
  kept.table.resize(positions_.size() * rope.rotated_dim);
  float* cosines = kept.table.data();
  for (int64_t position : positions_) {
    for (int64_t pair = 0; pair < pairs; ++pair) {
      const double angle = static_cast<double>(position) *
                           static_cast<double>(rope.inverse_frequencies[pair]);
      const SinCos value = SinCosOf(angle);
      cosines[pair] = static_cast<float>(value.cos * rope.magnitude);
      cosines[pairs + pair] = static_cast<float>(value.sin * rope.magnitude);
    }
    cosines += rope.rotated_dim;
  }
  return kept.table;
}

}  // namespace kvasir

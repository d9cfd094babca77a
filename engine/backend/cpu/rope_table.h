#ifndef KVASIR_ENGINE_BACKEND_CPU_ROPE_TABLE_H_
#define KVASIR_ENGINE_BACKEND_CPU_ROPE_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "engine/backend/backend.h"

namespace kvasir {

struct SinCos {
  double sin;
  double cos;
};

// Sine and cosine of an angle in [0, 2^20] radians, within 1e-15 up to 2^14
// and 1e-14 up to 2^20. Written out, so that its bits do not depend on the
// machine's libm: the angle minus a multiple of pi/2 held in three parts (Cody
// and Waite's reduction), then Taylor's series.
SinCos SinCosOf(double angle);

// Cosines and sines of a step's rows, kept from one layer to the next: all
// layers with the same frequencies turn the same rows by the same angles.
//
// Owned by the CPU backend, its thread. A result is valid until the next call.
class RopeTable {
 public:
  // For each row of the sequences in turn, its cosines and after them its
  // sines, rotated_dim / 2 each, times the magnitude. Angles are taken in f64:
  // at position 8192 a f32 angle would be off by 5e-4.
  absl::Span<const float> Rows(const RopeSpec& rope,
                               absl::Span<const SequenceRows> sequences);

 private:
  // A model has one set of frequencies, or two (local and global layers);
  // models that take turns have more.
  static constexpr size_t kMaxKept = 4;

  struct Kept {
    std::vector<float> frequencies;
    float magnitude = 0;
    std::vector<int64_t> positions;  // of each row
    std::vector<float> table;
  };

  Kept& Find(const RopeSpec& rope);

  std::vector<Kept> kept_;
  size_t next_victim_ = 0;
  std::vector<int64_t> positions_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_BACKEND_CPU_ROPE_TABLE_H_

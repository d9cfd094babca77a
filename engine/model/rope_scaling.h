#ifndef KVASIR_ENGINE_MODEL_ROPE_SCALING_H_
#define KVASIR_ENGINE_MODEL_ROPE_SCALING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "engine/model/model_config.h"

namespace kvasir {

// How a model file says that rotary frequencies are to be changed for contexts
// longer than the base model's. Plain value.
struct RopeScaling {
  // "none", "linear", "yarn". A file that names a factor and no type means
  // linear; with a factor of 1 that is none.
  std::string type = "linear";
  double base = 10000;           // of the unscaled frequencies
  double factor = 1;             // how much longer contexts get
  int64_t original_context = 0;  // yarn: context of the base model
  double attention_factor = 1;   // the magnitude, before yarn raises it
  double extrapolation = 1;      // yarn: weight of the unscaled frequencies
  double beta_fast = 32;         // yarn: turns above which nothing changes
  double beta_slow = 1;          // yarn: turns below which all is scaled
  std::vector<float> divisors;   // llama3: one per pair; empty: all 1
};

// One frequency per pair of `rotated_dim` dimensions.
//
// "linear" divides every frequency by the factor (Chen et al. 2023, position
// interpolation). "yarn" divides the slow ones, keeps the fast ones and blends
// in between, and raises the magnitude by 0.1 ln(factor) (Peng et al. 2023,
// "YaRN", sections 3.2 to 3.4; the blend's bounds rounded outwards as the
// published code does, the magnitude kept where nothing is blended as llama.cpp
// does). Llama 3's scaling comes as divisors that the
// converter put into the file.
//
// UNIMPLEMENTED for another type; INVALID_ARGUMENT for a factor that is not
// positive or a number of divisors other than rotated_dim / 2.
absl::StatusOr<RopeConfig> ResolveRope(const RopeScaling& scaling,
                                       RopeSpec::Pairing pairing,
                                       int32_t rotated_dim);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_ROPE_SCALING_H_

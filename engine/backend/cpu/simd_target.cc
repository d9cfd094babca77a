#include "engine/backend/cpu/simd_target.h"

#include <cstdint>
#include <vector>

namespace kvasir {
namespace {

constexpr int64_t kPortable = HWY_TARGETS & (HWY_SCALAR | HWY_EMU128);
static_assert(kPortable != 0, "every build has portable kernels");

}  // namespace

SimdTarget BestSimdTarget() { return UsableSimdTargets().front(); }

SimdTarget PortableSimdTarget() { return SimdTarget{kPortable}; }

std::vector<SimdTarget> UsableSimdTargets() {
  std::vector<SimdTarget> targets;
  // Highway numbers better targets lower and lists them in that order.
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (target != kPortable) targets.push_back(SimdTarget{target});
  }
  targets.push_back(PortableSimdTarget());
  return targets;
}

const char* SimdTargetName(SimdTarget target) {
  if (target == PortableSimdTarget()) return "scalar";
  return hwy::TargetName(static_cast<int64_t>(target));
}

}  // namespace kvasir

#include "cache/eviction_policy.h"

namespace kvasir {
namespace {

class LruPolicy final : public EvictionPolicy {
 public:
  bool Before(const EvictionCandidate& a,
              const EvictionCandidate& b) const override {
    if (a.last_use != b.last_use) return a.last_use < b.last_use;
    return a.depth > b.depth;
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeLruPolicy() {
  return std::make_unique<LruPolicy>();
}

}  // namespace kvasir

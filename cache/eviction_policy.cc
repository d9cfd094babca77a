#include "cache/eviction_policy.h"

namespace kvasir {
namespace {

class LruPolicy final : public EvictionPolicy {
 public:
  EvictionRank RankOf(const BlockFacts& block, int64_t) const override {
    return static_cast<EvictionRank>(block.last_use);
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeLruPolicy() {
  return std::make_unique<LruPolicy>();
}

}  // namespace kvasir

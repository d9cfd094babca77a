#include "cache/eviction_policy.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/adaptive_policy.h"

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

absl::StatusOr<std::unique_ptr<EvictionPolicy>> EvictionPolicyByName(
    absl::string_view name) {
  if (name == "adaptive") return std::make_unique<AdaptivePolicy>();
  if (name == "lru") return MakeLruPolicy();
  return absl::InvalidArgumentError(
      absl::StrCat("wanted adaptive or lru, found ", name));
}

}  // namespace kvasir

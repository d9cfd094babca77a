#include "tests/bench/trace_replay.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/block_identity.h"
#include "cache/block_pool.h"
#include "cache/block_table.h"
#include "cache/prefix_cache.h"

namespace kvasir::bench {
namespace {

constexpr int32_t kBlockTokens = 1;
constexpr VersionId kVersion(0);

// The policy, told of the capacity in place of the pool, which is larger by the
// room of a running request.
class OfCapacity final : public EvictionPolicy {
 public:
  OfCapacity(std::unique_ptr<EvictionPolicy> policy, int64_t capacity)
      : policy_(std::move(policy)), capacity_(capacity) {}

  void OnResize(int64_t) override { policy_->OnResize(capacity_); }
  void OnHit(const BlockFacts& block, int64_t tick) override {
    policy_->OnHit(block, tick);
  }
  void OnInsert(const BlockFacts& block, int64_t tick) override {
    policy_->OnInsert(block, tick);
  }
  void OnRelease(const BlockFacts& block) override {
    policy_->OnRelease(block);
  }
  void OnRelocate(const BlockFacts& block) override {
    policy_->OnRelocate(block);
  }
  void OnEvict(const BlockFacts& block) override { policy_->OnEvict(block); }
  void OnFlush() override { policy_->OnFlush(); }
  EvictionRank RankOf(const BlockFacts& block, int64_t tick) const override {
    return policy_->RankOf(block, tick);
  }
  bool ranks_change() const override { return policy_->ranks_change(); }
  bool Guards(const BlockFacts& block) const override {
    return policy_->Guards(block);
  }
  bool may_evict_guarded() const override {
    return policy_->may_evict_guarded();
  }
  BlockId TakeUnguarded() override { return policy_->TakeUnguarded(); }

 private:
  const std::unique_ptr<EvictionPolicy> policy_;
  const int64_t capacity_;
};

class Replayer {
 public:
  Replayer(const BlockTrace& trace, int64_t capacity,
           std::unique_ptr<EvictionPolicy> policy)
      : capacity_(capacity),
        pool_(kBlockTokens),
        prefixes_(pool_, kBlockTokens, 64,
                  std::make_unique<OfCapacity>(std::move(policy), capacity)) {
    pool_.Grow(capacity + trace.longest);
  }

  // Returns how many blocks were found.
  int64_t Serve(const std::vector<int32_t>& request) {
    BlockTable table;
    int64_t hits = 0;
    for (const TokenId id : request) {
      BlockIdentity identity{.scope = scope_, .tokens = {&id, 1}};
      if (table.size() > 0) identity.parent = table.ids().back();
      BlockRef block = prefixes_.Find(identity);
      if (block.held()) {
        prefixes_.RecordHit(block.block());
        ++hits;
      } else {
        block = pool_.Grant(kVersion);
        pool_.Fill(block, kBlockTokens);
        prefixes_.Publish(identity, block);
      }
      table.Append(std::move(block));
    }
    prefixes_.Release(std::move(table));
    while (prefixes_.index().size() > capacity_) prefixes_.EvictOne();
    return hits;
  }

 private:
  const int64_t capacity_;
  BlockPool pool_;
  PrefixCache prefixes_;
  const std::shared_ptr<const BlockScope> scope_ =
      std::make_shared<const BlockScope>();
};

}  // namespace

absl::StatusOr<ReplayResult> Replay(const BlockTrace& trace, int64_t capacity,
                                    std::unique_ptr<EvictionPolicy> policy) {
  if (capacity < 1 || capacity > kMaxReplayCapacity) {
    return absl::InvalidArgumentError(absl::StrCat(
        "capacity: wanted 1 to ", kMaxReplayCapacity, ", found ", capacity));
  }
  Replayer replayer(trace, capacity, std::move(policy));
  ReplayResult result = {.references = trace.reference_count};
  for (const std::vector<int32_t>& request : trace.requests) {
    result.hits += replayer.Serve(request);
  }
  return result;
}

}  // namespace kvasir::bench

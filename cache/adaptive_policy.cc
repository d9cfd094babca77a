#include "cache/adaptive_policy.h"

#include <algorithm>
#include <limits>

namespace kvasir {
namespace {

constexpr int64_t kLearnPeriod = 64;  // references from one kind to the next
constexpr int64_t kSamplesPerReference = 1;
// Samples of all kinds that are drawn between two turns of one kind.
constexpr double kSamplesPerRound =
    kLearnPeriod * kSamplesPerReference * ReuseModel::kKinds;
// Multiples of it, taken as fractions, are spread evenly at any length.
constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
constexpr double kPriceWeight = 1e-3;  // of the newest eviction
// References per block of the cache before what was learned is tried.
constexpr double kTrialAfter = 4;
// Shares of references that may be lost, and that must be left to try again.
constexpr double kMostLost = 0.0015;
constexpr double kRetryLost = 0.0005;
// Memory of the comparison and of the model, in references per block.
constexpr double kScoreMemory = 64;
constexpr double kModelMemory = 128;
constexpr double kMinMemory = 1 << 16;

}  // namespace

void AdaptivePolicy::OnResize(int64_t blocks) {
  blocks_ = blocks;
  history_.Resize(blocks);
}

void AdaptivePolicy::OnHit(const BlockFacts& block, int64_t) {
  Refer(block, true);
}

void AdaptivePolicy::OnInsert(const BlockFacts& block, int64_t) {
  history_.LimitRecent(++resident_count_);
  Refer(block, false);
}

void AdaptivePolicy::OnRelease(const BlockFacts& block) {
  ReuseHistory::Entry& entry = history_.Use(block.name);
  entry.last_use = clock_;
  // Tables are released from their end.
  const bool last = block.last_use != last_tick_;
  last_tick_ = block.last_use;
  entry.kind = static_cast<uint8_t>(ReuseModel::KindOf(entry.use_count, last));
}

void AdaptivePolicy::OnEvict(const BlockFacts& block) {
  ++evictions_;
  resident_count_ = std::max<int64_t>(resident_count_ - 1, 0);
  history_.LimitRecent(resident_count_);
  const ReuseHistory::Entry* entry = history_.Find(block.name);
  if (entry == nullptr) return;
  const double worth = WorthOf(*entry);
  price_ += (worth - price_) * (price_ == 0 ? 1 : kPriceWeight);
}

void AdaptivePolicy::OnFlush() {
  resident_count_ = 0;
  history_.LimitRecent(0);
}

EvictionRank AdaptivePolicy::RankOf(const BlockFacts& block, int64_t) const {
  const ReuseHistory::Entry* entry = history_.Find(block.name);
  if (entry == nullptr) return std::numeric_limits<EvictionRank>::lowest();
  if (!learned_) return static_cast<EvictionRank>(entry->last_use);
  return static_cast<EvictionRank>(clock_) - 1 / WorthOf(*entry);
}

void AdaptivePolicy::Refer(const BlockFacts& block, bool hit) {
  ++clock_;
  const ReuseHistory::Entry* known = history_.Find(block.name);
  const bool simulated_hit = known != nullptr && known->recent;
  if (known != nullptr && known->use_count > 0) {
    model_.CountReuse(known->kind, clock_ - known->last_use);
  }
  if (history_.size() >= history_.max_size() && known == nullptr) {
    const ReuseHistory::Entry& oldest = history_.oldest();
    model_.CountLoss(oldest.kind, clock_ - oldest.last_use);
  }
  ReuseHistory::Entry& entry = history_.Use(block.name);
  if (entry.use_count < std::numeric_limits<uint16_t>::max()) ++entry.use_count;
  entry.last_use = clock_;
  entry.kind = static_cast<uint8_t>(ReuseModel::KindOf(entry.use_count, false));
  Sample();
  ChooseSide(hit, simulated_hit);
}

void AdaptivePolicy::Sample() {
  for (int64_t i = 0; i < kSamplesPerReference; ++i) {
    next_sample_ += kGoldenRatio;
    const ReuseHistory::Entry& entry = history_.At(static_cast<int64_t>(
        (next_sample_ >> 32) * static_cast<uint64_t>(history_.size()) >> 32));
    model_.CountWaiting(entry.kind, clock_ - entry.last_use);
  }
  if (clock_ % kLearnPeriod == 0) {
    model_.LearnNext(static_cast<double>(history_.size()) / kSamplesPerRound,
                     price_);
  }
  if (++counted_ > std::max(kModelMemory * blocks_, kMinMemory)) {
    model_.Fade();
    counted_ /= 2;
  }
}

void AdaptivePolicy::ChooseSide(bool hit, bool simulated_hit) {
  lead_ += (hit ? 1 : 0) - (simulated_hit ? 1 : 0);
  ++weight_;
  if (weight_ > std::max(kScoreMemory * blocks_, kMinMemory)) {
    weight_ /= 2;
    lead_ /= 2;
  }
  if (learned_) {
    learned_ = lead_ >= -kMostLost * weight_;
  } else {
    learned_ = evictions_ > 0 && clock_ >= kTrialAfter * blocks_ &&
               clock_ >= kLearnPeriod * ReuseModel::kKinds * 2 &&
               lead_ >= -kRetryLost * weight_;
  }
}

double AdaptivePolicy::WorthOf(const ReuseHistory::Entry& entry) const {
  return model_.Worth(entry.kind, clock_ - entry.last_use);
}

}  // namespace kvasir

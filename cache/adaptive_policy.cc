#include "cache/adaptive_policy.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace kvasir {
namespace {

constexpr int64_t kLearnPeriod = 32;  // references from one kind to the next
// References in which each kind had its turn; one sample is drawn at each.
constexpr int64_t kRound = kLearnPeriod * ReuseModel::kKinds;
// Multiples of it, taken as fractions, are spread evenly at any length.
constexpr uint64_t kGoldenRatio = 0x9e3779b97f4a7c15;
constexpr double kPriceWeight = 1e-3;  // of the newest eviction
// The share grows so much slower where what was learned does not pay.
constexpr double kCaution = 4;
// Most credit per block of the cache: more can never be missing, and what was
// earned long ago must not pay for a long time of losses.
constexpr double kMostCredit = 1;
// Memory of gains, losses and the model, in references per block.
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
  ReuseHistory::Entry& entry = history_.Use(block).entry;
  entry.last_use = clock_;
  // Tables are released from their end.
  const bool last = block.last_use != last_tick_;
  last_tick_ = block.last_use;
  entry.kind = static_cast<uint8_t>(ReuseModel::KindOf(entry.use_count, last));
}

void AdaptivePolicy::OnRelocate(const BlockFacts& block) {
  history_.Relocate(block);
}

void AdaptivePolicy::OnEvict(const BlockFacts& block) {
  const bool chosen = std::exchange(chooses_, false) && may_evict_guarded();
  if (const ReuseHistory::Entry* entry = history_.Find(block)) {
    const double worth = model_.Worth(entry->kind, clock_ - entry->last_use);
    price_ += (worth - price_) * (price_ == 0 ? 1 : kPriceWeight);
  }
  history_.Evict(block, !chosen);
  resident_count_ = std::max<int64_t>(resident_count_ - 1, 0);
  history_.LimitRecent(resident_count_);
}

void AdaptivePolicy::OnFlush() {
  resident_count_ = 0;
  history_.EvictAll();
}

EvictionRank AdaptivePolicy::RankOf(const BlockFacts& block, int64_t) const {
  const ReuseHistory::Entry* entry = history_.Find(block);
  if (entry == nullptr) return std::numeric_limits<EvictionRank>::lowest();
  return static_cast<EvictionRank>(clock_) -
         1 / model_.Worth(entry->kind, clock_ - entry->last_use);
}

bool AdaptivePolicy::Guards(const BlockFacts& block) const {
  const ReuseHistory::Entry* entry = history_.Find(block);
  return entry != nullptr && entry->recent;
}

bool AdaptivePolicy::may_evict_guarded() const {
  return clock_ >= 2 * kRound &&
         static_cast<double>(history_.missing_count() + 1) <= credit_;
}

BlockId AdaptivePolicy::TakeUnguarded() {
  chooses_ = true;
  // Where both caches hold the same, they have to evict the same.
  const int64_t held = history_.recent_count() - history_.missing_count();
  if (held > 0 && held >= resident_count_) {
    history_.LimitRecent(history_.recent_count() - 1);
    const BlockId oldest = history_.TakeStale();
    history_.LimitRecent(resident_count_);
    return oldest;
  }
  return history_.TakeStale();
}

void AdaptivePolicy::Refer(const BlockFacts& block, bool hit) {
  ++clock_;
  const ReuseHistory::Used used = history_.Use(block);
  ReuseHistory::Entry& entry = used.entry;
  if (entry.use_count > 0) {
    model_.CountReuse(entry.kind, clock_ - entry.last_use);
  }
  if (used.forgotten.has_value()) {
    model_.CountLoss(used.forgotten->kind, clock_ - used.forgotten->last_use);
  }
  if (entry.use_count < std::numeric_limits<uint16_t>::max()) ++entry.use_count;
  entry.last_use = clock_;
  entry.kind = static_cast<uint8_t>(ReuseModel::KindOf(entry.use_count, false));
  Sample();
  Settle(hit, used.was_recent);
}

void AdaptivePolicy::Sample() {
  if (sample_ < history_.size()) {
    const ReuseHistory::Entry& entry = history_.At(sample_);
    model_.CountWaiting(entry.kind, clock_ - entry.last_use);
  }
  // The next one is fetched meanwhile: it is seldom in the processor's cache.
  next_sample_ += kGoldenRatio;
  sample_ = static_cast<int64_t>(
      (next_sample_ >> 32) * static_cast<uint64_t>(history_.size()) >> 32);
  __builtin_prefetch(&history_.At(sample_));
  if (clock_ % kLearnPeriod == 0) Learn();
}

void AdaptivePolicy::Learn() {
  model_.LearnNext(static_cast<double>(history_.size()) / kRound, price_);
  counted_ += kLearnPeriod;
  const double blocks = static_cast<double>(blocks_);
  if (counted_ > std::max(kModelMemory * blocks, kMinMemory)) {
    model_.Fade();
    counted_ /= 2;
  }
}

void AdaptivePolicy::Settle(bool hit, bool simulated_hit) {
  const double blocks = static_cast<double>(blocks_);
  const double fade = 1 / std::max(kScoreMemory * blocks, kMinMemory);
  gained_ += (hit && !simulated_hit ? 1 : 0) - gained_ * fade;
  lost_ += (simulated_hit && !hit ? 1 : 0) - lost_ * fade;
  credit_ += (hit ? 1 : 0) - (simulated_hit ? 1 : 0);
  credit_ += gained_ >= lost_ ? kLossShare : kLossShare / kCaution;
  credit_ = std::min(credit_, kMostCredit * blocks);
}

}  // namespace kvasir

#include "tests/bench/replay_policies.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kvasir::bench {
namespace {

// Orders by last use what is equal otherwise; far more than ticks there are.
constexpr double kTicks = 1e9;

class Lfu final : public EvictionPolicy {
 public:
  void OnHit(const BlockFacts& block, int64_t) override { ++uses_[block.name]; }
  void OnInsert(const BlockFacts& block, int64_t) override {
    ++uses_[block.name];
  }
  EvictionRank RankOf(const BlockFacts& block, int64_t) const override {
    return static_cast<double>(uses_.at(block.name)) * kTicks +
           static_cast<double>(block.last_use);
  }

 private:
  absl::flat_hash_map<BlockName, int64_t> uses_;
};

class Gdsf final : public EvictionPolicy {
 public:
  void OnHit(const BlockFacts& block, int64_t) override { Use(block.name); }
  void OnInsert(const BlockFacts& block, int64_t) override { Use(block.name); }
  void OnEvict(const BlockFacts& block) override {
    floor_ = std::max(floor_, blocks_.at(block.name).value);
  }
  EvictionRank RankOf(const BlockFacts& block, int64_t) const override {
    return blocks_.at(block.name).value * kTicks +
           static_cast<double>(block.last_use);
  }

 private:
  struct Block {
    double uses = 0;
    double value = 0;
  };
  void Use(BlockName name) {
    Block& block = blocks_[name];
    block.value = floor_ + ++block.uses;
  }

  double floor_ = 0;
  absl::flat_hash_map<BlockName, Block> blocks_;
};

class Slru final : public EvictionPolicy {
 public:
  static constexpr double kProtectedShare = 0.8;

  void OnResize(int64_t blocks) override {
    limit_ =
        static_cast<int64_t>(kProtectedShare * static_cast<double>(blocks));
  }
  void OnHit(const BlockFacts& block, int64_t) override {
    Block& hit = blocks_[block.name];
    protected_count_ += hit.is_protected ? 0 : 1;
    hit = {.is_protected = true, .stamp = ++clock_};
    promotions_.push_back({block.name, clock_});
    while (protected_count_ > limit_) Demote();
  }
  void OnInsert(const BlockFacts& block, int64_t) override {
    blocks_[block.name].stamp = ++clock_;
  }
  void OnEvict(const BlockFacts& block) override {
    protected_count_ -= blocks_[block.name].is_protected ? 1 : 0;
    blocks_.erase(block.name);
  }
  EvictionRank RankOf(const BlockFacts& block, int64_t) const override {
    const Block& known = blocks_.at(block.name);
    return (known.is_protected ? kTicks : 0) + static_cast<double>(known.stamp);
  }
  bool ranks_change() const override { return true; }

 private:
  struct Block {
    bool is_protected = false;
    int64_t stamp = 0;
  };
  // The block that has been protected longest starts anew as unprotected.
  void Demote() {
    const auto [name, stamp] = promotions_.front();
    promotions_.pop_front();
    const auto found = blocks_.find(name);
    if (found == blocks_.end() || found->second.stamp != stamp) return;
    found->second = {.is_protected = false, .stamp = ++clock_};
    --protected_count_;
  }

  int64_t limit_ = 0;
  int64_t clock_ = 0;
  int64_t protected_count_ = 0;
  absl::flat_hash_map<BlockName, Block> blocks_;
  std::deque<std::pair<BlockName, int64_t>> promotions_;
};

class Belady final : public EvictionPolicy {
 public:
  explicit Belady(const BlockTrace& trace)
      : trace_(trace), uses_(trace.parents.size()) {
    for (size_t tick = 0; tick < trace.requests.size(); ++tick) {
      for (const int32_t id : trace.requests[tick]) {
        uses_[id].push_back(static_cast<int64_t>(tick));
      }
    }
  }
  void OnHit(const BlockFacts& block, int64_t tick) override {
    Use(block.name, tick);
  }
  void OnInsert(const BlockFacts& block, int64_t tick) override {
    Use(block.name, tick);
  }
  EvictionRank RankOf(const BlockFacts& block, int64_t tick) const override {
    const std::vector<int64_t>& uses = uses_[ids_.at(block.name)];
    // `tick` counts the request that has just ended.
    const auto next = std::lower_bound(uses.begin(), uses.end(), tick);
    return next == uses.end() ? -kTicks : -static_cast<double>(*next);
  }

 private:
  void Use(BlockName name, int64_t tick) {
    if (tick != tick_) place_ = 0;
    tick_ = tick;
    ids_[name] = trace_.requests[tick][place_++];
  }

  const BlockTrace& trace_;
  std::vector<std::vector<int64_t>> uses_;  // ticks, by trace id
  absl::flat_hash_map<BlockName, int32_t> ids_;
  int64_t tick_ = -1;
  size_t place_ = 0;  // in the request of tick_
};

}  // namespace

absl::StatusOr<std::unique_ptr<EvictionPolicy>> MakeReplayPolicy(
    absl::string_view name, const BlockTrace& trace) {
  if (name == "lfu") return std::make_unique<Lfu>();
  if (name == "slru") return std::make_unique<Slru>();
  if (name == "gdsf") return std::make_unique<Gdsf>();
  if (name == "belady") return std::make_unique<Belady>(trace);
  if (auto known = EvictionPolicyByName(name); known.ok()) return known;
  return absl::InvalidArgumentError(
      absl::StrCat("policy: wanted one of ",
                   absl::StrJoin(kReplayPolicies, ", "), ", found ", name));
}

}  // namespace kvasir::bench

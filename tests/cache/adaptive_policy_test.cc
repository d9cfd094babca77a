#include "cache/adaptive_policy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

// A cache of single blocks: evicts the smallest rank of all, asked anew each
// time. The naive twin of what PrefixCache does with a policy.
class NaiveCache {
 public:
  NaiveCache(EvictionPolicy& policy, int64_t capacity)
      : policy_(policy), capacity_(capacity) {
    policy_.OnResize(capacity);
  }

  void Request(BlockName name) {
    const auto found = blocks_.find(name);
    if (found != blocks_.end()) {
      ++hits_;
      ++found->second.hit_count;
      policy_.OnHit(found->second, tick_);
    } else {
      BlockFacts& facts = blocks_[name];
      facts.name = name;
      policy_.OnInsert(facts, tick_);
    }
    BlockFacts& facts = blocks_[name];
    facts.last_use = ++tick_;
    policy_.OnRelease(facts);
    if (static_cast<int64_t>(blocks_.size()) > capacity_) Evict();
  }

  int64_t hits() const { return hits_; }
  const std::vector<BlockName>& evicted() const { return evicted_; }

 private:
  void Evict() {
    const auto first = std::min_element(
        blocks_.begin(), blocks_.end(), [&](const auto& a, const auto& b) {
          const EvictionRank rank_a = policy_.RankOf(a.second, tick_);
          const EvictionRank rank_b = policy_.RankOf(b.second, tick_);
          if (rank_a != rank_b) return rank_a < rank_b;
          return a.second.last_use < b.second.last_use;
        });
    evicted_.push_back(first->first);
    policy_.OnEvict(first->second);
    blocks_.erase(first);
  }

  EvictionPolicy& policy_;
  const int64_t capacity_;
  int64_t tick_ = 0;
  int64_t hits_ = 0;
  std::unordered_map<BlockName, BlockFacts> blocks_;
  std::vector<BlockName> evicted_;
};

using Trace = std::vector<BlockName>;

int64_t Hits(EvictionPolicy& policy, const Trace& trace, int64_t capacity) {
  NaiveCache cache(policy, capacity);
  for (const BlockName name : trace) cache.Request(name);
  return cache.hits();
}

Trace Loop(int64_t names, int64_t length) {
  Trace trace;
  for (int64_t i = 0; i < length; ++i) trace.push_back(1 + i % names);
  return trace;
}

// Each reference goes a short, random way back in the order of last use, which
// is what the least recently used first is best at.
Trace Recency(unsigned seed, int64_t length) {
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  Trace stack;
  Trace trace;
  BlockName next = 1;
  for (int64_t i = 0; i < length; ++i) {
    // The smallest of three is small more often.
    const size_t back =
        std::min({random() % 120, random() % 120, random() % 120});
    BlockName name = next;
    if (random() % 8 == 0 || back >= stack.size()) {
      ++next;
    } else {
      name = stack[stack.size() - 1 - back];
      stack.erase(stack.end() - 1 - static_cast<int64_t>(back));
    }
    stack.push_back(name);
    trace.push_back(name);
  }
  return trace;
}

TEST(AdaptivePolicyTest, KeepsPartOfALoopThatDoesNotFit) {
  // The least recently used is always what comes next: it hits nothing.
  const Trace trace = Loop(100, 30'000);
  AdaptivePolicy policy;
  EXPECT_EQ(Hits(*MakeLruPolicy(), trace, 60), 0);
  EXPECT_GT(Hits(policy, trace, 60), 30'000 / 4);
  EXPECT_TRUE(policy.learned());
}

TEST(AdaptivePolicyTest, KeepsWhatReturnsFromAFloodOfWhatDoesNot) {
  // One-off prompts outnumber the shared ones and push them out of an LRU.
  std::mt19937 random(5);
  Trace trace;
  for (BlockName once = 1000; once < 31'000; ++once) {
    trace.push_back(once);
    if (once % 4 == 0) trace.push_back(1 + random() % 40);
  }
  AdaptivePolicy policy;
  EXPECT_GT(Hits(policy, trace, 50), 3 * Hits(*MakeLruPolicy(), trace, 50));
}

TEST(AdaptivePolicyTest, IsNeverMuchWorseThanTheLeastRecentlyUsed) {
  // Where nothing can be gained, trying must cost next to nothing.
  for (const unsigned seed : {1u, 2u, 3u}) {
    const Trace trace = Recency(seed, 30'000);
    for (const int64_t capacity : {10, 40, 90}) {
      AdaptivePolicy policy;
      EXPECT_GE(Hits(policy, trace, capacity),
                Hits(*MakeLruPolicy(), trace, capacity) - 90)
          << "more than 0.3 % lost at " << capacity;
    }
  }
}

TEST(AdaptivePolicyTest, BeginsAsLeastRecentlyUsed) {
  // A model that has seen nothing must not decide anything.
  const Trace trace = Recency(4, 1500);
  AdaptivePolicy policy;
  NaiveCache cache(policy, 20);
  const auto lru = MakeLruPolicy();
  NaiveCache twin(*lru, 20);
  for (const BlockName name : trace) {
    cache.Request(name);
    twin.Request(name);
  }
  EXPECT_FALSE(policy.learned());
  EXPECT_GT(twin.evicted().size(), 100u);
  EXPECT_EQ(cache.evicted(), twin.evicted());
}

TEST(AdaptivePolicyTest, TheSameEventsGiveTheSameEvictions) {
  // A replayed trace has to evict alike, in every process.
  Trace trace = Recency(6, 10'000);
  const Trace loop = Loop(100, 10'000);
  trace.insert(trace.end(), loop.begin(), loop.end());
  AdaptivePolicy policy;
  AdaptivePolicy again;
  NaiveCache cache(policy, 50);
  NaiveCache twin(again, 50);
  for (const BlockName name : trace) {
    cache.Request(name);
    twin.Request(name);
  }
  EXPECT_EQ(cache.evicted(), twin.evicted());
}

TEST(AdaptivePolicyTest, MemoryIsBoundedWhateverComes) {
  // Millions of one-off blocks pass through a cache of a few.
  AdaptivePolicy policy;
  NaiveCache cache(policy, 4);
  for (BlockName name = 1; name < 150'000; ++name) cache.Request(name);
  EXPECT_EQ(policy.history().size(), ReuseHistory::kMinEntries);
  EXPECT_LE(policy.history().recent_count(), 4);
}

TEST(AdaptivePolicyTest, SurvivesEventsThatDoNotFitTogether) {
  // Names can collide and a block can outlive what is known of its name.
  AdaptivePolicy policy;
  std::mt19937 random(8);
  BlockFacts facts;
  for (int i = 0; i < 20'000; ++i) {
    facts.name = random() % 30;
    facts.last_use = i / 3;
    switch (random() % 6) {
      case 0:
        policy.OnHit(facts, i);
        break;
      case 1:
        policy.OnInsert(facts, i);
        break;
      case 2:
        policy.OnRelease(facts);
        break;
      case 3:
        policy.OnEvict(facts);
        break;
      case 4:
        policy.OnResize(static_cast<int64_t>(random() % 40));
        break;
      default:
        if (random() % 100 == 0) policy.OnFlush();
    }
    ASSERT_TRUE(std::isfinite(policy.RankOf(facts, i)));
  }
}

}  // namespace
}  // namespace kvasir

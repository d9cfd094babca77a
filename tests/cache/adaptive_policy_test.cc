#include "cache/adaptive_policy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <iostream>
#include <memory>
#include <random>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

// A cache of single blocks: evicts the first of all, asked anew each time. The
// naive twin of what PrefixCache does with a policy.
class NaiveCache {
 public:
  NaiveCache(EvictionPolicy& policy, int64_t capacity)
      : policy_(policy), capacity_(capacity) {
    policy_.OnResize(capacity);
    for (int id = static_cast<int>(capacity); id >= 0; --id) {
      free_.push_back(BlockId(id));
    }
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
      facts.block = free_.back();
      free_.pop_back();
      policy_.OnInsert(facts, tick_);
    }
    BlockFacts& facts = blocks_[name];
    facts.last_use = ++tick_;
    policy_.OnRelease(facts);
    if (static_cast<int64_t>(blocks_.size()) > capacity_) Evict();
  }

  int64_t hits() const { return hits_; }
  bool Holds(BlockName name) const { return blocks_.contains(name); }
  const std::vector<BlockName>& evicted() const { return evicted_; }

 private:
  void Evict() {
    while (policy_.TakeUnguarded().valid()) {
    }
    const auto place = [&](const BlockFacts& facts) {
      const bool waits = policy_.Guards(facts) && !policy_.may_evict_guarded();
      return std::tuple(waits, policy_.RankOf(facts, tick_), facts.last_use);
    };
    const auto first = std::min_element(
        blocks_.begin(), blocks_.end(), [&](const auto& a, const auto& b) {
          return place(a.second) < place(b.second);
        });
    evicted_.push_back(first->first);
    free_.push_back(first->second.block);
    policy_.OnEvict(first->second);
    blocks_.erase(first);
  }

  EvictionPolicy& policy_;
  const int64_t capacity_;
  int64_t tick_ = 0;
  int64_t hits_ = 0;
  std::unordered_map<BlockName, BlockFacts> blocks_;
  std::vector<BlockId> free_;
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
  // What it gained lets it deviate as far as it likes.
  EXPECT_GT(policy.credit(), 30);
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

// Requests chosen by one who sees both caches and wants the policy to lose.
class Adversary {
 public:
  Adversary(unsigned seed, int64_t capacity)
      : random_(seed),
        capacity_(capacity),
        cache_(policy_, capacity),
        lru_(*least_recent_, capacity) {}

  // At first the policy learns that `habits` come back, or that nothing does.
  void Teach(int64_t references, int64_t habits) {
    for (int64_t i = 0; i < references; ++i) {
      Request(habits > 0 && random_() % 2 == 0 ? 1 + random_() % habits
                                               : next_++);
    }
  }

  // From then on it asks for what only the other one has, while there is any,
  // most of the time: a policy that recovers can be hurt again.
  void Hurt(int64_t references) {
    for (int64_t i = 0; i < references; ++i) {
      BlockName name = next_;
      if (random_() % 8 != 0) {
        for (const BlockName recent : recent_) {
          if (lru_.Holds(recent) && !cache_.Holds(recent)) name = recent;
        }
      }
      next_ += name == next_ ? 1 : 0;
      Request(name);
    }
  }

  // Hits fewer than the least recently used at the worst moment, as a share.
  double worst() const { return worst_; }
  double loss() const {
    return static_cast<double>(lru_.hits() - cache_.hits()) /
           static_cast<double>(references_);
  }

 private:
  void Request(BlockName name) {
    cache_.Request(name);
    lru_.Request(name);
    ++references_;
    worst_ = std::max(worst_, loss());
    std::erase(recent_, name);
    recent_.push_back(name);
    if (static_cast<int64_t>(recent_.size()) > capacity_) recent_.pop_front();
  }

  std::mt19937 random_;
  const int64_t capacity_;
  AdaptivePolicy policy_;
  const std::unique_ptr<EvictionPolicy> least_recent_ = MakeLruPolicy();
  NaiveCache cache_;
  NaiveCache lru_;
  BlockName next_ = 1000;
  std::deque<BlockName> recent_;
  int64_t references_ = 0;
  double worst_ = 0;
};

TEST(AdaptivePolicyTest, KeepsItsBoundAgainstOneWhoWantsItToLose) {
  // What it has given up must never be worth more than it can pay: neither
  // after a flood that taught it to keep nothing, nor early, nor ever after.
  for (const unsigned seed : {1u, 2u, 3u, 4u}) {
    std::cout << "seed " << seed << "\n";
    for (const int64_t habits : {0, 20, 200}) {
      Adversary adversary(seed, 30);
      adversary.Teach(500 << seed, habits);
      adversary.Hurt(3000);
      adversary.Teach(2000, 20);
      adversary.Hurt(3000);
      EXPECT_LE(adversary.worst(), AdaptivePolicy::kLossShare);
    }
  }
}

TEST(AdaptivePolicyTest, KeepsItsBoundAtEveryMomentOfEveryPhase) {
  // What is learned in one phase is wrong in the next.
  for (const unsigned seed : {1u, 2u, 3u}) {
    for (const int64_t capacity : {10, 40, 90}) {
      Trace trace = Recency(seed, 6000);
      for (const int64_t names : {150, 35, 80}) {
        const Trace loop = Loop(names, 4000);
        const Trace recency = Recency(seed, 4000);
        trace.insert(trace.end(), loop.begin(), loop.end());
        trace.insert(trace.end(), recency.begin(), recency.end());
      }
      AdaptivePolicy policy;
      const auto lru = MakeLruPolicy();
      NaiveCache cache(policy, capacity);
      NaiveCache twin(*lru, capacity);
      double references = 0;
      for (const BlockName name : trace) {
        cache.Request(name);
        twin.Request(name);
        ++references;
        ASSERT_GE(static_cast<double>(cache.hits() - twin.hits()),
                  -AdaptivePolicy::kLossShare * references);
        // Why it holds: each later loss is one of these.
        ASSERT_LE(static_cast<double>(policy.missing_count()),
                  static_cast<double>(cache.hits() - twin.hits()) +
                      AdaptivePolicy::kLossShare * references);
      }
    }
  }
}

TEST(AdaptivePolicyTest, WhatOthersEvictIsNoLossOfItsOwn) {
  // Or a version that goes would use up what the policy may try.
  AdaptivePolicy policy;
  policy.OnResize(100);
  BlockFacts facts;
  for (int id = 0; id < 50; ++id) {
    facts.block = BlockId(id);
    facts.name = static_cast<BlockName>(id) + 1;
    policy.OnInsert(facts, id);
  }
  policy.OnEvict(facts);
  EXPECT_EQ(policy.missing_count(), 0);
  const double credit = policy.credit();
  policy.OnInsert(facts, 50);
  EXPECT_GE(policy.credit(), credit);
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
    facts.block = BlockId(static_cast<int>(random() % 20) - 1);
    facts.last_use = i / 3;
    switch (random() % 8) {
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
        policy.OnRelocate(facts);
        break;
      case 5:
        (void)policy.TakeUnguarded();
        break;
      case 6:
        policy.OnResize(static_cast<int64_t>(random() % 40));
        break;
      default:
        if (random() % 100 == 0) policy.OnFlush();
    }
    ASSERT_TRUE(std::isfinite(policy.RankOf(facts, i)));
    ASSERT_GE(policy.missing_count(), 0);
    ASSERT_LE(policy.missing_count(), policy.history().recent_count());
  }
}

}  // namespace
}  // namespace kvasir

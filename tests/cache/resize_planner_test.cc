#include "cache/resize_planner.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

constexpr int64_t kMebi = int64_t{1} << 20;
constexpr int64_t kGibi = int64_t{1} << 30;

TEST(CacheBudgetTest, EveryByteOfTheLimitHasAName) {
  const CacheBudget budget = BudgetFor({.limit = 1024 * kMebi,
                                        .used = 700 * kMebi,
                                        .weights = 100 * kMebi,
                                        .cache_resident = 450 * kMebi});
  EXPECT_EQ(budget.weights, 100 * kMebi);
  EXPECT_EQ(budget.others, 150 * kMebi) << "700 less weights and cache";
  EXPECT_EQ(budget.reserve, 64 * kMebi);
  EXPECT_EQ(budget.left, 710 * kMebi);
  EXPECT_EQ(budget.weights + budget.others + budget.reserve + budget.left,
            budget.limit);
}

TEST(CacheBudgetTest, WhatNobodyCountsIsAtLeastTheWeights) {
  const CacheBudget budget =
      BudgetFor({.limit = kGibi, .used = 0, .weights = 300 * kMebi});
  EXPECT_EQ(budget.others, 0);
  EXPECT_EQ(budget.left, 660 * kMebi);
}

TEST(CacheBudgetTest, TheReserveHasBounds) {
  EXPECT_EQ(BudgetFor({.limit = 100 * kMebi}).reserve, kMinReserveBytes);
  EXPECT_EQ(BudgetFor({.limit = 512 * kGibi}).reserve, kMaxReserveBytes);
  EXPECT_EQ(BudgetFor({.limit = 8 * kGibi}).reserve, 512 * kMebi);
  EXPECT_LT(BudgetFor({.limit = 100 * kMebi, .weights = 90 * kMebi}).left, 0)
      << "too much already is told as such";
}

TEST(CacheWithinTest, WholeBlocksWithTheirBookkeeping) {
  EXPECT_EQ(CacheWithin(100 * 1536, 1, 1024), 100 * 1024)
      << "512 bytes a block are not the cache's";
  EXPECT_EQ(CacheWithin(100 * 1536 - 1, 1, 1024), 99 * 1024);
  EXPECT_EQ(CacheWithin(100 * 1536, 0.5, 1024), 50 * 1024);
  EXPECT_EQ(CacheWithin(1535, 1, 1024), 0);
  EXPECT_EQ(CacheWithin(-kGibi, 1, 1024), 0);
}

// A cache of 1,000 MiB in blocks of 1 MiB, with all well: 1,100 MiB left and a
// reserve of 100 MiB.
SizingView AllWell() {
  SizingView view;
  view.left = 1100 * kMebi;
  view.reserve = 100 * kMebi;
  view.room = 1000 * kMebi;
  view.cache = 1000 * kMebi;
  view.resident = 900 * kMebi;
  view.held = 200 * kMebi;
  view.floor = 125 * kMebi;
  view.ceiling = 1000 * kMebi;
  view.block_bytes = kMebi;
  view.since_change = absl::Hours(1);
  view.calm = absl::Hours(1);
  return view;
}

void ExpectPlan(const SizingView& view, int64_t mebi, ResizeCause cause) {
  const SizingDecision decision = PlanCacheSize(view);
  EXPECT_EQ(decision.target, mebi * kMebi);
  EXPECT_EQ(static_cast<int>(decision.cause), static_cast<int>(cause));
}

TEST(PlanCacheSizeTest, NothingHappensWhereAllIsWell) {
  ExpectPlan(AllWell(), 1000, ResizeCause::kNone);
}

// A wobble must cost nothing: a quarter of the reserve may go before it acts.
TEST(PlanCacheSizeTest, ShrinksOnlyWhenAQuarterOfTheReserveIsGone) {
  SizingView view = AllWell();
  view.left = 975 * kMebi;
  ExpectPlan(view, 1000, ResizeCause::kNone);
  view.left = 975 * kMebi - 1;
  ExpectPlan(view, 974, ResizeCause::kLimit);
  view.since_change = kSettleTime - absl::Milliseconds(1);
  ExpectPlan(view, 1000, ResizeCause::kNone);
}

TEST(PlanCacheSizeTest, NeverBelowTheFloorNorWhatRequestsHold) {
  SizingView view = AllWell();
  view.left = -5 * kGibi;
  ExpectPlan(view, 200, ResizeCause::kLimit);
  view.held = 0;
  ExpectPlan(view, 125, ResizeCause::kLimit);
  view.floor = 0;
  ExpectPlan(view, 1, ResizeCause::kLimit);
  view.floor = 2000 * kMebi;
  ExpectPlan(view, 1000, ResizeCause::kNone);
  view.floor = 124 * kMebi + 1;
  ExpectPlan(view, 125, ResizeCause::kLimit);
}

TEST(PlanCacheSizeTest, StallsTakeAStepOfWhatWasTouched) {
  SizingView view = AllWell();
  view.some_stalled = kSomeStalledLimit;
  ExpectPlan(view, 775, ResizeCause::kPressure);
  view.some_stalled = kSomeStalledLimit - 0.001;
  ExpectPlan(view, 1000, ResizeCause::kNone);
  view.all_stalled = kAllStalledLimit;
  ExpectPlan(view, 775, ResizeCause::kPressure);
  // Pages that nobody touched relieve nobody; but not all at once.
  view.resident = 10 * kMebi;
  ExpectPlan(view, 500, ResizeCause::kPressure);
  view.since_change = kStallSettleTime - absl::Milliseconds(1);
  ExpectPlan(view, 1000, ResizeCause::kNone);
}

TEST(PlanCacheSizeTest, GrowsAStepAfterCalm) {
  SizingView view = AllWell();
  view.cache = view.resident = 400 * kMebi;
  ExpectPlan(view, 450, ResizeCause::kRoom);
  view.calm = kCalmTime - absl::Milliseconds(1);
  ExpectPlan(view, 400, ResizeCause::kNone);
  view.calm_needed = view.calm;
  ExpectPlan(view, 450, ResizeCause::kRoom);
  view.some_stalled = kCalmStalled * 1.01;
  ExpectPlan(view, 400, ResizeCause::kNone);
}

TEST(PlanCacheSizeTest, GrowsToACeilingButNotAfterEveryByteThatIsLeft) {
  SizingView view = AllWell();
  view.cache = 999 * kMebi;
  ExpectPlan(view, 1000, ResizeCause::kRoom);
  // What is left moves, so a quarter of the reserve is the least to win.
  view.ceiling = 5 * kGibi;
  ExpectPlan(view, 999, ResizeCause::kNone);
  view.room = 1023 * kMebi;
  ExpectPlan(view, 999, ResizeCause::kNone);
  view.room = 1024 * kMebi;
  ExpectPlan(view, 1024, ResizeCause::kRoom);
}

TEST(CalmNeededTest, AGrowthThatIsTakenBackDoublesIt) {
  const absl::Duration s = absl::Seconds(30);
  EXPECT_EQ(CalmNeededAfter(ResizeCause::kRoom, ResizeCause::kLimit, s), 2 * s);
  EXPECT_EQ(CalmNeededAfter(ResizeCause::kRoom, ResizeCause::kPressure, s),
            2 * s);
  EXPECT_EQ(CalmNeededAfter(ResizeCause::kRoom, ResizeCause::kRoom, s), s);
  EXPECT_EQ(CalmNeededAfter(ResizeCause::kLimit, ResizeCause::kLimit, s), s);
  EXPECT_EQ(CalmNeededAfter(ResizeCause::kNone, ResizeCause::kLimit, s), s);
  EXPECT_EQ(
      CalmNeededAfter(ResizeCause::kRoom, ResizeCause::kLimit, kMaxCalmTime),
      kMaxCalmTime);
}

// --- What holds of every view. ---

class PlanPropertyTest : public testing::Test {
 protected:
  static constexpr int kViews = 200000;

  int64_t Uniform(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[Uniform(0, static_cast<int64_t>(values.size()) - 1)];
  }

  SizingView RandomView() {
    SizingView view;
    view.block_bytes = OneOf<int64_t>({1, 7, 100, 4096});
    view.cache = Uniform(1, 3000) * view.block_bytes;
    const int64_t most = 4000 * view.block_bytes;
    view.left = Uniform(-most / 4, most);
    view.reserve = Uniform(0, most / 8);
    view.room = OneOf({view.left, std::max<int64_t>(view.left, 0) / 2});
    view.resident = Uniform(0, view.cache);
    view.held = Uniform(0, view.resident / view.block_bytes) * view.block_bytes;
    view.floor = Uniform(0, most / 2);
    view.ceiling = view.floor + Uniform(0, most);
    view.some_stalled = OneOf({0.0, 0.005, 0.02, 0.099, 0.1, 0.5, 1.0});
    view.all_stalled = view.some_stalled * OneOf({0.0, 0.4, 1.0});
    view.since_change = absl::Milliseconds(Uniform(0, 20000));
    view.calm = OneOf({view.since_change, absl::ZeroDuration(),
                       absl::Seconds(Uniform(0, 100))});
    return view;
  }

  std::mt19937_64 random_{20241};  // the seed of every failure below
};

TEST_F(PlanPropertyTest, TargetsStayInBoundsAndHaveACause) {
  for (int i = 0; i < kViews; ++i) {
    const SizingView view = RandomView();
    const SizingDecision decision = PlanCacheSize(view);
    ASSERT_EQ(decision.target % view.block_bytes, 0) << i;
    if (decision.cause == ResizeCause::kNone) {
      ASSERT_EQ(decision.target, view.cache) << i;
    } else if (decision.cause == ResizeCause::kRoom) {
      ASSERT_GT(decision.target, view.cache) << i;
      ASSERT_LE(decision.target, std::min(view.ceiling, view.room)) << i;
      ASSERT_LT(view.some_stalled, 0.02) << i;
    } else {
      ASSERT_LT(decision.target, view.cache) << i;
      ASSERT_GE(decision.target, view.floor) << i;
      ASSERT_GE(decision.target, view.held) << i;
      ASSERT_GT(decision.target, 0) << i;
      ASSERT_TRUE(decision.cause == ResizeCause::kLimit ? view.left < view.cache
                                                        : view.some_stalled > 0)
          << i;
    }
  }
}

// Less memory or more stalls never lead to a larger cache.
TEST_F(PlanPropertyTest, ReactionIsMonotone) {
  for (int i = 0; i < kViews; ++i) {
    const SizingView view = RandomView();
    SizingView worse = view;
    worse.left -= Uniform(0, view.cache);
    worse.room = std::min(worse.room, worse.left);
    worse.some_stalled = std::min(1.0, view.some_stalled + OneOf({0.0, 0.1}));
    worse.all_stalled =
        std::min(worse.some_stalled, view.all_stalled + OneOf({0.0, 0.1}));
    ASSERT_LE(PlanCacheSize(worse).target, PlanCacheSize(view).target) << i;
  }
}

// The cache in a world whose memory is used by others too. Its own pages are
// touched little by little, and stay so until they are given back.
struct World {
  int64_t limit = kGibi;
  int64_t weights = 100 * kMebi;
  int64_t others = 0;
  int64_t block = kMebi / 4;
  double stalled = 0;
  int64_t floor = 16 * kMebi;
  int64_t ceiling = 2 * kGibi;
  double share = 0.9;

  int64_t cache = 0;
  int64_t resident = 0;
  absl::Duration now = absl::Hours(9);
  absl::Duration changed = absl::ZeroDuration();
  absl::Duration calm_since = absl::ZeroDuration();
  absl::Duration calm_needed = kCalmTime;
  ResizeCause last = ResizeCause::kNone;
  int changes = 0;

  CacheBudget Budget() const {
    return BudgetFor({.limit = limit,
                      .used = weights + others + resident,
                      .weights = weights,
                      .cache_resident = resident});
  }

  // A second passes, in which `touched` more bytes are filled.
  ResizeCause Tick(int64_t touched) {
    now += absl::Seconds(1);
    resident = std::min(cache, resident + touched);
    if (stalled > kCalmStalled) calm_since = now;
    const CacheBudget budget = Budget();
    SizingView view;
    view.left = budget.left;
    view.reserve = budget.reserve;
    view.room = CacheWithin(budget.left, share, block);
    view.some_stalled = stalled;
    view.cache = cache;
    view.resident = resident;
    view.floor = floor;
    view.ceiling = ceiling;
    view.block_bytes = block;
    view.since_change = now - changed;
    view.calm = now - calm_since;
    view.calm_needed = calm_needed;
    const SizingDecision decision = PlanCacheSize(view);
    if (decision.cause == ResizeCause::kNone) return decision.cause;
    calm_needed = CalmNeededAfter(last, decision.cause, calm_needed);
    last = decision.cause;
    cache = decision.target;
    resident = std::min(resident, cache);
    changed = calm_since = now;
    ++changes;
    return decision.cause;
  }
};

TEST_F(PlanPropertyTest, ConvergesAndStaysForConstantInput) {
  for (int i = 0; i < 300; ++i) {
    World world;
    world.others = Uniform(0, kGibi);
    world.ceiling = Uniform(16, 2000) * kMebi;
    world.cache = Uniform(1, 1000) * kMebi / world.block * world.block;
    world.resident = Uniform(0, world.cache);
    world.stalled = OneOf({0.0, 0.05, 0.2});
    bool grew = false;
    bool shrank = false;
    for (int second = 0; second < 3600; ++second) {
      const ResizeCause cause = world.Tick(Uniform(0, 8 * kMebi));
      grew = grew || cause == ResizeCause::kRoom;
      shrank = shrank ||
               (cause != ResizeCause::kRoom && cause != ResizeCause::kNone);
    }
    EXPECT_FALSE(grew && shrank) << i << ": one way or the other, not both";
    const int64_t settled = world.cache;
    for (int second = 0; second < 3600; ++second) world.Tick(kMebi);
    EXPECT_EQ(world.cache, settled) << i;
    // And where it has settled there is no danger, unless the floor forbids.
    EXPECT_TRUE(world.cache <=
                    world.Budget().left + world.Budget().reserve / 4 ||
                world.cache <= world.floor)
        << i;
  }
}

TEST_F(PlanPropertyTest, AWobbleOfAQuarterOfTheReserveCostsNothing) {
  for (int i = 0; i < 100; ++i) {
    World world;
    world.others = Uniform(50, 500) * kMebi;
    world.cache = 8 * kMebi;
    for (int second = 0; second < 7200; ++second) world.Tick(kMebi);
    const int64_t settled = world.cache;
    const int64_t wobble = world.Budget().reserve / 4;
    const int64_t middle = world.others;
    world.changes = 0;
    for (int second = 0; second < 3600; ++second) {
      world.others = middle + Uniform(-wobble / 2, wobble / 2);
      world.Tick(kMebi);
    }
    EXPECT_LE(world.changes, 1) << i;
    EXPECT_LE(std::abs(world.cache - settled), 2 * wobble) << i;
  }
}

// Others that come and go every few minutes must not drag the cache along for
// ever: each growth that was wrong makes the next one wait twice as long.
TEST_F(PlanPropertyTest, TidesAreFollowedMoreAndMoreSlowly) {
  World world;
  world.cache = 800 * kMebi;
  std::vector<int> changes;
  for (int hour = 0; hour < 4; ++hour) {
    world.changes = 0;
    for (int second = 0; second < 3600; ++second) {
      world.others = second / 120 % 2 == 0 ? 0 : 400 * kMebi;
      world.Tick(4 * kMebi);
      ASSERT_LE(world.weights + world.others + world.resident,
                world.limit + 400 * kMebi);
    }
    changes.push_back(world.changes);
  }
  EXPECT_LE(changes[0], 20);
  for (int hour = 1; hour < 4; ++hour) EXPECT_LE(changes[hour], 4) << hour;
}

// The cache is what gives way when others come, as long as they come no faster
// than the reserve is large.
TEST_F(PlanPropertyTest, TheLimitIsNeverReached) {
  for (int i = 0; i < 50; ++i) {
    World world;
    world.cache = world.resident = 600 * kMebi;
    const int64_t reserve = world.Budget().reserve;
    for (int second = 0; second < 3600; ++second) {
      world.others = std::clamp<int64_t>(
          world.others + Uniform(-reserve / 4, reserve / 4), 0, 700 * kMebi);
      world.Tick(world.block * Uniform(0, 100));
      ASSERT_LE(world.weights + world.others + world.resident, world.limit)
          << i << " at " << second;
    }
  }
}

}  // namespace
}  // namespace kvasir

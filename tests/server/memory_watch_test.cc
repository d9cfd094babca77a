// The watch on literals: a made-up system, a backend that only keeps orders,
// and a clock that is an argument.

#include "server/memory_watch.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/fake_system.h"
#include "tests/server/live_server.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

constexpr int64_t kBlock = kMebi;

class MemoryWatchTest : public testing::Test {
 protected:
  // A daemon of 100 MiB of weights under a limit of 1 GiB, so that 860 MiB are
  // left, with a cache of `blocks`.
  void Start(int64_t blocks, CacheSizing sizing = {.auto_resize = true}) {
    sizing.system_root = system_.root();
    system_.SetGroup("1073741824", 100 * kMebi);
    system_.SetPressure("0.00", "0.00");
    watch_ = std::make_unique<MemoryWatch>(sizing);
    const auto sized = watch_->SizeCache({.wanted_bytes = blocks * kBlock,
                                          .weight_bytes = 100 * kMebi,
                                          .block_bytes = kBlock});
    ASSERT_TRUE(sized.ok()) << sized.status();
    SetCache(blocks > 0 ? blocks : *sized / kBlock);
    backend_.SetWeights(100 * kMebi);
    watch_->Attach(&backend_);
    Pass(absl::Minutes(1));
  }

  // What the engine says of its cache.
  void SetCache(int64_t total, int64_t pinned = 0, int64_t cached = 0) {
    blocks_ = {
        .free = total - pinned - cached, .pinned = pinned, .cached = cached};
    TierSnapshot tier;
    tier.tier = "device";
    tier.block_bytes = kBlock;
    tier.capacity_bytes = total * kBlock;
    tier.blocks = blocks_;
    EngineStats stats;
    stats.cache.tiers = {tier};
    stats.cache.token_bytes = kBlock / 16;
    backend_.SetStats(stats);
  }

  void Look() { watch_->Look(now_); }
  // Looks every second for so long.
  void Pass(absl::Duration time) {
    for (const absl::Duration end = now_ + time; now_ < end;) {
      now_ += absl::Seconds(1);
      Look();
    }
  }

  bool Ordered() const { return backend_.resize().sink != nullptr; }
  // The engine does what the last order says; how many blocks that is.
  int64_t Obey() {
    const ResizeOrder order = backend_.resize();
    EXPECT_NE(order.sink, nullptr) << "nothing was ordered";
    if (order.sink == nullptr) return -1;
    EXPECT_EQ(order.strategy, ResizeStrategy::kEvict);
    EXPECT_EQ(order.from_blocks, blocks_.total());
    SetCache(order.target_blocks, blocks_.pinned,
             std::min(blocks_.cached, order.target_blocks - blocks_.pinned));
    order.sink->OnEnd(absl::OkStatus(), {.target_blocks = order.target_blocks,
                                         .block_count = order.target_blocks,
                                         .block_bytes = kBlock});
    EXPECT_TRUE(backend_.ResizeCache({}).ok());  // forgets it
    return order.target_blocks;
  }

  FakeSystem system_;
  FakeBackend backend_;
  std::unique_ptr<MemoryWatch> watch_;
  BlockCounts blocks_;
  absl::Duration now_ = absl::Hours(5);
};

TEST_F(MemoryWatchTest, KeepsAsMuchAsTheLimitLeaves) {
  Start(0);
  EXPECT_EQ(blocks_.total(), 773) << "0.9 x 860, less bookkeeping";
  Pass(absl::Minutes(10));
  EXPECT_FALSE(Ordered());
}

TEST_F(MemoryWatchTest, ShrinksBeforeTheLimitIsReachedAndGrowsAgain) {
  Start(800);
  // The cache fills up: that is no news to anybody.
  SetCache(800, 100, 600);
  system_.SetGroup("1073741824", 800 * kMebi);
  Pass(absl::Minutes(2));
  ASSERT_FALSE(Ordered());
  // A neighbour takes 200 MiB.
  system_.SetGroup("1073741824", 1000 * kMebi);
  Pass(absl::Seconds(5));
  EXPECT_EQ(Obey(), 660) << "860 left, less 200";
  system_.SetGroup("1073741824", 960 * kMebi);
  Pass(absl::Minutes(5));
  EXPECT_FALSE(Ordered());
  EXPECT_EQ(watch_->resizes()[static_cast<int>(ResizeCause::kLimit)], 1);
  // And goes.
  system_.SetGroup("1073741824", 760 * kMebi);
  int64_t blocks = 660;
  for (int i = 0; i < 20 && blocks < 800; ++i) {
    Pass(absl::Minutes(1));
    if (!Ordered()) continue;
    const int64_t grown = Obey();
    EXPECT_GT(grown, blocks);
    blocks = grown;
  }
  EXPECT_EQ(blocks, 800) << "the size that was given is the ceiling";
  Pass(absl::Hours(1));
  EXPECT_FALSE(Ordered());
  EXPECT_GE(watch_->resizes()[static_cast<int>(ResizeCause::kRoom)], 2);
}

TEST_F(MemoryWatchTest, FollowsALimitThatIsChanged) {
  Start(0);
  system_.SetGroup("536870912", 100 * kMebi);
  Pass(absl::Seconds(5));
  EXPECT_EQ(Obey(), 380) << "512 less 100 and 32";
  Pass(absl::Minutes(10));
  EXPECT_FALSE(Ordered());
  system_.SetGroup("4294967296", 100 * kMebi);
  Pass(absl::Minutes(1));
  EXPECT_EQ(Obey(), 427) << "a step of an eighth";
}

TEST_F(MemoryWatchTest, AnswersStalls) {
  Start(800);
  SetCache(800, 100, 700);
  system_.SetGroup("1073741824", 900 * kMebi);
  system_.SetPressure("9.99", "0.00");
  Pass(absl::Minutes(1));
  ASSERT_FALSE(Ordered());
  system_.SetPressure("35.00", "1.00");
  Look();
  EXPECT_EQ(Obey(), 700);
  Pass(kStallSettleTime);
  EXPECT_FALSE(Ordered()) << "the average needs time to tell";
  Pass(absl::Seconds(2));
  EXPECT_TRUE(Ordered());
  EXPECT_EQ(watch_->resizes()[static_cast<int>(ResizeCause::kPressure)], 1);
}

TEST_F(MemoryWatchTest, OneOrderAtATime) {
  Start(800);
  system_.SetPressure("50.00", "50.00");
  Pass(absl::Seconds(30));
  const ResizeOrder first = backend_.resize();
  ASSERT_NE(first.sink, nullptr);
  ASSERT_TRUE(backend_.ResizeCache({}).ok());
  Pass(absl::Minutes(5));
  EXPECT_FALSE(Ordered()) << "it has not ended";
  first.sink->OnEnd(absl::FailedPreconditionError("an operator's goes on"), {});
  Pass(absl::Seconds(5));
  EXPECT_FALSE(Ordered()) << "nor is the next one at once";
  Pass(absl::Seconds(10));
  EXPECT_TRUE(Ordered());
  EXPECT_EQ(watch_->resizes()[static_cast<int>(ResizeCause::kPressure)], 0)
      << "what did not happen does not count";
}

// An order that waited for requests would be in the way of everything else.
TEST_F(MemoryWatchTest, AnOrderGivesUpWhereItWouldWait) {
  Start(800);
  system_.SetPressure("50.00", "50.00");
  Pass(absl::Seconds(15));
  const ResizeOrder order = backend_.resize();
  ASSERT_NE(order.sink, nullptr);
  ResizeReport report{.target_blocks = 500, .block_count = 800};
  EXPECT_TRUE(order.sink->OnProgress(report));
  EXPECT_TRUE(order.sink->OnProgress(report)) << "evicting takes slices";
  report.waits = true;
  report.block_count = 700;
  EXPECT_TRUE(order.sink->OnProgress(report)) << "it got on";
  EXPECT_FALSE(order.sink->OnProgress(report));
}

TEST_F(MemoryWatchTest, AnOperatorsSizeIsTheLastWord) {
  Start(800);
  const auto resize = [this](int64_t blocks) {
    SetCache(blocks);
    watch_->OnOperatorResize(blocks * kBlock);
  };
  // 40 is below the floor of 100, which would otherwise be kept.
  resize(40);
  Pass(absl::Hours(2));
  EXPECT_FALSE(Ordered()) << "there is room, but who ordered 40 wants 40";
  resize(850);
  Pass(absl::Hours(2));
  EXPECT_FALSE(Ordered());
  // Danger is answered below it, and it is what is returned to.
  system_.SetGroup("1073741824", 400 * kMebi);
  Pass(absl::Seconds(5));
  EXPECT_EQ(Obey(), 560);
  system_.SetGroup("1073741824", 100 * kMebi);
  for (int i = 0; i < 30 && blocks_.total() < 850; ++i) {
    Pass(absl::Minutes(2));
    if (Ordered()) Obey();
  }
  EXPECT_EQ(blocks_.total(), 850);
}

TEST_F(MemoryWatchTest, FloorAndWhatRequestsHoldStay) {
  Start(800, {.floor_bytes = 300 * kMebi, .auto_resize = true});
  SetCache(800, 350, 100);
  system_.SetGroup("104857600", 550 * kMebi);
  Pass(absl::Seconds(5));
  EXPECT_EQ(Obey(), 350);
  SetCache(350);
  Pass(absl::Seconds(5));
  EXPECT_EQ(Obey(), 300);
  Pass(absl::Minutes(1));
  EXPECT_FALSE(Ordered());
}

TEST_F(MemoryWatchTest, SwitchedOffItOnlyLooks) {
  Start(800, {.auto_resize = false});
  SetCache(800, 100, 600);
  system_.SetGroup("1073741824", 1100 * kMebi);
  system_.SetPressure("90.00", "90.00");
  Pass(absl::Minutes(5));
  EXPECT_FALSE(Ordered());
  const auto room = watch_->Room();
  ASSERT_TRUE(room.ok());
  EXPECT_EQ(room->budget.left, 560 * kMebi)
      << "1100 used, of which 100 are weights and 700 the cache";
}

// A flush empties blocks whose pages stay: they are the cache's still.
TEST_F(MemoryWatchTest, WhatTheCacheHasTouchedIsNotOthers) {
  Start(800);
  SetCache(800, 0, 700);
  system_.SetGroup("1073741824", 800 * kMebi);
  Look();
  SetCache(800);
  Pass(absl::Minutes(1));
  EXPECT_FALSE(Ordered());
  EXPECT_EQ(watch_->Room()->budget.left, 860 * kMebi);
  EXPECT_EQ(watch_->Room()->budget.others, 0);
}

TEST_F(MemoryWatchTest, FilesThatVanishAreNoReason) {
  Start(800);
  system_.Remove("/proc/meminfo");
  system_.Remove("/sys");
  Pass(absl::Minutes(1));
  EXPECT_FALSE(Ordered());
  EXPECT_FALSE(watch_->Room().ok());
  EXPECT_FALSE(watch_->ReadState().ok());
}

TEST_F(MemoryWatchTest, AnEngineThatRefusesIsAskedAgain) {
  Start(800);
  backend_.resize_status = absl::UnavailableError("the engine has ended");
  system_.SetPressure("50.00", "50.00");
  Pass(absl::Minutes(1));
  EXPECT_FALSE(Ordered());
  backend_.resize_status = absl::OkStatus();
  Pass(absl::Seconds(15));
  EXPECT_TRUE(Ordered());
}

// RES-1, later: 860 MiB are left for cache and further weights.
TEST_F(MemoryWatchTest, WeightsWithoutRoomAreRefusedAndNothingIsLost) {
  Start(800, {.auto_resize = false});
  EXPECT_TRUE(watch_->HoldWeights(60 * kMebi).ok());
  const absl::Status refused = watch_->HoldWeights(61 * kMebi).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("wanted 61 MiB for its weights, found 60 MiB in 1 GiB "
                        "(cgroup /sys/fs/cgroup/app/memory.max), less 100 MiB "
                        "of weights"));
  EXPECT_FALSE(Ordered());
  EXPECT_EQ(watch_->Room()->budget.left, 860 * kMebi);
  system_.Remove("/proc/meminfo");
  system_.Remove("/sys");
  EXPECT_TRUE(absl::IsNotFound(watch_->HoldWeights(1).status()));
}

// While they are read, part of them is in use; they must count once.
TEST_F(MemoryWatchTest, WeightsThatAreReadCountOnceAndAsAWhole) {
  Start(500, {.auto_resize = false});
  system_.SetGroup("1073741824", 120 * kMebi);  // 20 of others
  const auto left = [this] { return watch_->Room()->budget.left / kMebi; };
  Look();
  ASSERT_EQ(left(), 840);
  absl::StatusOr<WeightRoom> held = watch_->HoldWeights(200 * kMebi);
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ(left(), 640) << "nothing is read yet";
  system_.SetGroup("1073741824", 270 * kMebi);
  EXPECT_EQ(left(), 640) << "three quarters are";
  system_.SetGroup("1073741824", 330 * kMebi);
  EXPECT_EQ(left(), 630) << "and the others took 10";
  held->reset();
  EXPECT_EQ(left(), 630) << "in use, whoever has them";
  backend_.AddRevision("two", "d2", 200 * kMebi);
  backend_.AddRevision("alias", "d2", 200 * kMebi);
  Look();
  EXPECT_EQ(left(), 630);
  EXPECT_EQ(watch_->Room()->budget.weights, 300 * kMebi);
  EXPECT_EQ(watch_->Room()->budget.others, 30 * kMebi);
  backend_.RetireLastVersion();
  Look();
  EXPECT_EQ(watch_->Room()->budget.weights, 300 * kMebi) << "one needs them";
  backend_.RetireLastVersion();
  system_.SetGroup("1073741824", 130 * kMebi);
  Look();
  EXPECT_EQ(watch_->Room()->budget.weights, 100 * kMebi);
  EXPECT_EQ(left(), 830);
}

// A cache that sizes itself makes room first, down to what it may come to.
TEST_F(MemoryWatchTest, ACacheThatMayShrinkMakesRoomForWeights) {
  Start(800, {.floor_bytes = 300 * kMebi, .auto_resize = true});
  SetCache(800, 350, 400);
  const auto hold = [this](int64_t bytes, const std::function<void()>& engine) {
    absl::StatusOr<WeightRoom> held;
    std::thread loader([&] { held = watch_->HoldWeights(bytes); });
    engine();
    loader.join();
    return held;
  };
  const auto wait = [this] {
    ASSERT_TRUE(Eventually([this] { return Ordered(); }));
  };
  EXPECT_TRUE(absl::IsResourceExhausted(hold(511 * kMebi, [] {}).status()))
      << "860 less the 350 that requests hold";
  EXPECT_FALSE(Ordered());
  absl::StatusOr<WeightRoom> held = hold(400 * kMebi, [&] {
    wait();
    EXPECT_TRUE(backend_.resize().all_or_nothing);
    EXPECT_EQ(Obey(), 460);
  });
  ASSERT_TRUE(held.ok()) << held.status();
  testing::internal::CaptureStderr();
  Pass(absl::Hours(1));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("weights are to be read"),
                             testing::Not(HasSubstr("running out"))));
  EXPECT_FALSE(Ordered()) << "the room is not to be grown into";
  held->reset();
  Pass(absl::Minutes(5));
  EXPECT_TRUE(Ordered()) << "they never came";
  Obey();
  Look();
  // Requests may hold more than they did; then nothing is read.
  const absl::Status stuck =
      hold(450 * kMebi, [&] {
        wait();
        backend_.resize().sink->OnEnd(absl::CancelledError("called off"),
                                      {.block_count = 512});
      }).status();
  EXPECT_TRUE(absl::IsResourceExhausted(stuck)) << stuck;
  EXPECT_THAT(
      std::string(stuck.message()),
      testing::AllOf(HasSubstr("a cache of 410 blocks beside them in 1 GiB "
                               "(cgroup /sys/fs/cgroup/app/memory.max), less "),
                     HasSubstr("found 512 blocks: called off")));
}

// The line is what an operator has when a pod is killed.
TEST_F(MemoryWatchTest, SaysOnceWhatDecidedAndWhatIsWatched) {
  const auto log_of = [this](const auto& act) {
    testing::internal::CaptureStderr();
    act();
    return testing::internal::GetCapturedStderr();
  };
  const std::string sized = log_of([this] { Start(0); });
  EXPECT_THAT(sized, HasSubstr("the cache is sized"));
  EXPECT_THAT(sized, HasSubstr("cache=\"773 MiB\" by=auto left=\"860 MiB\""));
  EXPECT_THAT(sized, HasSubstr("1 GiB (cgroup /sys/fs/cgroup/app/memory.max), "
                               "less 100 MiB of weights"));
  EXPECT_THAT(sized, testing::Not(HasSubstr("warning")));
  const auto start_and_stop = [this] {
    MemoryWatch watch({.auto_resize = true, .system_root = system_.root()});
    watch.Start(&backend_);
  };
  EXPECT_THAT(log_of(start_and_stop),
              HasSubstr("files=/sys/fs/cgroup/app/memory.max,"
                        "/sys/fs/cgroup/app/memory.pressure"));
  system_.Remove("/sys");
  EXPECT_THAT(log_of(start_and_stop), HasSubstr("keeps the size it has"));
  system_.SetGroup("524288000", 0);
  const std::string warned = log_of([this] {
    MemoryWatch watch({.system_root = system_.root()});
    EXPECT_TRUE(watch
                    .SizeCache({.wanted_bytes = 390 * kMebi,
                                .weight_bytes = 100 * kMebi,
                                .block_bytes = kBlock})
                    .ok());
  });
  EXPECT_THAT(warned, HasSubstr("warning"));
  EXPECT_THAT(warned, HasSubstr("by=setting"));
  EXPECT_THAT(warned, HasSubstr("wanted=\"368 MiB\" found=\"390 MiB\""));
}

}  // namespace
}  // namespace kvasir

// RES-1: the size of the cache at start, under every kind of limit.

#include "server/cache_sizing.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/fake_system.h"

namespace kvasir {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kWeights = 100 * kMebi;
constexpr int64_t kBlock = kMebi;

class CacheSizingTest : public testing::Test {
 protected:
  absl::StatusOr<SizedCache> Size(int64_t wanted_bytes = 0) {
    const absl::StatusOr<MemoryState> state = ReadMemoryState(system_.root());
    EXPECT_TRUE(state.ok()) << state.status();
    return SizeCacheAtStart(*state, sizing_,
                            {.wanted_bytes = wanted_bytes,
                             .weight_bytes = kWeights,
                             .block_bytes = kBlock});
  }

  // What `share` of the limit is, after weights, the others and the reserve;
  // a block of 1 MiB takes 512 bytes more.
  static int64_t Share(double share, int64_t limit, int64_t others = 0,
                       int64_t reserve = 0) {
    if (reserve == 0) reserve = limit / 16;
    const int64_t left = limit - kWeights - others - reserve;
    return static_cast<int64_t>(static_cast<double>(left) * share) /
           (kBlock + 512) * kBlock;
  }

  // What is left for `bytes` of further weights beside a cache of 200 blocks
  // that may be shrunk to `least`.
  absl::StatusOr<int64_t> Beside(int64_t bytes, int64_t least) {
    const absl::StatusOr<MemoryState> state = ReadMemoryState(system_.root());
    return SizeCacheBeside(
        FindRoom(*state, sizing_, {.weights = kWeights}, kBlock),
        {.cache = 200 * kBlock, .least = least * kBlock, .block_bytes = kBlock},
        bytes);
  }

  FakeSystem system_;
  CacheSizing sizing_;
};

// The bytes of a second revision are as little to be argued with as those of
// the first.
TEST_F(CacheSizingTest, FurtherWeightsFitBesideTheCacheOrAreRefused) {
  system_.SetGroup("536870912", 0);  // of which 512 - 100 - 32 = 380 are left
  EXPECT_EQ(*Beside(180 * kMebi, 200), 200 * kBlock);
  const absl::Status refused = Beside(180 * kMebi + 1, 200).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(refused.message(),
            "model_path: wanted 180 MiB for its weights, found 180 MiB in 512 "
            "MiB (cgroup /sys/fs/cgroup/app/memory.max), less 100 MiB of "
            "weights, 0 B of others and 32 MiB of reserve, less 200 MiB of "
            "cache");
  EXPECT_EQ(*Beside(180 * kMebi + 1, 50), 199 * kBlock) << "whole blocks";
  EXPECT_EQ(*Beside(330 * kMebi, 50), 50 * kBlock);
  EXPECT_FALSE(Beside(330 * kMebi + 1, 50).ok());
  EXPECT_FALSE(Beside(380 * kMebi, 0).ok()) << "no cache would be left";
  system_.SetGroup("104857600", 0);
  EXPECT_THAT(std::string(Beside(kMebi, 200).status().message()),
              HasSubstr("found 0 B in 100 MiB"));
}

TEST_F(CacheSizingTest, SharedWeightsCountOnce) {
  const auto version = [](const std::string& digest, int64_t bytes) {
    VersionInfo info;
    info.weights_digest = digest;
    info.weight_bytes = bytes;
    return info;
  };
  EXPECT_EQ(ResidentWeightBytes({}), 0);
  EXPECT_EQ(
      ResidentWeightBytes({version("a", 5), version("b", 3), version("a", 5)}),
      8);
}

TEST_F(CacheSizingTest, AutoIsMostOfAGroupsLimit) {
  system_.SetGroup("536870912", 0);
  const auto sized = Size();
  ASSERT_TRUE(sized.ok()) << sized.status();
  EXPECT_EQ(sized->bytes, Share(0.9, 512 * kMebi));
  EXPECT_EQ(sized->bytes, 341 * kMebi) << "0.9 x (512 - 100 - 32), less notes";
  EXPECT_EQ(sized->room.limit.source, "cgroup");
  EXPECT_FALSE(sized->over_budget);
}

TEST_F(CacheSizingTest, MaxMeansTheHostOfWhichAutoIsHalf) {
  system_.SetGroup("max", 0);
  const auto sized = Size();
  EXPECT_EQ(sized->room.limit.source, "host");
  EXPECT_EQ(sized->bytes, Share(0.5, 24 * kGibi));
}

TEST_F(CacheSizingTest, TheParentWinsOverTheChild) {
  system_.Write("/proc/self/cgroup", "0::/pod/app\n");
  system_.Write("/sys/fs/cgroup/pod/app/memory.max", "536870912\n");
  system_.Write("/sys/fs/cgroup/pod/memory.max", "419430400\n");
  const auto sized = Size();
  EXPECT_EQ(sized->bytes, Share(0.9, 400 * kMebi, 0, 32 * kMebi));
  EXPECT_THAT(
      Explain(sized->room),
      AllOf(HasSubstr("400 MiB (cgroup /sys/fs/cgroup/pod/memory.max)"),
            HasSubstr("100 MiB of weights"), HasSubstr("32 MiB of reserve")));
}

TEST_F(CacheSizingTest, VersionOneAndItsUnlimitedNumber) {
  system_.Write("/proc/self/cgroup", "4:memory:/docker/1\n");
  const std::string file =
      "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes";
  system_.Write(file, "536870912\n");
  EXPECT_EQ(Size()->bytes, Share(0.9, 512 * kMebi));
  system_.Write(file, "9223372036854771712\n");
  EXPECT_EQ(Size()->room.limit.source, "host");
}

// Reading 800 MiB of model leaves them in the page cache.
TEST_F(CacheSizingTest, PageCacheTakesNothingFromTheCache) {
  system_.SetGroup("1073741824", kWeights, 800 * kMebi);
  EXPECT_EQ(Size()->bytes, Share(0.9, kGibi));
}

TEST_F(CacheSizingTest, WhatOthersUseTakesFromTheCache) {
  // A neighbour in the same pod, and this process's own buffers.
  system_.SetGroup("1073741824", kWeights + 300 * kMebi);
  EXPECT_EQ(Size()->bytes, Share(0.9, kGibi, 300 * kMebi));
  // A parent that allows more, but is fuller, leaves less.
  system_.Write("/sys/fs/cgroup/memory.max", "2147483648\n");
  system_.Write("/sys/fs/cgroup/memory.current", "1887436800\n");
  const auto sized = Size();
  EXPECT_EQ(sized->room.limit.bytes, 2 * kGibi);
  EXPECT_EQ(sized->bytes, Share(0.9, 2 * kGibi, 1700 * kMebi));
}

TEST_F(CacheSizingTest, AShareIsOfWhatIsLeft) {
  system_.SetGroup("1073741824", 0);
  sizing_.share = 0.6;
  EXPECT_EQ(Size()->bytes, Share(0.6, kGibi));
  sizing_.share = 1;
  const auto all = Size();
  EXPECT_EQ(all->bytes, Share(1, kGibi));
  EXPECT_FALSE(all->over_budget);
}

TEST_F(CacheSizingTest, AGivenSizeIsTakenWarnedAboutOrRefused) {
  system_.SetGroup("536870912", 0);
  EXPECT_EQ(Size(200 * kMebi)->bytes, 200 * kMebi);
  EXPECT_EQ(Size(200 * kMebi)->ceiling_bytes, 200 * kMebi);
  EXPECT_FALSE(Size(380 * kMebi)->over_budget);
  EXPECT_TRUE(Size(381 * kMebi)->over_budget) << "into the reserve";
  EXPECT_TRUE(Size(412 * kMebi).ok());
  const absl::Status refused = Size(413 * kMebi).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("cache_bytes: wanted at most 412 MiB"),
                    HasSubstr("memory.max"), HasSubstr("found 413 MiB")));
}

TEST_F(CacheSizingTest, WhereNothingIsLeftTheNumbersSayWhy) {
  system_.SetGroup("125829120", 0);
  const absl::Status refused = Size().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("120 MiB"), HasSubstr("100 MiB of weights"),
                    HasSubstr("32 MiB of reserve")));
}

TEST_F(CacheSizingTest, FloorAndCeilingBoundWhatIsChosen) {
  system_.SetGroup("536870912", 0);
  sizing_.ceiling_bytes = 100 * kMebi;
  EXPECT_EQ(Size()->bytes, 100 * kMebi);
  EXPECT_EQ(Size()->ceiling_bytes, 100 * kMebi);
  sizing_ = {.floor_bytes = 400 * kMebi};
  EXPECT_EQ(Size()->bytes, 400 * kMebi);
  EXPECT_TRUE(Size()->over_budget);
  sizing_.floor_bytes = 450 * kMebi;
  EXPECT_EQ(Size().status().code(), absl::StatusCode::kResourceExhausted);
}

// Small blocks of a toy model must not become millions of them.
TEST_F(CacheSizingTest, AutoStopsAtAMillionBlocks) {
  system_.SetHost(int64_t{4} << 40, int64_t{4} << 40);
  EXPECT_EQ(Size()->bytes, kMaxAutomaticBlocks * kBlock);
  sizing_.share = 0.5;
  EXPECT_GT(Size()->bytes, kMaxAutomaticBlocks * kBlock) << "but who asks gets";
}

TEST(CacheFloorTest, KeepsRoomForOneRequestButNotAtAnyPrice) {
  EXPECT_EQ(FloorFor(800, 10), 100);
  EXPECT_EQ(FloorFor(800, 300), 300);
  EXPECT_EQ(FloorFor(800, 5000), 400);
}

}  // namespace
}  // namespace kvasir

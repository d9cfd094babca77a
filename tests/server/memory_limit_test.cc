#include "server/memory_limit.h"

#include <string>

#include "gtest/gtest.h"

#include "tests/server/fake_system.h"

namespace kvasir {
namespace {

class MemoryLimitTest : public testing::Test {
 protected:
  MemoryLimit Tightest() {
    const absl::StatusOr<MemoryLimit> limit = ReadMemoryLimit(system_.root());
    EXPECT_TRUE(limit.ok()) << limit.status();
    return limit.value_or(MemoryLimit{});
  }
  MemoryState State() {
    absl::StatusOr<MemoryState> state = ReadMemoryState(system_.root());
    EXPECT_TRUE(state.ok()) << state.status();
    return *std::move(state);
  }

  FakeSystem system_;
};

TEST_F(MemoryLimitTest, HostWhereNothingElseLimits) {
  EXPECT_EQ(Tightest().bytes, 24 * kGibi);
  EXPECT_EQ(Tightest().source, "host");
  EXPECT_EQ(Tightest().file, "/proc/meminfo");
  system_.SetGroup("max", 5 * kMebi);
  EXPECT_EQ(Tightest().bytes, 24 * kGibi);
  EXPECT_EQ(State().limits.size(), 1u) << "max is no limit";
}

TEST_F(MemoryLimitTest, OwnGroupOfVersionTwo) {
  system_.SetGroup("536870912", 0);
  EXPECT_EQ(Tightest().bytes, 512 * kMebi);
  EXPECT_EQ(Tightest().source, "cgroup");
  EXPECT_EQ(Tightest().file, "/sys/fs/cgroup/app/memory.max");
}

// RES-1: the parent's limit holds for the child, whatever the child's says.
TEST_F(MemoryLimitTest, TightestOfAllAncestors) {
  system_.Write("/proc/self/cgroup", "0::/a/b/c\n");
  system_.Write("/sys/fs/cgroup/a/b/c/memory.max", "536870912\n");
  system_.Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  system_.Write("/sys/fs/cgroup/a/memory.max", "419430400\n");
  EXPECT_EQ(Tightest().bytes, 400 * kMebi);
  EXPECT_EQ(Tightest().file, "/sys/fs/cgroup/a/memory.max");
  EXPECT_EQ(State().limits.size(), 3u);
}

// Beyond memory.high the kernel reclaims and slows down: as good as a limit.
TEST_F(MemoryLimitTest, HighIsALimitToo) {
  system_.SetGroup("536870912", 0);
  system_.Write("/sys/fs/cgroup/app/memory.high", "314572800\n");
  EXPECT_EQ(Tightest().bytes, 300 * kMebi);
  EXPECT_EQ(Tightest().file, "/sys/fs/cgroup/app/memory.high");
  system_.Write("/sys/fs/cgroup/app/memory.high", "max\n");
  EXPECT_EQ(Tightest().bytes, 512 * kMebi);
}

TEST_F(MemoryLimitTest, GroupAtTheMount) {
  // Inside a container's own namespace the group is the root.
  system_.Write("/proc/self/cgroup", "0::/\n");
  system_.Write("/sys/fs/cgroup/memory.max", "104857600\n");
  EXPECT_EQ(Tightest().bytes, 100 * kMebi);
}

TEST_F(MemoryLimitTest, VersionOneAndItsUnlimitedNumber) {
  system_.Write("/proc/self/cgroup",
                "5:cpu,cpuacct:/x\n4:memory:/docker/1\n0::/\n");
  const std::string group = "/sys/fs/cgroup/memory/docker/1/";
  system_.Write(group + "memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Tightest().source, "host");
  system_.Write("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "209715200\n");
  EXPECT_EQ(Tightest().bytes, 200 * kMebi);
  // What the groups above that a container does not see allow.
  system_.Write(group + "memory.stat",
                "hierarchical_memory_limit 157286400\n"
                "total_inactive_file 20971520\ntotal_active_file 10485760\n");
  system_.Write(group + "memory.usage_in_bytes", "104857600\n");
  EXPECT_EQ(Tightest().bytes, 150 * kMebi);
  EXPECT_EQ(Tightest().file, group + "memory.stat");
  EXPECT_EQ(Tightest().used_bytes, 70 * kMebi);
}

// RES-1: a model file that was read lies in the page cache and takes nothing
// from anybody.
TEST_F(MemoryLimitTest, PageCacheIsNotUsed) {
  system_.SetGroup("1073741824", 100 * kMebi, 800 * kMebi);
  EXPECT_EQ(Tightest().used_bytes, 100 * kMebi);
  system_.Write("/sys/fs/cgroup/app/memory.stat", "inactive_file 999999999999");
  EXPECT_EQ(Tightest().used_bytes, 0) << "never less than nothing";
  system_.Remove("/sys/fs/cgroup/app/memory.current");
  EXPECT_EQ(Tightest().used_bytes, 0) << "nobody counts";
  system_.SetHost(24 * kGibi, 20 * kGibi);
  EXPECT_EQ(State().limits.front().used_bytes, 4 * kGibi);
}

TEST_F(MemoryLimitTest, PressureOfTheOwnGroupElseOfTheHost) {
  EXPECT_FALSE(State().pressure.has_value());
  system_.Write("/proc/pressure/memory",
                "some avg10=12.50 avg60=1.00 avg300=0.20 total=1\n"
                "full avg10=3.00 avg60=0.00 avg300=0.00 total=1\n");
  ASSERT_TRUE(State().pressure.has_value());
  EXPECT_DOUBLE_EQ(State().pressure->some, 0.125);
  EXPECT_DOUBLE_EQ(State().pressure->all, 0.03);
  EXPECT_EQ(State().pressure->file, "/proc/pressure/memory");
  system_.SetGroup("max", 0);
  system_.SetPressure("1.00", "0.50");
  EXPECT_DOUBLE_EQ(State().pressure->some, 0.01);
  EXPECT_EQ(State().pressure->file, "/sys/fs/cgroup/app/memory.pressure");
  // Beside v1, v2 lies in a folder of its own.
  system_.Remove("/sys/fs/cgroup/app");
  system_.Write("/sys/fs/cgroup/unified/app/memory.pressure",
                "some avg10=2.00 avg60=0.00 avg300=0.00 total=1\n");
  EXPECT_DOUBLE_EQ(State().pressure->some, 0.02);
  EXPECT_EQ(State().pressure->all, 0) << "old kernels do not say full";
  system_.Write("/sys/fs/cgroup/unified/app/memory.pressure", "gibberish\n");
  EXPECT_DOUBLE_EQ(State().pressure->some, 0.125);
}

TEST_F(MemoryLimitTest, NoHostIsAnError) {
  system_.Remove("/proc");
  EXPECT_TRUE(absl::IsNotFound(ReadMemoryLimit(system_.root()).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadMemoryState(system_.root()).status()));
}

TEST(RealMemoryLimitTest, ThisMachineHasOne) {
  EXPECT_GT(ReadMemoryLimit("")->bytes, 64 * kMebi);
}

}  // namespace
}  // namespace kvasir

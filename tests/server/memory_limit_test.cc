#include "server/memory_limit.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

// A made-up /proc and /sys in a folder of the test.
class MemoryLimitTest : public testing::Test {
 protected:
  MemoryLimitTest() {
    root_ = testing::TempDir() + "/limits_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    Write("/proc/meminfo",
          "MemFree:  12 kB\nMemTotal:       25165824 kB\nCached: 5 kB\n");
  }
  ~MemoryLimitTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  std::string root_;
};

constexpr int64_t kHost = int64_t{24} << 30;
constexpr int64_t kMebi = 1 << 20;

TEST_F(MemoryLimitTest, HostWhereNothingElseLimits) {
  EXPECT_EQ(ReadMemoryLimit(root_)->bytes, kHost);
  EXPECT_EQ(ReadMemoryLimit(root_)->source, "host");
  Write("/proc/self/cgroup", "0::/app\n");
  Write("/sys/fs/cgroup/app/memory.max", "max\n");
  EXPECT_EQ(ReadMemoryLimit(root_)->bytes, kHost);
}

TEST_F(MemoryLimitTest, OwnGroupOfVersionTwo) {
  Write("/proc/self/cgroup", "0::/app\n");
  Write("/sys/fs/cgroup/app/memory.max", "536870912\n");
  EXPECT_EQ(ReadMemoryLimit(root_)->bytes, 512 * kMebi);
  EXPECT_EQ(ReadMemoryLimit(root_)->source, "cgroup");
}

// RES-1: the parent's limit holds for the child, whatever the child's says.
TEST_F(MemoryLimitTest, TightestOfAllAncestors) {
  Write("/proc/self/cgroup", "0::/a/b/c\n");
  Write("/sys/fs/cgroup/a/b/c/memory.max", "536870912\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("/sys/fs/cgroup/a/memory.max", "419430400\n");
  EXPECT_EQ(ReadMemoryLimit(root_)->bytes, 400 * kMebi);
}

TEST_F(MemoryLimitTest, GroupAtTheMount) {
  // Inside a container's own namespace the group is the root.
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "104857600\n");
  EXPECT_EQ(ReadMemoryLimit(root_)->bytes, 100 * kMebi);
}

TEST_F(MemoryLimitTest, VersionOneAndItsUnlimitedNumber) {
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/1\n0::/\n");
  Write("/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes",
        "9223372036854771712\n");
  EXPECT_EQ(ReadMemoryLimit(root_)->bytes, kHost);
  Write("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "209715200\n");
  EXPECT_EQ(ReadMemoryLimit(root_)->bytes, 200 * kMebi);
}

TEST_F(MemoryLimitTest, NoHostIsAnError) {
  std::filesystem::remove_all(root_ + "/proc");
  EXPECT_TRUE(absl::IsNotFound(ReadMemoryLimit(root_).status()));
}

TEST(RealMemoryLimitTest, ThisMachineHasOne) {
  EXPECT_GT(ReadMemoryLimit("")->bytes, 64 * kMebi);
}

}  // namespace
}  // namespace kvasir

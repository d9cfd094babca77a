#include "engine/backend/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

class ThreadPoolTest : public testing::TestWithParam<int32_t> {};

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolTest, testing::Values(1, 2, 3, 8));

// Holds each worker in body until all of them have come.
void AwaitAll(std::atomic<int32_t>& come, int32_t wanted) {
  come.fetch_add(1);
  while (come.load() < wanted) std::this_thread::yield();
}

TEST_P(ThreadPoolTest, EveryWorkerComesWhenThereIsTimeAndIsWaitedFor) {
  // Results are read right after Run(), without a lock: a worker that is still
  // writing would be a race.
  ThreadPool pool(GetParam());
  EXPECT_EQ(pool.thread_count(), GetParam());
  std::vector<int64_t> calls(GetParam(), 0);
  for (int round = 0; round < 200; ++round) {
    std::atomic<int32_t> come{0};
    pool.Run([&](int32_t worker) {
      // A late one may come twice; only a new round is counted.
      if (calls[worker] == round + 1) return;
      ++calls[worker];
      AwaitAll(come, GetParam());
    });
    for (int64_t count : calls) ASSERT_EQ(count, round + 1);
  }
}

TEST_P(ThreadPoolTest, WorkersThatSleepAreWoken) {
  // Workers stop spinning after a while; a lost wake-up would hang here.
  ThreadPool pool(GetParam());
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::vector<char> here(GetParam(), 0);
    std::atomic<int32_t> come{0};
    pool.Run([&](int32_t worker) {
      if (here[worker]++ == 0) AwaitAll(come, GetParam());
    });
    for (char times : here) ASSERT_GE(times, 1);
  }
}

TEST_P(ThreadPoolTest, CallerWaitsForASlowWorker) {
  // The caller sleeps too once it has spun; only the last worker wakes it.
  ThreadPool pool(GetParam());
  for (int slow = 0; slow < GetParam(); ++slow) {
    std::vector<char> here(GetParam(), 0);
    std::vector<int> done(GetParam(), 0);
    std::atomic<int32_t> come{0};
    pool.Run([&](int32_t worker) {
      if (here[worker]++ != 0) return;
      AwaitAll(come, GetParam());
      if (worker == slow) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      ++done[worker];
    });
    for (int count : done) EXPECT_EQ(count, 1);
  }
}

TEST_P(ThreadPoolTest, RoundsInQuickSuccessionShareAllTheirWork) {
  // Workers come late, early, twice or never; each piece is taken once.
  ThreadPool pool(GetParam());
  std::vector<int32_t> touched(16);
  for (int round = 0; round < 20000; ++round) {
    std::atomic<size_t> next{0};
    pool.Run([&](int32_t) {
      for (size_t i = next++; i < touched.size(); i = next++) ++touched[i];
    });
    for (int32_t times : touched) ASSERT_EQ(times, round + 1);
  }
}

#ifndef __SANITIZE_THREAD__  // it holds a signal back while a thread sleeps
std::atomic<bool> hold{false};
std::atomic<bool> held{false};
void HoldThisThread(int) {
  held = true;
  while (hold) sched_yield();
}

TEST(ThreadPoolOnABusyMachineTest, AWorkerWithoutAProcessorIsNotWaitedFor) {
  // The handler keeps the worker from running as a busy machine would. A join
  // that waited for every worker would hang here.
  ThreadPool pool(2);
  pthread_t thread{};
  std::atomic<int32_t> come{0};
  bool here = false;
  pool.Run([&](int32_t worker) {
    if (worker == 1) {
      if (std::exchange(here, true)) return;
      thread = pthread_self();
    }
    AwaitAll(come, 2);
  });
  const auto before = std::signal(SIGUSR1, HoldThisThread);
  hold = true;
  ASSERT_EQ(pthread_kill(thread, SIGUSR1), 0);
  while (!held) sched_yield();
  int64_t sum = 0;
  for (int round = 0; round < 10; ++round) {
    pool.ParallelFor(100, 1, [&](int64_t begin, int64_t end) {
      sum += end - begin;  // by this thread alone
    });
  }
  EXPECT_EQ(sum, 1000);
  hold = false;
  here = false;
  come = 0;
  pool.Run([&](int32_t worker) {  // and it comes again
    if (worker == 0 || !std::exchange(here, true)) AwaitAll(come, 2);
  });
  std::signal(SIGUSR1, before);
}
#endif

TEST_P(ThreadPoolTest, ParallelForCoversEveryItemOnceInPiecesOfTheGrain) {
  // A piece below the grain may be smaller than a kernel's tile.
  ThreadPool pool(GetParam());
  for (int64_t count : {0, 1, 7, 8, 9, 64, 1000}) {
    for (int64_t grain : {1, 3, 8, 2000}) {
      std::vector<int> touched(count, 0);
      std::atomic<int64_t> smallest{count};
      pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
        ASSERT_LT(begin, end);
        int64_t seen = smallest.load();
        while (end - begin < seen &&
               !smallest.compare_exchange_weak(seen, end - begin)) {
        }
        for (int64_t i = begin; i < end; ++i) ++touched[i];
      });
      for (int times : touched) ASSERT_EQ(times, 1);
      EXPECT_GE(smallest.load(), std::min(count, grain));
    }
  }
}

TEST(ThreadPoolDeathTest, RefusesNestedRunsAndNoThreads) {
  // A worker that waits for the round it is part of would never return.
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(ThreadPool(0), "wanted 1 thread or more, found 0");
  EXPECT_DEATH(
      {
        ThreadPool pool(2);
        pool.Run([&](int32_t worker) {
          if (worker == 0) pool.Run([](int32_t) {});
        });
      },
      "fork-join inside a fork-join");
}

// A made-up "/" whose files say which CPUs the process may use.
class UsableThreadCountTest : public testing::Test {
 protected:
  UsableThreadCountTest()
      : root_(testing::TempDir() + "/usable_threads_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    cpu_set_t set;
    CPU_ZERO(&set);
    EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
    affinity_ = CPU_COUNT(&set);
  }
  ~UsableThreadCountTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  int32_t Count() const { return UsableThreadCount(root_.c_str()); }
  // What a quota of `cpus` leaves of the affinity mask of this machine.
  int32_t AtMost(int32_t cpus) const { return std::min(cpus, affinity_); }

  std::string root_;
  int32_t affinity_ = 0;
};

TEST_F(UsableThreadCountTest, WithoutAQuotaTheAffinityDecides) {
  EXPECT_EQ(Count(), affinity_);
  Write("/proc/self/cgroup", "0::/app\n");
  Write("/sys/fs/cgroup/app/cpu.max", "max 100000\n");
  EXPECT_EQ(Count(), affinity_);
}

TEST_F(UsableThreadCountTest, AffinityIsTheCallersNotTheMachines) {
  // taskset and cpusets hide CPUs that the machine still lists.
  cpu_set_t before;
  CPU_ZERO(&before);
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(Count(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(Count(), affinity_);
}

TEST_F(UsableThreadCountTest, QuotaIsRoundedUp) {
  Write("/proc/self/cgroup", "0::/app\n");
  const std::pair<const char*, int32_t> cases[] = {
      {"10000 100000\n", 1}, {"100000 100000\n", 1}, {"150000 100000\n", 2},
      {"200000 100000", 2},  {"50000 25000\n", 2},   {"9900000 100000\n", 99},
  };
  for (const auto& [text, cpus] : cases) {
    Write("/sys/fs/cgroup/app/cpu.max", text);
    EXPECT_EQ(Count(), AtMost(cpus)) << text;
  }
}

TEST_F(UsableThreadCountTest, SmallestQuotaOfAllAncestorsBinds) {
  // Kubernetes limits the pod, the parent of the container's group.
  Write("/proc/self/cgroup", "0::/pod/app/worker\n");
  Write("/sys/fs/cgroup/pod/cpu.max", "50000 100000\n");
  Write("/sys/fs/cgroup/pod/app/cpu.max", "400000 100000\n");
  Write("/sys/fs/cgroup/pod/app/worker/cpu.max", "max 100000\n");
  EXPECT_EQ(Count(), 1);
}

TEST_F(UsableThreadCountTest, GroupNamedByTheHostIsFoundAtTheMount) {
  // In a container the kernel may name the group by its place on the host
  // while only the group itself is mounted.
  Write("/proc/self/cgroup", "0::/docker/0123\n");
  Write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(Count(), 1);
  Write("/proc/self/cgroup", "0::/../../escape\n");
  Write("/escape/cpu.max", "max 100000\n");
  EXPECT_EQ(Count(), 1);
}

TEST_F(UsableThreadCountTest, ReadsTheFirstHierarchysFiles) {
  Write("/proc/self/cgroup",
        "5:memory:/app\n4:cpu,cpuacct:/app\n1:name=systemd:/\n");
  Write("/sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/app/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Count(), affinity_);
  Write("/sys/fs/cgroup/cpu/app/cpu.cfs_quota_us", "70000\n");
  EXPECT_EQ(Count(), 1);
}

TEST_F(UsableThreadCountTest, GarbageIsNoLimit) {
  Write("/proc/self/cgroup", "0::/app\nnonsense\n:::\n");
  for (const char* text : {"", "x y\n", "0 100000\n", "100000 0\n", "-5 10\n",
                           "100000\n", "1 2 3\n"}) {
    Write("/sys/fs/cgroup/app/cpu.max", text);
    EXPECT_EQ(Count(), affinity_) << text;
  }
}

}  // namespace
}  // namespace kvasir

#include "cache/memory/host_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// The resident pages of this process in bytes.
int64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

TEST(HostMemoryTest, AddressesCostNothing) {
  // A pool reserves for its whole budget, which may be more than the machine
  // has.
  const int64_t before = ResidentBytes();
  const auto memory = MakeHostMemory();
  const auto base = memory->Reserve(int64_t{1} << 40);
  ASSERT_TRUE(base.ok()) << base.status();
  EXPECT_EQ(memory->committed_bytes(), 0);
  EXPECT_LT(ResidentBytes() - before, 8 * kMiB);
}

TEST(HostMemoryTest, CommittedPagesCostNothingBeforeTheyAreTouched) {
  // What an idle daemon takes is what its requests have written.
  const auto memory = MakeHostMemory();
  std::byte* const base = *memory->Reserve(1024 * kMiB);
  const int64_t before = ResidentBytes();
  ASSERT_TRUE(memory->Commit(0, 512 * kMiB).ok());
  EXPECT_EQ(memory->committed_bytes(), 512 * kMiB);
  EXPECT_LT(ResidentBytes() - before, 8 * kMiB);
  std::memset(base, 1, 64 * kMiB);
  EXPECT_GT(ResidentBytes() - before, 56 * kMiB);
}

TEST(HostMemoryTest, DecommittedPagesGoBackToTheSystemAndComeBackEmpty) {
  // Contract C6 measures the process, not our own counter.
  const auto memory = MakeHostMemory();
  std::byte* const base = *memory->Reserve(128 * kMiB);
  ASSERT_TRUE(memory->Commit(0, 128 * kMiB).ok());
  std::memset(base, 1, 128 * kMiB);
  const int64_t touched = ResidentBytes();
  memory->Decommit(32 * kMiB, 96 * kMiB);
  EXPECT_EQ(memory->committed_bytes(), 32 * kMiB);
  EXPECT_LT(ResidentBytes(), touched - 80 * kMiB);
  EXPECT_EQ(base[32 * kMiB - 1], std::byte{1});
  ASSERT_TRUE(memory->Commit(32 * kMiB, 96 * kMiB).ok());
  EXPECT_EQ(base[32 * kMiB], std::byte{0});
}

TEST(HostMemoryTest, TheRangeBeginsAtAHugePage) {
  // Otherwise the first blocks could never lie in one.
  const auto memory = MakeHostMemory();
  std::byte* const base = *memory->Reserve(kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(base) % (2 * kMiB), 0u);
}

TEST(HostMemoryTest, AnImpossibleRangeIsAStatusWithItsSize) {
  // More than the processor can address.
  const auto memory = MakeHostMemory();
  const auto base = memory->Reserve(int64_t{1} << 60);
  ASSERT_EQ(base.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(base.status().message(), "1152921504"))
      << base.status();
}

TEST(HostMemoryDeathTest, UncommittedPagesAreNotReadable) {
  // A kernel that runs past the pool must stop there, not read old keys.
  const auto memory = MakeHostMemory();
  volatile std::byte* const base = *memory->Reserve(4 * kMiB);
  ASSERT_TRUE(memory->Commit(0, kMiB).ok());
  EXPECT_DEATH(base[kMiB] = std::byte{1}, "");
}

TEST(HostMemoryDeathTest, StopsRangesThatAreNotItsOwn) {
  // mprotect on a foreign page would be somebody else's crash.
  const auto memory = MakeHostMemory();
  EXPECT_DEATH((void)memory->Commit(0, kMiB), "nothing reserved");
  ASSERT_TRUE(memory->Reserve(4 * kMiB).ok());
  EXPECT_DEATH((void)memory->Commit(3 * kMiB, 2 * kMiB), "in 4194304 bytes");
  EXPECT_DEATH((void)memory->Commit(1, kMiB), "pages of");
  EXPECT_DEATH((void)memory->Reserve(kMiB), "reserved before");
}

}  // namespace
}  // namespace kvasir

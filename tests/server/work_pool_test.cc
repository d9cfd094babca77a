#include "server/work_pool.h"

#include <atomic>
#include <string>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/status_mapping.h"

namespace kvasir {
namespace {

// A full queue passes; a cache that is too small, which is what the client was
// told, does not.
TEST(WorkPoolTest, FullIsAPassingRefusal) {
  absl::Notification begun;
  absl::Notification go_on;
  std::atomic<int> done = 0;
  {
    WorkPool pool({.max_tasks = 2, .task_name = "parcels"});
    ASSERT_TRUE(pool.Post([&] {
                      begun.Notify();
                      go_on.WaitForNotification();
                      ++done;
                    })
                    .ok());
    begun.WaitForNotification();
    EXPECT_TRUE(pool.Post([&done] { ++done; }).ok());
    EXPECT_TRUE(pool.Post([&done] { ++done; }).ok());
    const absl::Status full = pool.Post([&done] { ++done; });
    EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
    EXPECT_EQ(full.message(), "2 parcels wait, at most 2");
    EXPECT_TRUE(RetryDelay(full).has_value());
    EXPECT_THAT(ToGrpcStatus(full).error_details(),
                testing::HasSubstr("QUEUE_FULL"));
    go_on.Notify();
  }
  EXPECT_EQ(done, 3) << "what waits is run before the end";
}

// A call may hold as much as a message can; a number of them is no bound.
TEST(WorkPoolTest, BytesThatWaitAreBounded) {
  absl::Notification begun;
  absl::Notification go_on;
  WorkPool pool({.max_bytes = 100, .task_name = "parcels"});
  ASSERT_TRUE(pool.Post(
                      [&] {
                        begun.Notify();
                        go_on.WaitForNotification();
                      },
                      150)
                  .ok())
      << "alone it may be larger, or it would never have its turn";
  begun.WaitForNotification();
  const absl::Status full = pool.Post([] {}, 1);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(full.message(),
            "parcels of 150 bytes wait, at most 100, found 1 more");
  EXPECT_TRUE(RetryDelay(full).has_value());
  go_on.Notify();
  absl::Notification freed;
  while (!pool.Post([&freed] { freed.Notify(); }, 100).ok()) {
  }
  freed.WaitForNotification();
}

TEST(WorkPoolTest, ThreadsWorkAtTheSameTime) {
  absl::Barrier together(3);
  WorkPool pool({.threads = 2});
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pool.Post([&together] { together.Block(); }).ok());
  }
  together.Block();  // for ever if one task waits for the other
}

// One that waits for minutes must not hold up those that need no wait.
TEST(WorkPoolTest, WatchesLetTasksPass) {
  WorkPool pool({.max_tasks = 2, .task_name = "parcels"});
  std::atomic<bool> ready = false;
  absl::Notification seen;
  ASSERT_TRUE(pool.Watch([&](bool ending) {
                    if (ready) seen.Notify();
                    return ready.load();
                  })
                  .ok());
  ASSERT_TRUE(pool.Watch([](bool) { return false; }).ok());
  absl::Notification passed;
  while (!pool.Post([&passed] { passed.Notify(); }).ok()) {
  }
  passed.WaitForNotification();
  EXPECT_FALSE(seen.HasBeenNotified());
  EXPECT_TRUE(absl::IsResourceExhausted(pool.Watch([](bool) { return true; })));
  ready = true;
  seen.WaitForNotification();
  std::atomic<bool> told_of_the_end = false;
  {
    WorkPool ended({});
    ASSERT_TRUE(ended
                    .Watch([&](bool ending) {
                      told_of_the_end = ending;
                      return false;
                    })
                    .ok());
  }
  EXPECT_TRUE(told_of_the_end) << "the last chance";
}

}  // namespace
}  // namespace kvasir

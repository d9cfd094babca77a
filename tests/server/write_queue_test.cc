#include "server/write_queue.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

constexpr absl::Duration kStart = absl::Seconds(1000);
constexpr absl::Duration kTimeout = absl::Seconds(30);
constexpr absl::Duration kEndless = absl::InfiniteDuration();

grpc::ByteBuffer Message(size_t bytes) {
  const grpc::Slice slice(std::string(bytes, 'x'));
  return grpc::ByteBuffer(&slice, 1);
}

WriteQueue FullQueue(int64_t messages) {
  WriteQueue queue({.messages = messages, .timeout = kTimeout});
  for (int64_t i = 0; i < messages; ++i) queue.Push(Message(3), kStart);
  return queue;
}

// Messages of 1, 2, ... `count` bytes.
class CountingSource final : public MessageSource {
 public:
  CountingSource(size_t count, int* made) : count_(count), made_(made) {}
  grpc::ByteBuffer Next() override {
    ++*made_;
    return Message(++told_);
  }
  bool done() const override { return told_ == count_; }

 private:
  const size_t count_;
  size_t told_ = 0;
  int* const made_;
};

// What is there once, and told many times, must not be there many times.
TEST(WriteQueueTest, ASourceIsAskedWhenItIsItsTurn) {
  WriteQueue queue({.messages = 10, .bytes = 100});
  int made = 0;
  queue.Push(Message(50), kStart);
  queue.Push(std::make_unique<CountingSource>(3, &made), kStart);
  queue.Push(Message(60), kStart);
  EXPECT_EQ(queue.size(), 3);
  EXPECT_EQ(made, 0);
  EXPECT_TRUE(queue.full());
  std::vector<size_t> sizes;
  while (!queue.empty()) sizes.push_back(queue.Pop(kStart).Length());
  EXPECT_EQ(sizes, (std::vector<size_t>{50, 1, 2, 3, 60}));
  EXPECT_FALSE(queue.full());
  queue.Push(std::make_unique<CountingSource>(3, &made), kStart);
  queue.Pop(kStart);
  queue.Clear(kStart);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(made, 4) << "what nobody reads is not made";
}

TEST(WriteQueueTest, IsFullFromHighToLowWater) {
  WriteQueue queue({.messages = 10});
  for (int i = 0; i < 9; ++i) queue.Push(Message(3), kStart);
  EXPECT_FALSE(queue.full());
  queue.Push(Message(3), kStart);
  EXPECT_TRUE(queue.full());
  queue.Push(Message(3), kStart);
  EXPECT_EQ(queue.size(), 11) << "what comes is taken";
  while (queue.size() > 6) {
    queue.Pop(kStart);
    EXPECT_TRUE(queue.full()) << queue.size();
  }
  queue.Pop(kStart);
  EXPECT_FALSE(queue.full());
  queue.Push(Message(3), kStart);
  EXPECT_FALSE(queue.full());
}

TEST(WriteQueueTest, LargeMessagesFillItAsWell) {
  WriteQueue queue({.messages = 100, .bytes = 1000});
  queue.Push(Message(600), kStart);
  EXPECT_FALSE(queue.full());
  queue.Push(Message(600), kStart);
  EXPECT_TRUE(queue.full());
  EXPECT_EQ(queue.Pop(kStart).Length(), 600u);
  EXPECT_TRUE(queue.full()) << "more than half of the bytes";
  queue.Clear(kStart);
  EXPECT_FALSE(queue.full());
  EXPECT_TRUE(queue.empty());
}

// A queue of one message would never be full, or never empty enough.
TEST(WriteQueueTest, TheSmallestQueueWorks) {
  WriteQueue queue({.messages = 1});
  queue.Push(Message(3), kStart);
  EXPECT_TRUE(queue.full());
  queue.Pop(kStart);
  EXPECT_FALSE(queue.full());
}

TEST(WriteQueueTest, NobodyIsHurriedWhoKeepsNothingWaiting) {
  WriteQueue queue({.messages = 10, .timeout = kTimeout});
  for (int i = 0; i < 9; ++i) queue.Push(Message(3), kStart);
  EXPECT_EQ(queue.TimeLeft(kStart + absl::Hours(9)), kEndless);
}

TEST(WriteQueueTest, AReaderThatHasStoppedHasOneTimeout) {
  const WriteQueue queue = FullQueue(10);
  EXPECT_EQ(queue.TimeLeft(kStart), kTimeout);
  EXPECT_EQ(queue.TimeLeft(kStart + absl::Seconds(20)), absl::Seconds(10));
  EXPECT_EQ(queue.TimeLeft(kStart + kTimeout), absl::ZeroDuration());
}

TEST(WriteQueueTest, EachWriteGivesANewTimeoutUntilPatienceEnds) {
  WriteQueue queue = FullQueue(100000);
  absl::Duration now = kStart;
  const absl::Duration step = absl::Seconds(10);
  while (queue.TimeLeft(now) > absl::ZeroDuration()) {
    ASSERT_TRUE(queue.full());
    ASSERT_LT(now, kStart + absl::Hours(1));
    now += step;
    if (queue.TimeLeft(now) == absl::ZeroDuration()) break;
    queue.NoteProgress(now);
    queue.Pop(now);
  }
  EXPECT_EQ(now, kStart + kSlowReaderPatience * kTimeout);
}

TEST(WriteQueueTest, AllTimesOfBeingFullCountTogether) {
  WriteQueue queue({.messages = 2, .timeout = kTimeout});
  absl::Duration now = kStart;
  // Full for 29 seconds, then well for an hour, again and again.
  int rounds = 0;
  while (true) {
    queue.Push(Message(3), now);
    queue.Push(Message(3), now);
    now += absl::Seconds(29);
    if (queue.TimeLeft(now) == absl::ZeroDuration()) break;
    ASSERT_LT(++rounds, 100);
    queue.NoteProgress(now);
    queue.Pop(now);
    EXPECT_EQ(queue.TimeLeft(now), kEndless);
    queue.Pop(now);
    now += absl::Hours(1);
  }
  EXPECT_EQ(rounds, 10) << "300 seconds in all";
}

// The request has ended and holds nothing but this; but it may not be for ever.
TEST(WriteQueueTest, TheRestMustBeReadInTime) {
  WriteQueue queue = FullQueue(10);
  queue.NoteLast(kStart);
  EXPECT_EQ(queue.TimeLeft(kStart), kSlowReaderPatience * kTimeout);
  EXPECT_EQ(queue.TimeLeft(kStart + absl::Seconds(299)), absl::Seconds(1));
  EXPECT_EQ(queue.TimeLeft(kStart + absl::Hours(1)), absl::ZeroDuration());
}

// Against a twin that counts anew after each operation.
TEST(WriteQueueTest, CountsAsANaiveTwin) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  WriteQueue queue({.messages = 20, .bytes = 500});
  std::deque<size_t> twin;
  bool full = false;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 || twin.empty()) {
      twin.push_back(random() % 60);
      queue.Push(Message(twin.back()), kStart);
    } else {
      EXPECT_EQ(queue.Pop(kStart).Length(), twin.front());
      twin.pop_front();
    }
    size_t bytes = 0;
    for (const size_t size : twin) bytes += size;
    if (twin.size() >= 20 || bytes >= 500) full = true;
    if (twin.size() <= 10 && bytes <= 250) full = false;
    ASSERT_EQ(queue.full(), full) << i;
    ASSERT_EQ(queue.size(), static_cast<int64_t>(twin.size()));
  }
}

}  // namespace
}  // namespace kvasir

#include "server/token_bucket.h"

#include <random>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

constexpr absl::Duration kStart = absl::Seconds(1000);

TEST(TokenBucketTest, BeginsFullAndFillsEvenly) {
  TokenBucket bucket(600, kStart);
  EXPECT_TRUE(bucket.FullAt(kStart));
  EXPECT_EQ(bucket.TimeUntil(600, kStart), absl::ZeroDuration());
  bucket.Take(600, kStart);
  EXPECT_FALSE(bucket.FullAt(kStart));
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kStart + absl::Seconds(3)), 30);
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kStart + absl::Hours(3)), 600)
      << "an idle hour is worth no more than a minute";
}

TEST(TokenBucketTest, TellsHowLongItTakes) {
  TokenBucket bucket(600, kStart);
  bucket.Take(600, kStart);
  const absl::Duration wait = bucket.TimeUntil(100, kStart);
  EXPECT_GE(wait, absl::Seconds(10));
  EXPECT_LE(wait, absl::Seconds(10.1));
  EXPECT_EQ(bucket.TimeUntil(100, kStart + wait), absl::ZeroDuration())
      << "who waits as long as he was told is let in";
}

// A prompt above the limit of a minute would wait for ever.
TEST(TokenBucketTest, MoreThanABucketWaitsForAFullOne) {
  TokenBucket bucket(60, kStart);
  EXPECT_EQ(bucket.TimeUntil(1000, kStart), absl::ZeroDuration());
  bucket.Take(1000, kStart);
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kStart), -940);
  EXPECT_GT(bucket.TimeUntil(1, kStart), absl::Minutes(15));
}

TEST(TokenBucketTest, WhatIsGivenBackDoesNotOverflow) {
  TokenBucket bucket(60, kStart);
  bucket.Take(50, kStart);
  bucket.Take(-50, kStart);
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kStart), 60);
  bucket.Take(-50, kStart);
  EXPECT_DOUBLE_EQ(bucket.LevelAt(kStart), 60);
}

// Over any time nobody gets more than a bucket and what has flowed in since.
TEST(TokenBucketTest, NobodyGetsMoreThanTheRate) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  TokenBucket bucket(6000, kStart);
  absl::Duration now = kStart;
  double taken = 0;
  for (int i = 0; i < 10000; ++i) {
    now += absl::Milliseconds(random() % 500);
    const int64_t wanted = 1 + random() % 500;
    if (bucket.TimeUntil(wanted, now) > absl::ZeroDuration()) continue;
    bucket.Take(wanted, now);
    taken += static_cast<double>(wanted);
    const double minutes = absl::FDivDuration(now - kStart, absl::Minutes(1));
    ASSERT_LE(taken, 6000 * (minutes + 1) + 1);
  }
  EXPECT_GT(taken, 6000) << "and everybody gets something";
}

}  // namespace
}  // namespace kvasir

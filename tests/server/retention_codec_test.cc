#include "server/retention_codec.h"

#include "google/protobuf/duration.pb.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(RetentionCodecTest, LevelsStandForPrioritiesInTheirOrder) {
  const auto priority = [](v1::Retention level) {
    return DecodeRetention(level, std::nullopt, nullptr)->retention->priority;
  };
  EXPECT_LT(priority(v1::RETENTION_EPHEMERAL), priority(v1::RETENTION_NORMAL));
  EXPECT_EQ(priority(v1::RETENTION_NORMAL), kDefaultRetentionPriority);
  EXPECT_LT(priority(v1::RETENTION_NORMAL), priority(v1::RETENTION_HIGH));
  EXPECT_LT(priority(v1::RETENTION_HIGH), priority(v1::RETENTION_PINNED));
  EXPECT_TRUE(
      DecodeRetention(v1::RETENTION_PINNED, std::nullopt, nullptr)->pin);
  EXPECT_FALSE(DecodeRetention(v1::RETENTION_HIGH, 100, nullptr)->pin);
}

// Unset is not the default: what a prefix is kept by already stays.
TEST(RetentionCodecTest, NothingSaidChangesNothing) {
  const auto unset =
      DecodeRetention(v1::RETENTION_UNSPECIFIED, std::nullopt, nullptr);
  EXPECT_FALSE(unset->retention.has_value());
  EXPECT_EQ(DecodeRetention(v1::RETENTION_UNSPECIFIED, 0, nullptr)
                ->retention->priority,
            0);
  google::protobuf::Duration ttl;
  ttl.set_seconds(3);
  const auto timed =
      DecodeRetention(v1::RETENTION_UNSPECIFIED, std::nullopt, &ttl);
  EXPECT_EQ(timed->retention->ttl, absl::Seconds(3));
  EXPECT_EQ(timed->retention->priority, kDefaultRetentionPriority);
}

TEST(RetentionCodecTest, WhatIsNoneIsRefused) {
  for (const int32_t priority : {-1, 101}) {
    EXPECT_FALSE(DecodeRetention(v1::RETENTION_NORMAL, priority, nullptr).ok());
  }
  google::protobuf::Duration ttl;
  ttl.set_seconds(-1);
  EXPECT_FALSE(DecodeRetention(v1::RETENTION_NORMAL, std::nullopt, &ttl).ok());
}

}  // namespace
}  // namespace kvasir

#include "server/version_codec.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

EngineStats StatsOf(const VersionInfo& info) {
  EngineStats stats;
  TierSnapshot tier;
  tier.block_bytes = 100;
  stats.cache.tiers = {tier};
  stats.cache.block_tokens = 16;
  VersionSnapshot other;
  other.id = VersionId(info.id.value() + 1);
  other.hit_tokens = 99;
  VersionSnapshot version;
  version.id = info.id;
  version.hit_tokens = 48;
  version.lease_count = 2;
  version.blocks = {
      .free = 0, .reserved = 1, .pinned = 3, .cached = 5, .leaving = 0};
  stats.cache.versions = {other, version};
  return stats;
}

VersionInfo SomeVersion() {
  VersionInfo info;
  info.id = VersionId(4);
  info.model = "m";
  info.label = "green";
  info.fingerprint = "f00d";
  info.weights_digest = "beef";
  info.tokenizer_digest = "cafe";
  info.path = "/models/m.gguf";
  info.state = VersionState::kServing;
  info.quota_blocks = 7;
  info.created = absl::FromUnixSeconds(1234);
  return info;
}

TEST(EncodeVersion, TellsAllThatIsKnown) {
  const VersionInfo info = SomeVersion();
  const v1::CacheVersion wire = EncodeVersion(info, StatsOf(info), "f16");
  EXPECT_EQ(wire.version(), "f00d");
  EXPECT_EQ(wire.label(), "green");
  EXPECT_EQ(wire.model(), "m");
  EXPECT_EQ(wire.tokenizer_digest(), "cafe");
  EXPECT_EQ(wire.weights_digest(), "beef");
  EXPECT_EQ(wire.model_path(), "/models/m.gguf");
  EXPECT_EQ(wire.kv_dtype(), v1::KV_DTYPE_F16);
  EXPECT_EQ(wire.block_size(), 16);
  EXPECT_EQ(wire.create_time().seconds(), 1234);
  EXPECT_EQ(wire.quota_blocks(), 7);
  EXPECT_EQ(wire.hit_tokens(), 48);
  EXPECT_EQ(wire.lease_count(), 2);
  EXPECT_EQ(wire.reserved_blocks(), 1);
  EXPECT_EQ(wire.pinned_blocks(), 3);
  EXPECT_EQ(wire.cached_blocks(), 5);
  EXPECT_EQ(wire.byte_size(), 900);
}

// The copy of the statistics may be older than the version.
TEST(EncodeVersion, WhatTheStatisticsDoNotKnowHasNothing) {
  VersionInfo info = SomeVersion();
  const EngineStats stats = StatsOf(info);
  info.id = VersionId(9);
  const v1::CacheVersion wire = EncodeVersion(info, stats, "f16");
  EXPECT_EQ(wire.byte_size(), 0);
  EXPECT_EQ(wire.hit_tokens(), 0);
}

TEST(EncodeVersion, EveryStateHasAName) {
  VersionInfo info = SomeVersion();
  const auto state = [&info] { return EncodeVersion(info, {}, "f16").state(); };
  EXPECT_EQ(state(), v1::CACHE_VERSION_STATE_SERVING);
  info.active = true;
  EXPECT_EQ(state(), v1::CACHE_VERSION_STATE_ACTIVE);
  info.active = false;
  info.state = VersionState::kWarming;
  EXPECT_EQ(state(), v1::CACHE_VERSION_STATE_BUILDING);
  info.state = VersionState::kDraining;
  EXPECT_EQ(state(), v1::CACHE_VERSION_STATE_DRAINING);
  info.state = VersionState::kRetired;
  EXPECT_EQ(state(), v1::CACHE_VERSION_STATE_RETIRED);
}

TEST(AnswerListVersions, OldestFirstInPages) {
  FakeBackend backend;
  for (const char* label : {"b", "c", "d"}) {
    backend.AddVersion(label, VersionState::kServing);
  }
  // Models are loaded side by side, and each one's versions are told together.
  backend.ListBackwards();
  v1::ListCacheVersionsRequest request;
  request.set_page_size(3);
  std::vector<std::string> labels;
  for (int pages = 0; pages < 2; ++pages) {
    const auto answer = AnswerListVersions(request, backend);
    ASSERT_TRUE(answer.ok()) << answer.status();
    for (const auto& version : answer->versions()) {
      labels.push_back(version.label());
    }
    EXPECT_EQ(answer->next_page_token().empty(), pages == 1);
    request.set_page_token(answer->next_page_token());
  }
  EXPECT_THAT(labels, ElementsAre("tiny@12345678", "b", "c", "d"));
}

TEST(AnswerListVersions, ModelsAreToldApart) {
  const FakeBackend backend;
  v1::ListCacheVersionsRequest request;
  request.set_model("tiny");
  EXPECT_EQ(AnswerListVersions(request, backend)->versions_size(), 1);
  request.set_model("other");
  EXPECT_TRUE(absl::IsNotFound(AnswerListVersions(request, backend).status()));
}

class DecodeCreateVersionTest : public testing::Test {
 protected:
  DecodeCreateVersionTest() { backend_.SetStats(StatsOf(SomeVersion())); }

  void ExpectInvalid(const std::string& start) {
    const absl::Status status = DecodeCreateVersion(wire_, backend_).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith(start));
    EXPECT_THAT(std::string(status.message()), HasSubstr("found"));
    wire_.Clear();
  }

  FakeBackend backend_;
  v1::CreateCacheVersionRequest wire_;
};

TEST_F(DecodeCreateVersionTest, NothingMeansTheSameWeightsWithoutALimit) {
  const auto order = DecodeCreateVersion(wire_, backend_);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->path, "");
  EXPECT_EQ(order->label, "");
  EXPECT_EQ(order->quota_blocks, 0);
  EXPECT_EQ(order->warm_prefixes, 0);
}

TEST_F(DecodeCreateVersionTest, EverythingIsPassedOn) {
  wire_.set_model("m");
  wire_.set_label("green");
  wire_.set_model_path("/a/b.gguf");
  wire_.set_warm_prefix_count(5);
  wire_.set_quota_bytes(350);
  auto order = DecodeCreateVersion(wire_, backend_);
  ASSERT_TRUE(order.ok()) << order.status();
  EXPECT_EQ(order->model, "m");
  EXPECT_EQ(order->label, "green");
  EXPECT_EQ(order->path, "/a/b.gguf");
  EXPECT_EQ(order->warm_prefixes, 5);
  EXPECT_EQ(order->quota_blocks, 3) << "whole blocks";
  wire_.set_quota_blocks(12);
  EXPECT_EQ(DecodeCreateVersion(wire_, backend_)->quota_blocks, 12);
}

TEST_F(DecodeCreateVersionTest, LimitsAreNamed) {
  wire_.set_label(std::string(kMaxVersionLabelBytes + 1, 'x'));
  ExpectInvalid("label: wanted at most 128 bytes");
  for (const char* label : {"a b", "a\n", "\xc3\xa9"}) {
    wire_.set_label(label);
    ExpectInvalid("label: wanted");
  }
  wire_.set_model_path("/" + std::string(kMaxModelPathBytes, 'x'));
  ExpectInvalid("model_path: wanted at most 4095 bytes");
  for (const std::string& path :
       {std::string("b.gguf"), std::string("~/b.gguf"),
        std::string("/a\0b", 4)}) {
    wire_.set_model_path(path);
    ExpectInvalid("model_path: wanted an absolute path");
  }
  wire_.set_warm_prefix_count(-1);
  ExpectInvalid("warm_prefix_count: wanted 0 to");
  wire_.set_warm_prefix_count(std::numeric_limits<int32_t>::max());
  ExpectInvalid("warm_prefix_count: wanted 0 to");
  wire_.set_quota_bytes(-1);
  ExpectInvalid("quota_bytes: wanted 0 or more");
  wire_.set_quota_blocks(-1);
  ExpectInvalid("quota_blocks: wanted 0 or more");
  wire_.set_quota_bytes(99);
  ExpectInvalid("quota_bytes: wanted at least one block of 100 bytes");
}

TEST(VersionMoves, ANameIsWantedAndAFingerprintIsOne) {
  FakeBackend backend;
  backend.AddVersion("green", VersionState::kServing);
  v1::ActivateCacheVersionRequest activate;
  EXPECT_TRUE(absl::IsInvalidArgument(Activate(activate, backend).status()));
  activate.set_version("green-fingerprint");
  EXPECT_EQ(Activate(activate, backend)->version().label(), "green");
  v1::DeleteCacheVersionRequest del;
  EXPECT_TRUE(absl::IsInvalidArgument(Delete(del, backend).status()));
  del.set_model("tiny");
  del.set_version("green");
  EXPECT_TRUE(Delete(del, backend).ok());
  v1::RollbackCacheVersionRequest back;
  EXPECT_TRUE(RollBack(back, backend).ok());
  EXPECT_THAT(backend.moves(), ElementsAre("activate /green",
                                           "delete tiny/green", "roll back "));
}

TEST(VersionMoves, TheEnginesRefusalIsTheAnswer) {
  FakeBackend backend;
  backend.move_status = absl::FailedPreconditionError("no");
  EXPECT_EQ(RollBack({}, backend).status(), backend.move_status);
}

TEST(EncodeVersionProgress, PhasesHaveNames) {
  VersionProgress progress;
  progress.done = 5;
  progress.total = 9;
  progress.warmed_tokens = 3;
  const auto phase = [&progress] {
    return EncodeVersionProgress(progress).progress().phase();
  };
  EXPECT_EQ(phase(), "loading");
  progress.phase = VersionProgress::Phase::kWarming;
  EXPECT_EQ(phase(), "warming");
  progress.phase = VersionProgress::Phase::kDone;
  EXPECT_EQ(phase(), "done");
  const v1::CreateCacheVersionResponse wire = EncodeVersionProgress(progress);
  EXPECT_EQ(wire.progress().done_count(), 5);
  EXPECT_EQ(wire.progress().total_count(), 9);
  EXPECT_EQ(wire.warmed_tokens(), 3);
}

}  // namespace
}  // namespace kvasir

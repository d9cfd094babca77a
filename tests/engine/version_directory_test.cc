#include "engine/version_directory.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/concurrent.h"
#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

using ::testing::HasSubstr;

VersionDirectory::Entry EntryOf(int id, const std::string& model,
                                VersionState state, bool active) {
  const auto version = IdleVersion(VersionId(id));
  VersionInfo info;
  info.id = version->id();
  info.model = model;
  info.label = version->label();
  info.state = state;
  info.active = active;
  info.weights_digest = "digest";
  return {version, info};
}

TEST(VersionDirectoryTest, NamesChooseTheVersion) {
  VersionDirectory directory;
  EXPECT_EQ(directory.Resolve("", "").status().code(),
            absl::StatusCode::kNotFound);
  directory.Publish({EntryOf(0, "m", VersionState::kDraining, false),
                     EntryOf(1, "n", VersionState::kServing, true),
                     EntryOf(2, "m", VersionState::kServing, true),
                     EntryOf(3, "m", VersionState::kServing, false)});
  EXPECT_EQ((*directory.Resolve("", ""))->id(), VersionId(2))
      << "of the model that was first";
  EXPECT_EQ((*directory.Resolve("n", ""))->id(), VersionId(1));
  EXPECT_EQ((*directory.Resolve("m", "tiny@3"))->id(), VersionId(3));
  EXPECT_EQ((*directory.Resolve("", "tiny@3"))->id(), VersionId(3));
  EXPECT_EQ(directory.Resolve("n", "tiny@3").status().code(),
            absl::StatusCode::kNotFound);
  const auto draining = directory.Resolve("m", "tiny@0");
  EXPECT_EQ(draining.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(draining.status().message()), HasSubstr("draining"));
  EXPECT_EQ(directory.List().size(), 4u);
  EXPECT_EQ(directory.FindRevision("other"), nullptr);
}

TEST(VersionDirectoryTest, AReaderSeesOneMomentOrTheOther) {
  // While an operator goes to and fro, a request has chosen before or after:
  // there is always exactly one active version.
  VersionDirectory directory;
  const auto publish = [&](bool first) {
    directory.Publish({EntryOf(0, "m", VersionState::kServing, first),
                       EntryOf(1, "m", VersionState::kServing, !first)});
  };
  publish(true);
  RunConcurrently({[&] {
                     for (int i = 0; i < 500; ++i) publish(i % 2 == 0);
                   },
                   [&] {
                     for (int i = 0; i < 500; ++i) {
                       EXPECT_TRUE(directory.Resolve("", "").ok());
                     }
                   },
                   [&] {
                     for (int i = 0; i < 500; ++i) {
                       int active = 0;
                       for (const VersionInfo& info : directory.List()) {
                         active += info.active;
                       }
                       EXPECT_EQ(active, 1);
                     }
                   }});
}

TEST(ServedVersionTest, FollowsTheCache) {
  // CTX-2: what is advertised and what is checked are one number, now.
  CachePromise promise(64);
  ServedVersion::Parts parts = FakeVersion(
      "v", std::make_shared<FakeRunner>(FakeLayout(4)), 100, &promise);
  parts.id = VersionId(0);
  const ServedVersion version(std::move(parts));
  EXPECT_EQ(version.max_context(), 64);
  EXPECT_EQ(version.longest_context(), 64);
  promise.pinned_tokens = 20;
  EXPECT_EQ(version.max_context(), 64);
  EXPECT_EQ(version.longest_context(), 84);
  promise.tokens = 1000;
  EXPECT_EQ(version.max_context(), 100);
  EXPECT_EQ(version.longest_context(), 100);
  EXPECT_EQ(version.limits().cache_tokens, 1000);
  EXPECT_GT(version.longest_token_bytes(), 1u);
}

}  // namespace
}  // namespace kvasir

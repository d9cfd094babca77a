#include "server/cli/version_report.h"

#include <string>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace kvasir::cli {
namespace {

v1::CacheVersion SomeVersion() {
  v1::CacheVersion version;
  version.set_label("green");
  version.set_model("smol");
  version.set_version("0123456789abcdef0123");
  version.set_state(v1::CACHE_VERSION_STATE_ACTIVE);
  version.set_pinned_blocks(1000);
  version.set_cached_blocks(500);
  version.set_byte_size(int64_t{3} << 20);
  version.set_hit_tokens(12345);
  version.set_lease_count(2);
  version.mutable_create_time()->set_seconds(1000);
  return version;
}

TEST(RenderVersions, ALinePerVersion) {
  v1::ListCacheVersionsResponse versions;
  *versions.add_versions() = SomeVersion();
  v1::CacheVersion& old = *versions.add_versions();
  old.set_label("blue");
  old.set_model("smol");
  old.set_version("fedcba9876543210");
  old.set_state(v1::CACHE_VERSION_STATE_DRAINING);
  old.mutable_create_time()->set_seconds(910);
  EXPECT_EQ(RenderVersions(versions, absl::FromUnixSeconds(1030), false),
            "LABEL  MODEL  STATE     ACTIVE  BLOCKS   SIZE  HIT TOKENS  "
            "LEASES     AGE  FINGERPRINT\n"
            "green  smol   active    yes      1,500  3 MiB      12,345  "
            "     2  30.0 s  0123456789ab\n"
            "blue   smol   draining  -            0    0 B           0  "
            "     0   2m00s  fedcba987654\n");
}

// A deleted version that requests still hold looks like any that drains, but
// there is no way back to it.
TEST(RenderVersions, ADeletedOneIsToldApart) {
  v1::ListCacheVersionsResponse versions;
  v1::CacheVersion& version = *versions.add_versions();
  version = SomeVersion();
  version.set_state(v1::CACHE_VERSION_STATE_DRAINING);
  version.set_retiring(true);
  EXPECT_NE(RenderVersions(versions, absl::Now(), false).find("retiring"),
            std::string::npos);
}

// A label comes from whoever made the version, and must not steer a terminal.
TEST(RenderVersions, ForeignTextIsMadeVisible) {
  v1::ListCacheVersionsResponse versions;
  versions.add_versions()->set_label("a\x1b[2J\nb");
  EXPECT_NE(RenderVersions(versions, absl::Now(), false).find("a\\x1b[2J\\nb"),
            std::string::npos);
}

TEST(DescribeCreation, EveryPhaseInALine) {
  v1::CreateCacheVersionResponse report;
  report.mutable_progress()->set_phase("loading");
  report.mutable_progress()->set_done_count(5 << 20);
  report.mutable_progress()->set_total_count(20 << 20);
  EXPECT_EQ(DescribeCreation(report), "loading: 5 MiB of 20 MiB");
  report.mutable_progress()->set_phase("warming");
  report.mutable_progress()->set_done_count(1);
  report.mutable_progress()->set_total_count(3);
  report.set_warmed_tokens(1);
  EXPECT_EQ(DescribeCreation(report),
            "warming: 1 of 3 prefixes, 1 token resident");
  report.mutable_progress()->set_phase("done");
  *report.mutable_version() = SomeVersion();
  EXPECT_EQ(DescribeCreation(report),
            "created green of smol, fingerprint 0123456789ab");
}

TEST(DescribeDeletion, TellsWhoStillHoldsIt) {
  v1::CacheVersion version = SomeVersion();
  EXPECT_EQ(DescribeDeletion(version),
            "deleted green; it is there until 2 requests have ended");
  version.set_lease_count(1);
  EXPECT_EQ(DescribeDeletion(version),
            "deleted green; it is there until 1 request has ended");
  version.set_lease_count(0);
  EXPECT_EQ(DescribeDeletion(version), "deleted green");
}

}  // namespace
}  // namespace kvasir::cli

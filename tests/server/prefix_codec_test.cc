#include "server/prefix_codec.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

CachedPrefix Some(char digit, int64_t hits = 0, int64_t tokens = 16) {
  CachedPrefix prefix;
  prefix.id = std::string(kPrefixIdDigits, digit);
  prefix.hit_count = hits;
  prefix.token_count = tokens;
  prefix.priority = 50;
  prefix.created = absl::FromUnixSeconds(100);
  return prefix;
}

std::string Ids(const std::vector<CachedPrefix>& prefixes) {
  std::string ids;
  for (const CachedPrefix& prefix : prefixes) ids += prefix.id[0];
  return ids;
}

TEST(EncodePrefix, LeavesOutWhatNeverHappens) {
  CachedPrefix prefix = Some('a', 3);
  v1::Prefix wire = EncodePrefix(prefix);
  EXPECT_EQ(wire.prefix_id(), prefix.id);
  EXPECT_EQ(wire.hit_count(), 3);
  EXPECT_EQ(wire.retention(), v1::RETENTION_NORMAL);
  EXPECT_EQ(wire.priority(), 50);
  EXPECT_EQ(wire.create_time().seconds(), 100);
  EXPECT_FALSE(wire.has_last_hit_time());
  EXPECT_FALSE(wire.has_expire_time());
  EXPECT_FALSE(wire.has_ttl());
  EXPECT_FALSE(wire.has_pin_expire_time());
  prefix.pinned = true;
  prefix.pinned_until = absl::InfiniteFuture();
  EXPECT_EQ(EncodePrefix(prefix).retention(), v1::RETENTION_PINNED);
  EXPECT_FALSE(EncodePrefix(prefix).has_pin_expire_time());
  prefix.pinned_until = absl::FromUnixSeconds(200);
  prefix.last_hit = absl::FromUnixSeconds(150);
  prefix.expires = absl::FromUnixSeconds(300);
  prefix.ttl = absl::Seconds(150);
  wire = EncodePrefix(prefix);
  EXPECT_EQ(wire.pin_expire_time().seconds(), 200);
  EXPECT_EQ(wire.last_hit_time().seconds(), 150);
  EXPECT_EQ(wire.expire_time().seconds(), 300);
  EXPECT_EQ(wire.ttl().seconds(), 150);
}

TEST(EncodePrefix, NamesTheLevelOfAPriority) {
  CachedPrefix prefix = Some('a');
  for (const auto& [priority, level] :
       {std::pair{10, v1::RETENTION_EPHEMERAL},
        std::pair{90, v1::RETENTION_HIGH},
        std::pair{51, v1::RETENTION_UNSPECIFIED}}) {
    prefix.priority = priority;
    EXPECT_EQ(EncodePrefix(prefix).retention(), level);
  }
}

TEST(DecodeFilter, TakesAllFieldsAndRefusesNonsenseByName) {
  const FakeBackend backend;
  v1::PrefixFilter wire;
  wire.set_version(backend.info().cache_fingerprint);
  wire.set_salt("");
  wire.set_salt_hash("0123456789abcdef");
  wire.set_pinned(false);
  wire.set_min_tokens(64);
  const auto selection = DecodeFilter(wire, "tiny", backend);
  ASSERT_TRUE(selection.ok()) << selection.status();
  EXPECT_EQ(selection->model, "tiny");
  EXPECT_EQ(selection->version, backend.info().cache_version);
  EXPECT_EQ(selection->salt, "");
  EXPECT_EQ(selection->salt_hash, "0123456789abcdef");
  EXPECT_EQ(selection->pinned, false);
  EXPECT_EQ(selection->min_tokens, 64);
  EXPECT_FALSE(DecodeFilter({}, "", backend)->salt.has_value());

  const auto message = [&backend](const v1::PrefixFilter& bad) {
    const absl::Status status = DecodeFilter(bad, "", backend).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  wire.set_min_tokens(-1);
  EXPECT_THAT(message(wire), HasSubstr("filter.min_tokens: wanted"));
  wire.set_salt_hash("0123");
  EXPECT_THAT(message(wire), HasSubstr("filter.salt_hash: wanted 16"));
  wire.set_salt_hash("0123456789ABCDEF");
  EXPECT_THAT(message(wire), HasSubstr("filter.salt_hash"));
  wire.set_salt(std::string(1025, 'x'));
  EXPECT_THAT(message(wire), HasSubstr("filter.salt: wanted at most 1024"));
}

TEST(DecodeOrderBy, KnowsFourWords) {
  EXPECT_EQ(*DecodeOrderBy(""), PrefixSort::kKey);
  EXPECT_EQ(*DecodeOrderBy("last_hit"), PrefixSort::kLastHit);
  const absl::Status status = DecodeOrderBy("age").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("order_by: wanted key"));
}

TEST(FindPrefixPage, OrdersByTheNumberThenTheId) {
  std::vector<CachedPrefix> all = {Some('c', 5, 16), Some('a', 5, 32),
                                   Some('b', 9, 16)};
  all[0].last_hit = absl::FromUnixSeconds(7);
  all[2].last_hit = absl::FromUnixSeconds(6);
  const auto order = [&all](PrefixSort sort) {
    return Ids(FindPrefixPage(all, sort, 0, "")->prefixes);
  };
  EXPECT_EQ(order(PrefixSort::kKey), "abc");
  EXPECT_EQ(order(PrefixSort::kHits), "bac");
  EXPECT_EQ(order(PrefixSort::kTokens), "abc");
  EXPECT_EQ(order(PrefixSort::kLastHit), "cba") << "never hit comes last";
}

// Prefixes come and go all the time; a walk through the pages tells those that
// stay exactly once.
TEST(FindPrefixPage, PagesSurviveWhatComesAndGoes) {
  for (const PrefixSort sort : {PrefixSort::kKey, PrefixSort::kHits}) {
    std::vector<CachedPrefix> all = {Some('1', 4), Some('3', 3), Some('5', 2),
                                     Some('7', 1)};
    const auto first = FindPrefixPage(all, sort, 2, "");
    EXPECT_EQ(Ids(first->prefixes), "13");
    ASSERT_NE(first->next_token, "");
    all.erase(all.begin(), all.begin() + 2);
    all.insert(all.begin(), Some('0', 9));
    const auto second = FindPrefixPage(all, sort, 2, first->next_token);
    EXPECT_EQ(Ids(second->prefixes), "57");
    EXPECT_EQ(second->next_token, "");
  }
}

TEST(FindPrefixPage, RefusesForeignTokensAndSizes) {
  const std::vector<CachedPrefix> all = {Some('1', 4), Some('3', 3)};
  const std::string token =
      FindPrefixPage(all, PrefixSort::kHits, 1, "")->next_token;
  for (const std::string& bad : std::vector<std::string>{
           "x", token + "0", "hits.5", "hits.05." + all[0].id, "hits..",
           "key.0." + all[0].id}) {
    const absl::Status status =
        FindPrefixPage(all, PrefixSort::kHits, 1, bad).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("page_token: "));
  }
  EXPECT_THAT(
      std::string(
          FindPrefixPage(all, PrefixSort::kKey, -1, "").status().message()),
      HasSubstr("page_size: wanted 0 to 100"));
}

}  // namespace
}  // namespace kvasir

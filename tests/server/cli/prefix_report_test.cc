#include "server/cli/prefix_report.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir::cli {
namespace {

using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1000);

v1::Prefix SomePrefix(const std::string& id) {
  v1::Prefix prefix;
  prefix.set_prefix_id(id + std::string(64 - id.size(), '0'));
  prefix.set_model("smol");
  prefix.set_version("smol@1234");
  prefix.set_token_count(1024);
  prefix.set_block_count(64);
  prefix.set_byte_size(int64_t{22} << 20);
  prefix.set_hit_count(1234);
  prefix.set_priority(50);
  prefix.mutable_create_time()->set_seconds(100);
  prefix.mutable_last_hit_time()->set_seconds(989);
  return prefix;
}

TEST(RenderPrefixes, ALinePerPrefix) {
  v1::ListPrefixesResponse list;
  *list.add_prefixes() = SomePrefix("0123456789abcdef");
  v1::Prefix& other = *list.add_prefixes();
  other = SomePrefix("fedcba98");
  other.clear_last_hit_time();
  other.set_salt_hash("0011223344556677");
  other.set_pinned(true);
  other.mutable_pin_expire_time()->set_seconds(1600);
  other.mutable_expire_time()->set_seconds(1009);
  other.set_ref_count(2);
  EXPECT_EQ(
      RenderPrefixes(list, kNow, false),
      "ID            TOKENS    SIZE   HITS  LAST HIT  HELD BY  PRIORITY   "
      "PINNED  EXPIRES  TENANT            VERSION\n"
      "0123456789ab   1,024  22 MiB  1,234   11s ago        0        50        "
      "-        -  -                 smol@1234\n"
      "fedcba980000   1,024  22 MiB  1,234     never        2        50  for "
      "10m    in 9s  0011223344556677  smol@1234\n");
}

// A pin by a shown id must never hit another prefix.
TEST(RenderPrefixes, ShowsAsManyDigitsAsTellThemApart) {
  v1::ListPrefixesResponse list;
  *list.add_prefixes() = SomePrefix("0123456789abcdef1");
  *list.add_prefixes() = SomePrefix("0123456789abcdef2");
  const std::string text = RenderPrefixes(list, kNow, false);
  EXPECT_THAT(text, HasSubstr("0123456789abcdef1  "));
  EXPECT_THAT(text, HasSubstr("0123456789abcdef2  "));
}

TEST(RenderPrefix, AllThatIsKnown) {
  v1::Prefix prefix = SomePrefix("01");
  prefix.mutable_ttl()->set_seconds(600);
  const std::string text = RenderPrefix(prefix, kNow);
  EXPECT_THAT(text, HasSubstr(prefix.prefix_id()));
  EXPECT_THAT(text, HasSubstr("1,024 tokens, 64 blocks, 22 MiB"));
  EXPECT_THAT(text, HasSubstr("1,234, last 11s ago"));
  EXPECT_THAT(text, HasSubstr("10m"));
  EXPECT_THAT(text, HasSubstr("15m ago"));
}

TEST(DescribePin, SaysForHowLong) {
  v1::Prefix prefix = SomePrefix("0123456789abcdef");
  EXPECT_EQ(DescribePin(prefix, kNow),
            "unpinned 0123456789ab (1,024 tokens, 22 MiB)");
  prefix.set_pinned(true);
  EXPECT_EQ(DescribePin(prefix, kNow),
            "pinned 0123456789ab (1,024 tokens, 22 MiB) until it is unpinned");
  prefix.mutable_pin_expire_time()->set_seconds(1090);
  EXPECT_EQ(DescribePin(prefix, kNow),
            "pinned 0123456789ab (1,024 tokens, 22 MiB) for 1m30s");
}

TEST(DescribeEviction, SaysWhatStayed) {
  v1::EvictPrefixesResponse answer;
  answer.set_evicted_block_count(1);
  answer.set_freed_bytes(1 << 20);
  EXPECT_EQ(DescribeEviction(answer, false), "evicted 1 block, 1 MiB");
  answer.set_kept_block_count(3);
  EXPECT_EQ(DescribeEviction(answer, true),
            "would evict 1 block, 1 MiB; 3 blocks would stay, pinned or held "
            "by requests");
}

}  // namespace
}  // namespace kvasir::cli

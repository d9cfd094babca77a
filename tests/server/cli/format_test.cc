#include "server/cli/format.h"

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

#include "server/cli/cache_report.h"
#include "server/cli/commands.h"
#include "server/cli/generation.h"

namespace kvasir::cli {
namespace {

TEST(FormatTest, CountsInThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(-1234), "-1,234");
  EXPECT_EQ(Plural(1, "token"), "1 token");
  EXPECT_EQ(Plural(1200, "token"), "1,200 tokens");
}

TEST(FormatTest, SpansWithThreeDigits) {
  EXPECT_EQ(FormatSpan(absl::Microseconds(42)), "42.0 us");
  EXPECT_EQ(FormatSpan(absl::Microseconds(1500)), "1.50 ms");
  EXPECT_EQ(FormatSpan(absl::Milliseconds(183)), "183 ms");
  EXPECT_EQ(FormatSpan(absl::Microseconds(999900)), "1.00 s") << "not 1000 ms";
  EXPECT_EQ(FormatSpan(absl::Seconds(2.514)), "2.51 s");
  EXPECT_EQ(FormatSpan(absl::Seconds(59.96)), "1m00s");
  EXPECT_EQ(FormatSpan(absl::Seconds(125)), "2m05s");
}

TEST(FormatTest, RatesAndShares) {
  EXPECT_EQ(FormatRate(41.23), "41.2");
  EXPECT_EQ(FormatRate(999.7), "1,000");
  EXPECT_EQ(FormatRate(1204.3), "1,204");
  EXPECT_EQ(FormatRate(0), "0.00");
  EXPECT_EQ(FormatPercent(0.484), "48.4 %");
}

TEST(TableTest, NumbersRightWordsLeftNoBlanksAtTheEnd) {
  Table table({{"NAME"}, {"SIZE", true}, {"NOTE"}});
  table.AddRow({"a", "1,000", ""});
  table.AddRow({"longer", "7", "x"});
  EXPECT_EQ(table.Render(false),
            "NAME     SIZE  NOTE\n"
            "a       1,000\n"
            "longer      7  x\n");
  EXPECT_EQ(table.Render(true).substr(0, 4), "\033[1m");
}

// A name in another script must not push its row out of line.
TEST(TableTest, WidthsCountCharacters) {
  Table table({{"N"}, {"M"}});
  table.AddRow({"\xc3\xa9t\xc3\xa9", "1"});
  table.AddRow({"abc", "2"});
  EXPECT_EQ(table.Render(false), "N    M\n\xc3\xa9t\xc3\xa9  1\nabc  2\n");
  EXPECT_EQ(RenderPairs({{"\xc3\xa9", "1"}, {"ab", "2"}}),
            "\xc3\xa9   1\nab  2\n");
}

// Text of a model on a terminal: escape sequences move cursors and titles.
TEST(VisibleTest, ControlCharacters) {
  EXPECT_EQ(Visible("a\tb\n\r\x1b[2J\x7f"), "a\\tb\\n\\r\\x1b[2J\\x7f");
  EXPECT_EQ(Visible("\xc3\xa9"), "\xc3\xa9");
}

v1::CacheStats SomeStats() {
  v1::CacheStats stats;
  stats.set_model("smollm2");
  stats.set_version("smollm2@12345678");
  stats.set_block_tokens(16);
  stats.set_token_bytes(46080);
  v1::TierStats& tier = *stats.add_tiers();
  tier.set_tier(v1::CACHE_TIER_DEVICE);
  tier.set_capacity_bytes(int64_t{512} << 20);
  tier.set_free_blocks(690);
  tier.set_cached_blocks(35);
  tier.set_pinned_blocks(3);
  tier.set_usage_ratio(3.0 / 728);
  tier.set_fragmentation_ratio(0.012);
  stats.set_lookup_tokens(1224);
  stats.set_hit_tokens(592);
  stats.mutable_sample_time()->set_seconds(100);
  return stats;
}

TEST(CacheReportTest, LinesUp) {
  EXPECT_EQ(
      RenderCacheStats(SomeStats(), false),
      "model    smollm2\n"
      "version  smollm2@12345678\n"
      "block    16 tokens, 720 KiB (45 KiB per token)\n"
      "\n"
      "TIER       SIZE  BLOCKS  FREE  CACHED  PINNED  RESERVED  LEAVING  IN "
      "USE  UNFILLED\n"
      "device  512 MiB     728   690      35       3         0        0   "
      "0.4 %     1.2 %\n"
      "\n"
      "requests       0 running, 0 waiting, 0 preemptions\n"
      "prompt tokens  1,224 looked up, 592 found (48.4 %)\n"
      "recomputed     0 tokens\n"
      "prefix blocks  0 findable, 0 inserted, 0 were there already\n"
      "evicted        0 for room, 0 flushed, 0 by a resize, "
      "0 with their version, 0 by their ttl, 0 by a quota, 0 by name\n"
      "kept           0 pins of 0 blocks, 0 blocks for tenants\n");
}

TEST(CacheWatchTest, RatesComeFromDifferences) {
  CacheWatch watch;
  v1::CacheStats stats = SomeStats();
  const std::string first = watch.Line(stats);
  EXPECT_EQ(first.size(), CacheWatch::Header().size());
  EXPECT_NE(first.find("        -"), std::string::npos) << "no rate yet";
  stats.mutable_sample_time()->set_seconds(102);
  stats.set_lookup_tokens(1424);
  stats.set_hit_tokens(642);
  stats.set_evicted_blocks(10);
  const std::string second = watch.Line(stats);
  EXPECT_NE(second.find("25.0 %"), std::string::npos) << second;
  EXPECT_NE(second.find("100"), std::string::npos) << second;
  EXPECT_NE(second.find("5.00"), std::string::npos) << second;
  EXPECT_EQ(second.size(), first.size());
}

// Scripts tell usage errors, a missing server and a failed call apart.
// gRPC would send such text and the server would have to refuse it unseen.
TEST(RunCliTest, TextThatIsNotUtf8IsRefusedBeforeTheCall) {
  EXPECT_EQ(RunCli({"generate", "--prompt", "caf\xe9"}), kExitUsage);
  EXPECT_EQ(RunCli({"cancel", "x", "--reason", "\xff"}), kExitUsage);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(CheckText("stdin", "ab\xc3\xa9\xe9"));
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "kvasir: stdin: wanted UTF-8, found the byte 0xe9 at offset 4\n");
  EXPECT_TRUE(CheckText("stdin", "ab\xc3\xa9"));
}

TEST(RunCliTest, InputThatIsNoTextIsRefusedOnOneLine) {
  const auto said = [](const std::vector<std::string>& arguments) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(RunCli(arguments), kExitUsage);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said({"generate", "-p", "x", "--system-file", "/tmp"}),
            "kvasir: cannot read /tmp: Is a directory\n");
  EXPECT_EQ(said({"generate", "-p", "x", "--system-file", "/dev/zero"}),
            "kvasir: /dev/zero: wanted at most 67108864 bytes, found more\n");
  for (const char* seed : {"-1", "18446744073709551616", "1.5"}) {
    EXPECT_NE(said({"generate", "-p", "x", "--seed", seed}).find("2^64 - 1"),
              std::string::npos);
  }
  EXPECT_EQ(said({"bogus"}).find("kvasir: "), 0u);
}

TEST(RunCliTest, LostOutputIsNoSuccess) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        if (std::freopen("/dev/full", "w", stdout) == nullptr) std::abort();
        std::exit(RunCli({"version"}));
      },
      testing::ExitedWithCode(kExitOutput), "could not write all output");
}

TEST(RunCliTest, ExitCodesWithoutAServer) {
  EXPECT_EQ(RunCli({"version"}), kExitOk);
  EXPECT_EQ(RunCli({"--help"}), kExitOk);
  EXPECT_EQ(RunCli({}), kExitUsage);
  EXPECT_EQ(RunCli({"nonsense"}), kExitUsage);
  EXPECT_EQ(RunCli({"models", "-o", "xml"}), kExitUsage);
  EXPECT_EQ(RunCli({"models", "--timeout", "soon"}), kExitUsage);
  EXPECT_EQ(RunCli({"cache"}), kExitUsage);
  EXPECT_EQ(RunCli({"cache", "stats", "--interval", "1ms"}), kExitUsage);
  EXPECT_EQ(RunCli({"detokenize", "x"}), kExitUsage);
  EXPECT_EQ(RunCli({"models", "--addr", "127.0.0.1:1"}), kExitConnect);
  EXPECT_EQ(RunCli({"health", "--addr", "127.0.0.1:1"}), 2);
  EXPECT_EQ(RunCli({"health", "--docker", "--addr", "127.0.0.1:1"}), 1);
}

}  // namespace
}  // namespace kvasir::cli

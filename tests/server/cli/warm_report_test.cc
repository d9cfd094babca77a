#include "server/cli/warm_report.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir::cli {
namespace {

using testing::HasSubstr;

TEST(WarmReportTest, ATableSaysForEachPromptWhatIsResidentAndWhere) {
  v1::WarmCacheResponse last;
  last.mutable_progress()->set_phase("incomplete");
  last.mutable_progress()->set_done_count(1);
  last.mutable_progress()->set_total_count(2);
  last.set_computed_tokens(1300);
  v1::WarmedPrefix& good = *last.add_prefixes();
  good.set_token_count(1280);
  good.add_resident()->set_tier(v1::CACHE_TIER_DEVICE);
  good.mutable_resident(0)->set_token_count(1280);
  v1::WarmedPrefix& bad = *last.add_prefixes();
  bad.set_prompt_index(1);
  bad.set_code(8);
  bad.set_message("no\nroom");
  const std::string text = RenderWarmed(last, false);
  EXPECT_THAT(text, HasSubstr("PROMPT"));
  EXPECT_THAT(text, HasSubstr("1,280 device"));
  EXPECT_THAT(text, HasSubstr("ok"));
  EXPECT_THAT(text, HasSubstr("no\\nroom")) << "foreign text stays in its row";
  EXPECT_THAT(text, HasSubstr("incomplete: 1 of 2 prompts, 1,300 tokens "
                              "computed\n"));
}

}  // namespace
}  // namespace kvasir::cli

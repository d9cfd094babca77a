#include "server/config_reload.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/config_option.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<ConfigValue> Values() {
  std::vector<ConfigValue> values;
  for (const ConfigOption& option : AllConfigOptions()) {
    values.push_back({option.key, option.default_text, "default"});
  }
  return values;
}

void Set(std::vector<ConfigValue>& values, const std::string& key,
         const std::string& value) {
  for (ConfigValue& one : values) {
    if (one.key == key) one = {key, value, "file x:1", ConfigRank::kFile};
  }
}

TEST(CompareConfig, TellsWhatIsTakenFromWhatNeedsARestart) {
  const std::vector<ConfigValue> before = Values();
  std::vector<ConfigValue> after = before;
  Set(after, "log.level", "info");
  EXPECT_THAT(CompareConfig(before, after).taken, IsEmpty())
      << "the default, written down";
  Set(after, "log.level", "debug");
  Set(after, "auth.token_file", "x");
  Set(after, "engine.threads", "7");
  const ConfigChange change = CompareConfig(before, after);
  EXPECT_THAT(change.taken, ElementsAre("auth.token_file", "log.level"));
  EXPECT_THAT(change.needs_restart, ElementsAre("--threads"));
  EXPECT_TRUE(change.Takes("log.level"));
  EXPECT_FALSE(change.Takes("engine.threads"));
}

// A change that was put off must be told again at the next reload.
TEST(AfterReload, KeepsWhatNeedsARestart) {
  const std::vector<ConfigValue> before = Values();
  std::vector<ConfigValue> fresh = before;
  Set(fresh, "log.level", "debug");
  Set(fresh, "engine.threads", "7");
  const std::vector<ConfigValue> after = AfterReload(before, fresh);
  const ConfigChange again = CompareConfig(after, fresh);
  EXPECT_THAT(again.taken, IsEmpty());
  EXPECT_THAT(again.needs_restart, ElementsAre("--threads"));
}

TEST(IsReloadable, NamesOptionsThatExist) {
  size_t count = 0;
  for (const ConfigOption& option : AllConfigOptions()) {
    count += IsReloadable(option.key) ? 1 : 0;
  }
  EXPECT_EQ(count, 9u);
}

}  // namespace
}  // namespace kvasir

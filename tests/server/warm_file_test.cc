#include "server/warm_file.h"

#include <fstream>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/temp_path.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr char kWhole[] = R"(
# what the agents of tenant-a begin with
prefixes:
  - text: |
      You are a helpful
      assistant.
    salt: tenant-a
    priority: 80
    ttl: 1h30m
    pin: yes
  - chat:
      - {role: system, content: Be brief.}
      - role: user
        content: "Hello: world"
  - token_ids: [1, 2, 300]
    pin: false
)";

TEST(WarmFileTest, EveryKindOfPrefixWithItsSettingsAndLine) {
  const auto file = ParseWarmFile("warm.yaml", kWhole);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto& prompts = file->request.prompts();
  ASSERT_EQ(prompts.size(), 3);
  EXPECT_EQ(file->lines, (std::vector<int>{4, 11, 15}));
  EXPECT_EQ(prompts[0].text(), "You are a helpful\nassistant.\n");
  EXPECT_EQ(prompts[0].salt(), "tenant-a");
  EXPECT_EQ(prompts[0].priority(), 80);
  EXPECT_EQ(prompts[0].ttl().seconds(), 5400);
  EXPECT_EQ(prompts[0].retention(), v1::RETENTION_PINNED);
  ASSERT_EQ(prompts[1].chat().messages_size(), 2);
  EXPECT_EQ(prompts[1].chat().messages(1).role(), "user");
  EXPECT_EQ(prompts[1].chat().messages(1).content(), "Hello: world");
  EXPECT_FALSE(prompts[1].chat().add_generation_prompt())
      << "it may go on in any way";
  EXPECT_TRUE(prompts[1].chat().has_add_generation_prompt());
  EXPECT_FALSE(prompts[1].has_salt());
  ASSERT_EQ(prompts[2].token_ids().ids_size(), 3);
  EXPECT_EQ(prompts[2].token_ids().ids(2), 300u);
  EXPECT_EQ(prompts[2].retention(), v1::RETENTION_UNSPECIFIED);
}

// Whoever wrote the file must find the fault without the model being loaded.
TEST(WarmFileTest, FaultsAreNamedWithTheirLine) {
  const std::pair<const char*, const char*> kFaults[] = {
      {"", "w: wanted one key, \"prefixes\""},
      {"[1, 2]", "w:1: wanted one key, \"prefixes\""},
      {"prefixes: 7", "w:1: prefixes: wanted a list"},
      {"prefixes: []", "w:1: prefixes: wanted a list"},
      {"prefixes:\n- text: a\nother: b", "w:1: wanted one key"},
      {"prefixes:\n- just words", "w:2: wanted a prefix as {text"},
      {"prefixes:\n- salt: x", "w:2: wanted text, chat or token_ids, found"},
      {"prefixes:\n- text: a\n  text: b", "w:3: key \"text\" comes twice"},
      {"prefixes:\n- text: a\n  token_ids: [1]", "w:3: wanted one of text"},
      {"prefixes:\n- text: [a]", "w:2: text: wanted a text"},
      {"prefixes:\n- text: a\n  colour: red", "w:3: unknown key \"colour\""},
      {"prefixes:\n- text: a\n  priority: 101",
       "w:3: priority: wanted a whole number"},
      {"prefixes:\n- text: a\n  ttl: soon", "w:3: ttl: "},
      {"prefixes:\n- text: a\n  ttl: 0", "w:3: ttl: wanted a time above 0"},
      {"prefixes:\n- text: a\n  pin: perhaps", "w:3: pin: "},
      {"prefixes:\n- token_ids: 5", "w:2: token_ids: wanted a list"},
      {"prefixes:\n- token_ids: [1, -2]", "w:2: token_ids: "},
      {"prefixes:\n- chat: hello", "w:2: chat: wanted a list of messages"},
      {"prefixes:\n- chat: []", "w:2: chat: wanted a list of messages"},
      {"prefixes:\n- chat:\n  - hello", "w:3: chat: wanted {role"},
      {"prefixes:\n- chat:\n  - {content: a}", "w:3: chat: wanted a role"},
      {"prefixes:\n- chat:\n  - {role: a, name: b}",
       "w:3: chat: unknown key \"name\""},
      {"prefixes:\n- text: a\n - b", "w:3: "},
      {"prefixes: [{text: \"\xff\"}]", "w:1: "},
  };
  for (const auto& [text, fault] : kFaults) {
    const auto file = ParseWarmFile("w", text);
    ASSERT_FALSE(file.ok()) << text;
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(file.status().message()), StartsWith(fault))
        << text;
  }
}

TEST(WarmFileTest, BoundsAreNamed) {
  std::string many = "prefixes:\n";
  for (size_t i = 0; i <= kMaxWarmFilePrefixes; ++i) many += "- text: a\n";
  EXPECT_THAT(std::string(ParseWarmFile("w", many).status().message()),
              HasSubstr("wanted at most 4096, found 4097"));
}

TEST(WarmFileTest, AFileThatIsNotThereIsNamed) {
  EXPECT_TRUE(absl::IsNotFound(ReadWarmFile("/nowhere/warm.yaml").status()));
  const std::string path = TempPath("warm.yaml");
  std::ofstream(path) << kWhole;
  const auto file = ReadWarmFile(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->request.prompts_size(), 3);
  std::ofstream(path) << "prefixes: 1\n";
  EXPECT_THAT(std::string(ReadWarmFile(path).status().message()),
              StartsWith(path + ":1: "));
}

}  // namespace
}  // namespace kvasir

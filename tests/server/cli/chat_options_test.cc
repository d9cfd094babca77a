#include "server/cli/chat_options.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/temp_path.h"

namespace kvasir::cli {
namespace {

using ::testing::HasSubstr;

std::string File(const std::string& name, const std::string& text) {
  const std::string path = TempPath(name);
  std::ofstream(path) << text;
  return path;
}

// What is wrong with the command line; empty if nothing.
std::string Parse(ChatOptions& options, std::vector<std::string> arguments) {
  CLI::App app;
  options.AddTo(app);
  options.AddEndTo(app);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

TEST(ChatOptionsTest, NothingIsAnEmptyConversation) {
  ChatOptions options;
  EXPECT_EQ(Parse(options, {}), "");
  EXPECT_FALSE(options.Given());
  const std::optional<v1::ChatPrompt> prompt = options.Read();
  ASSERT_TRUE(prompt.has_value());
  EXPECT_EQ(prompt->ByteSizeLong(), 0u);
}

TEST(ChatOptionsTest, EachIsInTheConversation) {
  ChatOptions options;
  EXPECT_EQ(Parse(options,
                  {"--system", "Be brief.", "--messages",
                   File("chat.json", R"([{"role": "user", "content": "Hi"}])"),
                   "--tools", File("tools.json", R"([{"name": "f"}, {}])"),
                   "--chat-template-kwargs", R"({"think": false})",
                   "--no-add-generation-prompt", "--continue-final-message"}),
            "");
  EXPECT_TRUE(options.HasMessages());
  const std::optional<v1::ChatPrompt> prompt = options.Read();
  ASSERT_TRUE(prompt.has_value());
  ASSERT_EQ(prompt->messages_size(), 2);
  EXPECT_EQ(prompt->messages(0).role(), "system");
  EXPECT_EQ(prompt->messages(0).content(), "Be brief.");
  EXPECT_EQ(prompt->messages(1).content(), "Hi");
  ASSERT_EQ(prompt->tools_size(), 2);
  EXPECT_EQ(prompt->tools(0), R"({"name":"f"})");
  EXPECT_EQ(prompt->template_kwargs().fields().count("think"), 1u);
  EXPECT_TRUE(prompt->has_add_generation_prompt());
  EXPECT_FALSE(prompt->add_generation_prompt());
  EXPECT_TRUE(prompt->continue_final_message());
}

// One of them alone asks for a chat; else it would be read and forgotten.
TEST(ChatOptionsTest, EachMakesAChat) {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{"--system", ""},
                                             {"--system-file", "x"},
                                             {"--messages", "x"},
                                             {"--tools", "x"},
                                             {"--chat-template-kwargs", "{}"},
                                             {"--add-generation-prompt"},
                                             {"--no-add-generation-prompt"},
                                             {"--continue-final-message"}}) {
    ChatOptions options;
    EXPECT_EQ(Parse(options, arguments), "");
    EXPECT_TRUE(options.Given()) << arguments[0];
  }
}

// Templates put a system message of their own where there is none.
TEST(ChatOptionsTest, AnEmptySystemMessageIsOne) {
  ChatOptions options;
  EXPECT_EQ(Parse(options, {"--system", ""}), "");
  EXPECT_EQ(options.Read()->messages_size(), 1);
}

TEST(ChatOptionsTest, FaultsNameOptionOrFile) {
  ChatOptions both;
  EXPECT_THAT(Parse(both, {"--system", "a", "--system-file", "b"}),
              HasSubstr("--system-file"));
  ChatOptions no_object;
  EXPECT_EQ(Parse(no_object, {"--chat-template-kwargs", "[1]"}),
            "--chat-template-kwargs: wanted a JSON object, found array");
  for (const char* option : {"--system-file", "--messages", "--tools"}) {
    ChatOptions missing;
    EXPECT_EQ(Parse(missing, {option, "/nowhere/at.all"}), "");
    testing::internal::CaptureStderr();
    EXPECT_FALSE(missing.Read().has_value());
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "kvasir: cannot read /nowhere/at.all: No such file or "
              "directory\n");
  }
}

}  // namespace
}  // namespace kvasir::cli

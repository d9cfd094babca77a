#include "server/cli/json_input.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string FaultOf(const std::string& messages) {
  const auto read = ReadMessages(messages);
  EXPECT_FALSE(read.ok());
  return std::string(read.status().message());
}

TEST(JsonInputTest, MessagesWithTheFieldsOfTheWire) {
  const auto messages = ReadMessages(R"([
    {"role": "user", "content": "\u00e9?", "name": "ann"},
    {"role": "assistant", "tool_calls": [
      {"id": "c1", "name": "add", "arguments": "{\"a\": 1}"}]},
    {"role": "tool", "content": "3", "tool_call_id": "c1"}])");
  ASSERT_TRUE(messages.ok()) << messages.status();
  ASSERT_EQ(messages->size(), 3u);
  EXPECT_EQ((*messages)[0].content(), "\xc3\xa9?");
  EXPECT_EQ((*messages)[0].name(), "ann");
  EXPECT_EQ((*messages)[1].tool_calls(0).arguments(), "{\"a\": 1}");
  EXPECT_EQ((*messages)[2].tool_call_id(), "c1");
}

// Conversations come out of OpenAI's clients in this form.
TEST(JsonInputTest, ToolCallsMayBeNestedAndContentNull) {
  const auto messages = ReadMessages(R"([
    {"role": "assistant", "content": null, "tool_calls": [
      {"id": "c1", "type": "function",
       "function": {"name": "add", "arguments": {"b": 1, "a": [2]}}}]}])");
  ASSERT_TRUE(messages.ok()) << messages.status();
  const v1::ToolCall& call = messages->at(0).tool_calls(0);
  EXPECT_EQ(call.id(), "c1");
  EXPECT_EQ(call.name(), "add");
  EXPECT_EQ(call.arguments(), R"({"b":1,"a":[2]})");
}

TEST(JsonInputTest, FaultsNameTheMessage) {
  EXPECT_EQ(FaultOf("{}"), "wanted a JSON list of messages, found object");
  EXPECT_EQ(FaultOf("[1,"), "wanted JSON, found a fault at byte 4");
  EXPECT_EQ(FaultOf(R"([{"role": "user"}, 7])"),
            "[1]: wanted an object, found number");
  EXPECT_THAT(FaultOf(R"([{"role": "user", "colour": "red"}])"),
              HasSubstr("colour"));
  EXPECT_THAT(FaultOf(R"([{"tool_calls": [{"function": 1}]}])"),
              HasSubstr("[0]: wanted an object, found number"));
  EXPECT_EQ(FaultOf(R"([{"role": "user", "colour": "red"}])").find('\n'),
            std::string::npos);
}

// The library has an exception of its own for it, which ended the program.
TEST(JsonInputTest, NumbersBeyondAnyTypeAreAFault) {
  EXPECT_EQ(ReadTools("[1e999]").status().message(),
            "wanted JSON, found a number out of range");
}

// Its order and its numbers are what the template shows to the model.
TEST(JsonInputTest, ToolsKeepTheOrderOfTheirMembers) {
  const auto tools = ReadTools(R"([{"z": 1, "a": {"y": 0.5, "b": []}}, {}])");
  ASSERT_TRUE(tools.ok()) << tools.status();
  EXPECT_THAT(*tools, ElementsAre(R"({"z":1,"a":{"y":0.5,"b":[]}})", "{}"));
  EXPECT_THAT(*ReadTools(R"({"type": "function"})"),
              ElementsAre(R"({"type":"function"})"));
  EXPECT_THAT(*ReadTools("[]"), IsEmpty());
  EXPECT_EQ(ReadTools("3").status().message(),
            "wanted a JSON object or a list of them, found number");
}

// Writing it again goes down by recursion.
TEST(JsonInputTest, DeepNestingIsRefused) {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ReadTools(nested(kMaxJsonDepth)).ok());
  for (const int depth : {kMaxJsonDepth + 2, 100000}) {
    EXPECT_EQ(ReadTools(nested(depth)).status().message(),
              "wanted JSON nested at most 128 deep, found more");
  }
  EXPECT_FALSE(
      CheckJsonObject("{\"a\":" + nested(kMaxJsonDepth + 2) + "}").ok());
}

}  // namespace
}  // namespace kvasir::cli

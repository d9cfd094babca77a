#include "server/chat_codec.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/server_testing.h"
#include "tests/support/vocabularies.h"

namespace kvasir {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// A tiny model whose template prints what it is given.
class ChatCodecTest : public testing::Test {
 protected:
  void UseTemplate(const std::string& source) {
    TokenizerSpec spec = TinySpec();
    spec.chat_template = source;
    tokenizer_ = MakeTokenizer(std::move(spec));
    info_ = MakeTinyInfo(*tokenizer_);
  }

  // What the template printed, or the error.
  std::string Rendered() {
    const auto version = MakeTinyVersion(tokenizer_, info_);
    const ServedModel model = ModelOf(*version);
    if (const absl::Status status = CheckChat(wire_); !status.ok()) {
      return std::string(status.message());
    }
    const auto ids = EncodeChatPrompt(wire_, model);
    if (!ids.ok()) return std::string(ids.status().message());
    return tokenizer_->Decode(*ids, false);
  }

  v1::ChatMessage& AddMessage(const std::string& role,
                              const std::string& content) {
    v1::ChatMessage& message = *wire_.add_messages();
    message.set_role(role);
    message.set_content(content);
    return message;
  }

  google::protobuf::Value& Variable(const std::string& name) {
    return (*wire_.mutable_template_kwargs()->mutable_fields())[name];
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  ModelInfo info_;
  v1::ChatPrompt wire_;
};

TEST_F(ChatCodecTest, EveryFieldReachesTheTemplate) {
  UseTemplate("{{ messages|tojson }}{{ tools|tojson }}{{ think }}");
  v1::ChatMessage& call = AddMessage("assistant", "");
  call.add_tool_calls()->set_id("c1");
  call.mutable_tool_calls(0)->set_name("f");
  call.mutable_tool_calls(0)->set_arguments("{\"x\": 1}");
  v1::ChatMessage& answer = AddMessage("tool", "7");
  answer.set_name("f");
  answer.set_tool_call_id("c1");
  wire_.add_tools("{\"b\": 1, \"a\": 2.0}");
  Variable("think").set_bool_value(false);
  EXPECT_EQ(Rendered(),
            R"([{"role": "assistant", "content": null, "tool_calls": [{"id": )"
            R"("c1", "type": "function", "function": {"name": "f", )"
            R"("arguments": {"x": 1}}}]}, {"role": "tool", "content": "7", )"
            R"("name": "f", "tool_call_id": "c1"}][{"b": 1, "a": 2.0}]False)");
}

TEST_F(ChatCodecTest, GenerationPromptUnlessTheLastMessageGoesOn) {
  UseTemplate(
      "{% for m in messages %}{{ m.content }}.{% endfor %}"
      "{{ add_generation_prompt }}");
  AddMessage("user", "xyz");
  EXPECT_EQ(Rendered(), "xyz.True");
  wire_.set_add_generation_prompt(false);
  EXPECT_EQ(Rendered(), "xyz.False");
  wire_.clear_add_generation_prompt();
  wire_.set_continue_final_message(true);
  EXPECT_EQ(Rendered(), "xyz");
  wire_.set_add_generation_prompt(true);
  EXPECT_THAT(Rendered(), StartsWith("chat.continue_final_message: wanted "));
}

// A Struct's numbers are doubles; templates compare and print integers.
TEST_F(ChatCodecTest, WholeNumbersOfVariablesAreIntegers) {
  UseTemplate("{{ v|tojson }}");
  AddMessage("user", "a");
  Variable("v").set_number_value(1.0);
  EXPECT_EQ(Rendered(), "1");
  Variable("v").set_number_value(-0.5);
  EXPECT_EQ(Rendered(), "-0.5");
  Variable("v").set_number_value(1e300);
  EXPECT_EQ(Rendered(), "1e+300");
  Variable("v").set_number_value(9007199254740992.0);
  EXPECT_EQ(Rendered(), "9007199254740992");
  Variable("v").set_number_value(0.1);
  EXPECT_EQ(Rendered(), "0.1");
}

TEST_F(ChatCodecTest, VariablesOfAllKinds) {
  UseTemplate("{{ v|tojson }}");
  AddMessage("user", "a");
  auto& list = *Variable("v").mutable_list_value();
  list.add_values()->set_null_value(google::protobuf::NULL_VALUE);
  list.add_values()->set_bool_value(true);
  list.add_values()->set_string_value("q\"\n\\é");
  auto& fields = *list.add_values()->mutable_struct_value()->mutable_fields();
  fields["z"].set_number_value(1);
  fields["a"].mutable_list_value();
  EXPECT_EQ(Rendered(),
            "[null, true, \"q\\\"\\n\\\\é\", {\"a\": [], \"z\": 1}]");
}

TEST_F(ChatCodecTest, VariablesThatJsonCannotWriteAreRefused) {
  UseTemplate("x");
  AddMessage("user", "a");
  for (const double number : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Variable("v").set_number_value(number);
    EXPECT_THAT(Rendered(),
                StartsWith("chat.template_kwargs.v: wanted a finite number"));
  }
  Variable("v").Clear();
  EXPECT_THAT(Rendered(), StartsWith("chat.template_kwargs.v: wanted a value"));
  google::protobuf::Value* at = &Variable("v");
  for (int i = 0; i < kMaxTemplateKwargsDepth; ++i) {
    at = at->mutable_list_value()->add_values();
  }
  at->set_bool_value(true);
  EXPECT_THAT(Rendered(), HasSubstr("nested at most 16 deep"));
  wire_.clear_template_kwargs();
  Variable("messages").set_bool_value(true);
  EXPECT_THAT(Rendered(), StartsWith("chat.template_kwargs.messages: wanted"));
}

// Each error names the field as the client wrote it.
// A status is one line of text, and a small one.
TEST_F(ChatCodecTest, FaultsQuoteForeignNames) {
  UseTemplate("{{ v }}");
  AddMessage("user", "Hi");
  Variable("a\n\x01" + std::string(5000, 'x'));  // without a value
  const std::string fault = Rendered();
  EXPECT_THAT(fault, StartsWith(R"(chat.template_kwargs["a\n\001xxx)"));
  EXPECT_THAT(fault, HasSubstr("\"]: wanted a value"));
  EXPECT_LT(fault.size(), 300u);
  wire_.clear_template_kwargs();
  google::protobuf::Value* inner = &Variable("v");
  for (int i = 0; i < 40; ++i) {
    inner = &(*inner->mutable_struct_value()->mutable_fields())["long name"];
  }
  EXPECT_LT(Rendered().size(), 500u);
}

TEST_F(ChatCodecTest, FaultsNameTheField) {
  UseTemplate("{{ raise_exception('only tools') }}");
  EXPECT_THAT(Rendered(), StartsWith("chat.messages: wanted at least one"));
  AddMessage("user", "a");
  EXPECT_EQ(Rendered(), "chat.messages: chat template, line 1: only tools");
  wire_.add_tools("{}");
  wire_.add_tools("{}");
  wire_.add_tools("[");
  EXPECT_THAT(Rendered(), StartsWith("chat.tools[2]: wanted JSON"));
  wire_.clear_tools();
  wire_.mutable_messages(0)->add_tool_calls()->set_arguments("7");
  EXPECT_THAT(Rendered(),
              StartsWith("chat.messages[0].tool_calls[0].arguments: wanted a "
                         "JSON object"));
}

TEST_F(ChatCodecTest, LimitsAreNamedAndInclusive) {
  UseTemplate("x");
  AddMessage("user", "a");
  for (int i = 0; i < kMaxTools; ++i) wire_.add_tools("{}");
  EXPECT_EQ(Rendered(), "x");
  wire_.add_tools("{}");
  EXPECT_THAT(Rendered(), AllOf(StartsWith("chat.tools: wanted at most 256"),
                                HasSubstr("257")));
  wire_.clear_tools();
  wire_.add_tools("{\"a\":\"" + std::string(kMaxToolsBytes, 'x') + "\"}");
  EXPECT_THAT(Rendered(), HasSubstr("chat.tools: wanted at most 1048576"));
  wire_.clear_tools();
  for (int i = 0; i <= kMaxToolCalls; ++i) {
    wire_.mutable_messages(0)->add_tool_calls();
  }
  EXPECT_THAT(Rendered(),
              StartsWith("chat.messages[0].tool_calls: wanted at most 128"));
  wire_.mutable_messages(0)->clear_tool_calls();
  wire_.mutable_messages(0)->add_tool_calls()->set_arguments(
      std::string(kMaxToolsBytes + 1, ' '));
  EXPECT_THAT(Rendered(), HasSubstr("bytes of arguments of tool calls"));
  wire_.mutable_messages(0)->clear_tool_calls();
  Variable("v").set_string_value(std::string(kMaxTemplateKwargsBytes, 'v'));
  EXPECT_THAT(Rendered(), StartsWith("chat.template_kwargs: wanted at most "));
}

// What rendering may take is a limit as well, and its name comes through.
TEST_F(ChatCodecTest, RenderingIsBounded) {
  UseTemplate("{{ 'x' * 10**9 }}");
  AddMessage("user", "a");
  EXPECT_THAT(Rendered(), AllOf(StartsWith("chat.messages: chat template"),
                                HasSubstr("kMaxProducedBytes")));
}

TEST_F(ChatCodecTest, AllTextCounts) {
  AddMessage("r", "cc").set_name("nnn");
  wire_.mutable_messages(0)->add_tool_calls()->set_arguments("{}");
  wire_.add_tools("{}  ");
  EXPECT_EQ(TextBytes(wire_), 1u + 2 + 3 + 2 + 4);
  EXPECT_EQ(PrintedBytes(wire_), 1u + 2);
}

// Four thousand empty messages are no text, and yet a lot of work.
TEST_F(ChatCodecTest, EmptyPartsAreWork) {
  AddMessage("r", "cc").add_tool_calls();
  wire_.add_tools("{}");
  EXPECT_EQ(WorkBytes(wire_), 5 + 3 * kWorkBytesOfPart);
  wire_.Clear();
  for (int i = 0; i < kMaxChatMessages; ++i) wire_.add_messages();
  EXPECT_EQ(TextBytes(wire_), 0u);
  EXPECT_EQ(WorkBytes(wire_), kMaxChatMessages * kWorkBytesOfPart);
}

// What is left out has no words, and the rest keeps its places in errors.
TEST_F(ChatCodecTest, MessagesCanBeLeftOut) {
  UseTemplate("{% for m in messages %}{{ m.content }};{% endfor %}");
  for (const char* text : {"ab", "cd", "xy", "z"}) AddMessage("user", text);
  const auto version = MakeTinyVersion(tokenizer_, info_);
  const auto text = [&](MessageRange left_out) {
    const auto ids =
        EncodeConversation(*DecodeChat(wire_), ModelOf(*version), left_out);
    return ids.ok() ? tokenizer_->Decode(*ids, false)
                    : std::string(ids.status().message());
  };
  EXPECT_EQ(text({}), "ab;cd;xy;z;");
  EXPECT_EQ(text({1, 3}), "ab;z;");
  EXPECT_EQ(text({0, 4}), "");
  wire_.mutable_messages(3)->add_tool_calls()->set_arguments("7");
  EXPECT_THAT(text({1, 3}), StartsWith("chat.messages[3].tool_calls[0]."));
}

}  // namespace
}  // namespace kvasir

#include "engine/model/chat_ml_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/vocabularies.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

// The plain form that most fine-tunes carry, with a place for more.
std::string Plain(const std::string& before = "") {
  return before +
         "{% for message in messages %}{{'<|im_start|>' + message['role'] + "
         "'\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
         "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
         "{% endif %}";
}

TEST(ChatMlTemplate, ReadsThatOfSmolLm2) {
  const auto read = ReadChatMlTemplate(ReadFixture(
      KVASIR_SOURCE_DIR, "tests/fixtures/smollm2/chat_template.txt"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->default_system,
            "You are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face");
  EXPECT_FALSE(read->prints_bos);
}

TEST(ChatMlTemplate, ReadsThePlainForm) {
  const auto read = ReadChatMlTemplate(Plain());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->default_system, "");
}

// Double quotes, dots, escapes, minus signs, indented statements on lines of
// their own, and a system message among branches for tools, as Qwen writes.
TEST(ChatMlTemplate, ReadsTheFormOfQwen) {
  const auto read = ReadChatMlTemplate(R"({%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are helpful.' }}
    {%- endif %}
    {{- "\n\n# Tools\n\n{\"name\": <function-name>}}\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou\'re helpful.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == "user" and not message.tool_calls %}
        {{- '<|im_start|>' + message.role + '\n' + message.content
            + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
)");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->default_system, "You're helpful.");
}

TEST(ChatMlTemplate, LineBreaksThatJinjaStripsAreNoText) {
  const auto read = ReadChatMlTemplate(
      "{# ChatML #}\n"
      "{% for message in messages %}\n"
      "  {% set x = 1 %}\n"
      "{{ \"<|im_start|>\" + message.role + \"\n\" + message.content + "
      "\"<|im_end|>\n\" }}"
      "  {% endfor %}\n"
      "{{ '<|im_start|>assistant\n' }}\n");
  // The two blanks before endfor share their line with printed text.
  EXPECT_EQ(read.status().code(), absl::StatusCode::kUnimplemented);
  const auto stripped = ReadChatMlTemplate(
      "{# ChatML #}\n"
      "{% for message in messages %}\n"
      "  {% set x = 1 %}\n"
      "{{ \"<|im_start|>\" + message.role + \"\n\" + message.content + "
      "\"<|im_end|>\n\" }}"
      "{% endfor %}\n"
      "{{ '<|im_start|>assistant\n' }}\n");
  EXPECT_TRUE(stripped.ok()) << stripped.status();
}

// TOK-2, model A: the template prints the BOS token itself.
TEST(ChatMlTemplate, SeesThatTheTemplatePrintsBos) {
  const auto read = ReadChatMlTemplate(Plain("{{ bos_token }}"));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->prints_bos);
}

// A template that is taken for ChatML and is not gives wrong prompts without a
// word; these look like it.
TEST(ChatMlTemplate, RefusesWhatOnlyLooksLikeIt) {
  auto expect_refused = [](const std::string& source, const char* why) {
    const auto read = ReadChatMlTemplate(source);
    EXPECT_EQ(read.status().code(), absl::StatusCode::kUnimplemented) << source;
    EXPECT_THAT(std::string(read.status().message()), HasSubstr(why));
  };
  auto replaced = [](std::string what, std::string by) {
    std::string source = Plain();
    return source.replace(source.find(what), what.size(), by);
  };
  expect_refused("{{ '[INST] ' + message['content'] }}", "no ChatML message");
  expect_refused("", "no ChatML message");
  expect_refused("Hi {{ x }}", "outside of tags: \"Hi \"");
  expect_refused(Plain("{{ x }}\n"), "outside of tags: \"\\n\"");
  expect_refused(replaced("message['content']", "message['content'] | trim"),
                 "no ChatML message");
  expect_refused(replaced("'\\n' + message['c", "'<|im_sep|>' + message['c"),
                 "no ChatML message");
  expect_refused(replaced("'\\n'}}", "''}}"), "no ChatML message");
  expect_refused(replaced("assistant", "model"), "no opening");
  expect_refused(Plain("{{ '<|im_start|>system\\nA<|im_end|>\\n' }}"),
                 "does not depend");
  expect_refused(
      Plain("{% if messages[0].role != 'system' %}"
            "{{ '<|im_start|>system\\nA<|im_end|>\\n' }}"
            "{{ '<|im_start|>system\\nB<|im_end|>\\n' }}{% endif %}"),
      "two default");
  expect_refused(Plain() + "{{ 'never closed }}", "never ends");
}

}  // namespace
}  // namespace kvasir

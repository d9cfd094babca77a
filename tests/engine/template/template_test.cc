#include "engine/template/template.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/template/limits.h"
#include "tests/engine/template/golden.h"

namespace kvasir::jinja {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// The text, or the error in brackets.
std::string Rendered(std::string_view source,
                     std::string_view json = kContext) {
  const auto text = Render(source, json);
  return text.ok() ? *text : absl::StrCat("[", text.status().message(), "]");
}

// TPL-1: slices with a step, reversed lists, namespaces.
TEST(Template, SlicesWithAStepAndNamespaces) {
  EXPECT_EQ(
      Rendered("{%- set seen = namespace(n=0) %}{%- for m in messages[::-1] "
               "%}{%- if m.role == 'user' and not seen.n %}{%- set seen.n = "
               "loop.revindex %}{%- endif %}{%- endfor %}last_user={{ seen.n "
               "}} {{ 'abcdef'[1:5:2] }} {{ "
               "(messages[1:3]|map(attribute='role')|list)[::-1]|join(',') }}",
               R"({"messages": [{"role": "user"}, {"role": "assistant"},
                                {"role": "user"}, {"role": "tool"}]})"),
      "last_user=3 bd user,assistant");
}

// TPL-1: a template that cannot be parsed is an error with line and tag, never
// a silent default.
TEST(Template, UnknownTagsAreNamedWithTheirLine) {
  const auto parsed = Template::Parse("a\n{% if x %}\n{% foo bar %}\n");
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(parsed.status().message(),
            "chat template, line 3: unknown tag \"foo\"");
}

// TPL-2: tojson is json.dumps() with ensure_ascii off and its keywords.
TEST(Template, ToJsonIsWhatPythonWrites) {
  const std::string json =
      R"({"t": {"name":"get_weather","description":"t > 10 & city's",)"
      R"("parameters":{"type":"object","properties":{"città":)"
      R"({"type":"string"}}}}})";
  const std::string plain =
      R"({"name": "get_weather", "description": "t > 10 & city's", )"
      R"("parameters": {"type": "object", "properties": {"città": )"
      R"({"type": "string"}}}})";
  EXPECT_EQ(Rendered("{{ t | tojson }}", json), plain);
  EXPECT_EQ(Rendered("{{ t | tojson(ensure_ascii=False) }}", json), plain);
  EXPECT_EQ(Rendered("{{ t | tojson(separators=(',', ':')) }}", json),
            R"({"name":"get_weather","description":"t > 10 & city's",)"
            R"("parameters":{"type":"object","properties":{"città":)"
            R"({"type":"string"}}}})");
  EXPECT_EQ(Rendered("{{ t.parameters | tojson(indent=2) }}", json),
            "{\n  \"type\": \"object\",\n  \"properties\": {\n    \"città\": "
            "{\n      \"type\": \"string\"\n    }\n  }\n}");
}

constexpr char kStops[] =
    R"({"messages": [{"role": "user", "content": "a"},
                     {"role": "assistant", "content": "b"},
                     {"role": "stop", "content": "x"},
                     {"role": "user", "content": "c"}]})";

// TPL-3: loop controls and block trimming as in the reference.
TEST(Template, LoopControlsAndBlockTrimming) {
  EXPECT_EQ(
      Rendered("{%- for m in messages %}{%- if m.role == 'stop' %}{%- break "
               "%}{%- endif %}[{{ m.role }}]{%- if m.role == 'assistant' "
               "%}{%- continue %}{%- endif %}{{ m.content }};{%- endfor %}",
               kStops),
      "[user]a;[assistant]");
  EXPECT_EQ(Rendered("{% for m in messages %}\n  {% if m.role == 'user' %}\n"
                     "U:{{ m.content }}\n  {% endif %}\n{% endfor %}\nend",
                     kStops),
            "U:a\nU:c\nend");
}

// TPL-3: a template that fails is an error of the call, with the line at which
// it did; what it raises comes through in its own words.
TEST(Template, ErrorsSayLineAndWhat) {
  EXPECT_EQ(Rendered("\n{{ raise_exception('Roles must ' ~ 'alternate') }}"),
            "[chat template, line 2: Roles must alternate]");
  EXPECT_EQ(Rendered("a\nb\n{{ missing.role }}"),
            "[chat template, line 3: 'missing' is undefined]");
  EXPECT_EQ(Rendered("{{ d.zz.q }}"),
            "[chat template, line 1: 'dict object' has no attribute 'zz']");
  EXPECT_EQ(Rendered("{{ 1 }}\n{{ s|shout }}"),
            "[chat template, line 2: unknown filter \"shout\"]");
  EXPECT_EQ(Rendered("{{ s is loud }}"),
            "[chat template, line 1: unknown test \"loud\"]");
  EXPECT_EQ(Rendered("{{ shout(s) }}"),
            "[chat template, line 1: unknown function \"shout\"]");
  EXPECT_EQ(Rendered("{% for x in l %}"),
            "[chat template, line 1: tag \"for\" without its \"endfor\"]");
  EXPECT_EQ(Rendered("{{ 'a' + 1 }}"),
            "[chat template, line 1: wanted operands that + can join; found "
            "str and int]");
  EXPECT_THAT(Rendered("{{ l.append(4) }}"), HasSubstr("immutable sandbox"));
  EXPECT_THAT(Rendered("{{ 5|length }}"), HasSubstr("filter \"length\""));
}

// Where a macro fails is inside of it, not where it is called.
TEST(Template, ErrorsInMacrosSayTheirOwnLine) {
  EXPECT_THAT(Rendered("{% macro m() %}\n\n{{ 1 / 0 }}\n{% endmacro %}\n\n"
                       "{{ m() }}"),
              StartsWith("[chat template, line 3: "));
}

// A filter that does not exist is no fault while nobody asks for it: templates
// carry branches for hosts that have it.
TEST(Template, UnknownFiltersInBranchesNotTakenAreHarmless) {
  EXPECT_EQ(Rendered("{% if no %}{{ s|shout }}{% endif %}ok"), "ok");
  EXPECT_THAT(Rendered("{% if t %}{{ s|shout }}{% endif %}"),
              HasSubstr("unknown filter \"shout\""));
}

// gRPC carries errors in headers of a few KiB.
TEST(Template, RaisedMessagesAreCut) {
  const std::string error = Rendered("{{ raise_exception('é' * 100000) }}");
  EXPECT_LT(error.size(), 1200u);
  EXPECT_THAT(error, HasSubstr("éééé"));
}

TEST(Template, ForeignBytesAreNoTemplate) {
  EXPECT_THAT(std::string(Template::Parse("a\xFF").status().message()),
              HasSubstr("UTF-8"));
  EXPECT_THAT(
      std::string(Template::Parse(std::string(kMaxTemplateBytes + 1, 'a'))
                      .status()
                      .message()),
      HasSubstr("kMaxTemplateBytes"));
}

// One parsed template serves all calls of a model at once.
TEST(Template, RendersOnManyThreads) {
  const auto parsed = Template::Parse(
      "{% macro m(x) %}<{{ x }}>{% endmacro %}{% set ns = namespace(n='') %}"
      "{% for x in l %}{% set ns.n = ns.n ~ m(x) %}{% endfor %}{{ ns.n }}");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  std::vector<std::thread> threads;
  std::vector<int> right(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      const Dict context = ContextOf(kContext);
      for (int turn = 0; turn < 200; ++turn) {
        const auto runs = parsed->Render(context, {});
        std::string text;
        for (const RenderedRun& run : *runs) text += run.text;
        right[static_cast<size_t>(i)] += text == "<3><1><2>" ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(right, testing::Each(200));
}

// Values that refer to themselves are untied at the end; the leak checker sees
// it if they are not.
TEST(Template, WhatRefersToItselfIsFreed) {
  EXPECT_EQ(Rendered("{% set ns = namespace() %}{% set ns.me = ns %}"
                     "{% set ns.list = [ns] %}ok"),
            "ok");
  EXPECT_EQ(Rendered("{% macro a() %}{% endmacro %}{% set b = a %}"
                     "{% for x in l %}{% macro c() %}{{ x }}{% endmacro %}"
                     "{% set d = c %}{{ d() }}{% endfor %}"),
            "312");
  EXPECT_EQ(Rendered("{% for x in l %}{{ loop.changed(loop.changed, loop) }} "
                     "{% endfor %}"),
            "True True True ");
  EXPECT_THAT(Rendered("{% set ns = namespace() %}{% set ns.me = ns %}"
                       "{% for x in [ns] recursive %}{% set ns.l = loop %}"
                       "{{ 1 / 0 }}{% endfor %}"),
              HasSubstr("division by zero"));
}

}  // namespace
}  // namespace kvasir::jinja

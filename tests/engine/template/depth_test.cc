// Values inside of values: however a template nests what holds others, it ends
// with a limit, and all is freed, without recursion and to the last byte (which
// the address sanitizer sees).
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/template/limits.h"
#include "tests/engine/template/golden.h"

namespace kvasir::jinja {
namespace {

using testing::HasSubstr;

// What gives something that holds ns.x.
constexpr const char* kHolders[] = {
    "[ns.x]",
    "(ns.x,)",
    "{'k': ns.x}",
    "{(ns.x,): 1}.keys()",
    "{'k': ns.x}.items()",
    "{'k': ns.x}.values()",
    "{'k': ns.x}|items",
    "dict(k=ns.x)",
    "cycler(ns.x)",
    "joiner(ns.x)",
    "[ns.x]|reverse",
    "[ns.x]|batch(1)",
    "[ns.x]|slice(1)",
    "[ns.x]|select('defined')",
    "[ns.x]|map('default')",
    "[ns.x]|map(attribute='zz', default=ns.x)",
    "[{'a': ns.x}]|map(attribute='a')",
    "[{'a': ns.x}]|groupby('zz', 1)",
    "[ns.x].count",
    "{'k': ns.x}.get",
    "cycler(ns.x).next",
};

// A template that puts so many holders into each other.
std::string Nested(const std::string& holder, int times,
                   const std::string& end) {
  return absl::StrCat("{% set ns = namespace(x=none) %}{% for i in range(",
                      times, ") %}{% set ns.x = ", holder, " %}{% endfor %}",
                      end);
}

// Each level frees the one inside of it: a hundred thousand of them, on one
// stack.
TEST(Depth, NoHolderNestsWithoutBound) {
  for (const std::string holder : kHolders) {
    const auto text = Render(Nested(holder, 90000, ""));
    ASSERT_FALSE(text.ok()) << holder;
    EXPECT_THAT(std::string(text.status().message()),
                HasSubstr("kMaxValueDepth"))
        << holder;
  }
}

// What walks through values goes as deep as they may be.
TEST(Depth, WhatIsNestedToTheLimitCanBeUsed) {
  struct End {
    const char* source;
    const char* expected;
  };
  constexpr End kAny[] = {
      {"{{ (ns.x ~ '')|length > 0 }}", "True"},
      {"{% set s %}{{ ns.x }}{% endset %}{{ s == ns.x|string }}", "True"},
      {"{{ ns.x == ns.x }}{{ ns.x in [ns.x] }}", "TrueTrue"},
      {"{{ {}[ns.x] is defined }}", "False"},
  };
  constexpr End kLists[] = {
      {"{{ ns.x < ns.x }}{{ ns.x >= ns.x }}", "FalseTrue"},
      {"{{ [ns.x, ns.x]|sort|length }}", "2"},
      {"{{ ns.x|tojson|length > 100 }}", "True"},
  };
  constexpr End kTuples[] = {
      {"{{ {ns.x: 1}[ns.x] }}", "1"},
      {"{{ [ns.x, ns.x]|unique|list|length }}", "1"},
  };
  const auto check = [](const std::string& holder, int times,
                        absl::Span<const End> ends) {
    for (const End& end : ends) {
      const auto text = Render(Nested(holder, times, end.source));
      EXPECT_TRUE(text.ok()) << holder << end.source << text.status();
      EXPECT_EQ(text.value_or(""), end.expected) << holder << end.source;
    }
  };
  for (const std::string holder : kHolders) {
    int most = kMaxValueDepth;
    while (most > 0 && !Render(Nested(holder, most, "")).ok()) --most;
    EXPECT_GE(most, kMaxValueDepth / 4) << holder;
    // What these make of it may be one deeper than it is.
    check(holder, most - 1, kAny);
    const bool is_tuple = holder == "(ns.x,)";
    if (is_tuple || holder == "[ns.x]") check(holder, most - 1, kLists);
    if (is_tuple) check(holder, most - 1, kTuples);
  }
}

TEST(Depth, NoLoopNestsWithoutBound) {
  for (const char* keep : {"loop", "loop.cycle", "loop.changed"}) {
    const auto text = Render(absl::StrReplaceAll(
        "{% set ns = namespace(x=none) %}{% for i in range(90000) %}"
        "{% for y in [ns.x] %}{% set ns.x = KEEP %}{% endfor %}{% endfor %}",
        {{"KEEP", keep}}));
    ASSERT_FALSE(text.ok()) << keep;
    EXPECT_THAT(std::string(text.status().message()),
                HasSubstr("kMaxValueDepth"))
        << keep;
  }
}

// What changes after it was made may hold a chain of any length; it is kept to
// the end and cleared piece by piece.
TEST(Depth, LongChainsAreFreedWithoutRecursion) {
  constexpr const char* kChains[] = {
      "{% set ns.x = namespace(x=ns.x) %}",
      "{% set o = namespace() %}{% set o.a = ns.x %}{% set ns.x = o %}",
      "{% set o = namespace() %}{% set o.a = [ns.x] %}{% set ns.x = o %}",
      "{% for y in [1] %}{% if loop.changed(ns.x) %}{% set ns.x = loop %}"
      "{% endif %}{% endfor %}",
      "{% for y in [1] %}{% if loop.changed([ns.x]) %}"
      "{% set ns.x = loop.changed %}{% endif %}{% endfor %}",
      "{% macro m(a) %}{% macro k() %}{{ a }}{% endmacro %}"
      "{% set ns.x = k %}{% endmacro %}{{ m(ns.x) }}",
      "{% macro m(a) %}{% for q in [1] recursive %}{% set ns.x = loop %}"
      "{% endfor %}{% endmacro %}{{ m(ns.x) }}",
  };
  for (const std::string chain : kChains) {
    EXPECT_EQ(*Render("{% set ns = namespace(x=none) %}"
                      "{% for i in range(60000) %}" +
                      chain + "{% endfor %}ok"),
              "ok")
        << chain;
  }
}

// What refers to itself is no one's to free but the rendering's.
TEST(Depth, NothingThatRefersToItselfStays) {
  constexpr const char* kCircles[] = {
      "{% set ns = namespace() %}{% set ns.x = ns %}",
      "{% set ns = namespace() %}{% set ns.x = {'k': [cycler(ns).next]} %}",
      "{% set a = namespace() %}{% set b = namespace(x=a) %}"
      "{% set a.x = b %}",
      "{% for y in [1] %}{{ loop.changed(loop) }}{% endfor %}",
      "{% for y in [1] %}{{ loop.changed([loop.changed]) }}{% endfor %}",
      // After its end as well.
      "{% set ns = namespace() %}{% for y in [1] %}{% set ns.c = loop.changed "
      "%}"
      "{% endfor %}{{ ns.c(ns.c) }}{{ ns.c(ns) }}",
      "{% for y in [1] %}{% macro m() %}{{ loop }}{% endmacro %}"
      "{{ loop.changed(m) }}{% endfor %}",
      "{% macro m() %}{{ m }}{% endmacro %}",
      "{% set l = [1] %}{% macro m() %}{{ o }}{% endmacro %}{% set o = [m] %}",
      "{% for y in [1] recursive %}{% set z = loop %}{{ loop.changed(z) }}"
      "{% endfor %}",
      "{% macro m() %}{{ caller }}{% set q = caller %}{% endmacro %}"
      "{% call m() %}{% endcall %}",
  };
  for (const std::string circle : kCircles) {
    EXPECT_TRUE(Render(circle).ok()) << circle << Render(circle).status();
    // An error on the way leaves nothing either.
    EXPECT_FALSE(Render(circle + "{{ raise_exception('x') }}").ok());
  }
}

TEST(Depth, LoopsSayWhatChangedAfterTheirEnd) {
  EXPECT_EQ(*Render("{% set ns = namespace() %}{% for y in [1, 1, 2] %}"
                    "{{ loop.changed(y) }}{% set ns.c = loop.changed %}"
                    "{% endfor %}{{ ns.c(2) }}{{ ns.c(3) }}{{ ns.c(3) }}"),
            "TrueFalseTrueFalseTrueFalse");
}

}  // namespace
}  // namespace kvasir::jinja

// Values inside of values: however a template nests what holds others, it ends
// with a limit, and all is freed, without recursion and to the last byte (which
// the address sanitizer sees).
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

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

// Each level frees the one inside of it: a hundred thousand of them, on one
// stack.
TEST(Depth, NoHolderNestsWithoutBound) {
  for (const std::string holder : kHolders) {
    for (const char* end :
         {"", "{{ ns.x }}", "{{ ns.x == ns.x }}", "{{ ns.x|string|length }}"}) {
      const auto text = Render(
          "{% set ns = namespace(x=none) %}{% for i in range(90000) %}"
          "{% set ns.x = " +
          holder + " %}{% endfor %}" + end);
      ASSERT_FALSE(text.ok()) << holder;
      EXPECT_THAT(std::string(text.status().message()),
                  HasSubstr("kMaxValueDepth"))
          << holder;
    }
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

// Templates that ask for too much. Each must end with an error that names the
// limit, soon, and without much memory: a hang shows as the test's time-out.
#include <pthread.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/template/limits.h"
#include "tests/engine/template/golden.h"

namespace kvasir::jinja {
namespace {

using testing::HasSubstr;

std::string Repeat(std::string_view text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

void ExpectBound(const std::string& source, const char* limit,
                 std::string_view json = kContext) {
  const auto text = Render(source, json);
  ASSERT_FALSE(text.ok()) << source.substr(0, 200);
  EXPECT_TRUE(absl::IsResourceExhausted(text.status()) ||
              absl::IsInvalidArgument(text.status()))
      << text.status();
  EXPECT_THAT(std::string(text.status().message()), HasSubstr(limit))
      << source.substr(0, 200);
}

TEST(Bounds, RepeatedTextsAndLists) {
  ExpectBound("{{ 'x' * 10**9 }}", "kMaxProducedBytes");
  ExpectBound("{{ 'x' * 9223372036854775807 }}", "kMaxProducedBytes");
  ExpectBound("{{ ('x' * 1000000) * 1000000 }}", "kMaxProducedBytes");
  ExpectBound("{{ [0] * 10**9 }}", "kMaxItems");
  ExpectBound("{{ [0] * 9223372036854775807 }}", "kMaxItems");
  ExpectBound("{% set a = [0] * 1000000 %}{{ (a + a)|length }}", "kMax");
  ExpectBound(
      "{% for i in range(100) %}{% set a = [0] * 1000000 %}"
      "{% endfor %}",
      "kMaxProducedBytes");
}

TEST(Bounds, Doubling) {
  ExpectBound(
      "{% set ns = namespace(x='x') %}{% for i in range(60) %}"
      "{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "kMaxProducedBytes");
  ExpectBound(
      "{% set ns = namespace(x='x') %}{% for i in range(60) %}"
      "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
      "kMaxProducedBytes");
  ExpectBound(
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
      "{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "kMax");
  // Shared parts: small in memory, huge when written out.
  const std::string shared =
      "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
      "{% set ns.x = [ns.x, ns.x] %}{% endfor %}";
  ExpectBound(shared + "{{ ns.x }}", "kMax");
  ExpectBound(shared + "{{ ns.x|tojson }}", "kMax");
  ExpectBound(shared + "{{ ns.x == ns.x[0] or ns.x == [ns.x[0], ns.x[0]] }}",
              "kMaxSteps");
  ExpectBound(
      "{% set ns = namespace(x=(1,)) %}{% for i in range(60) %}"
      "{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1} }}",
      "unhashable");
  // What cannot be a key costs what it took to find that out.
  const std::string wide =
      "{% set ns = namespace(t=(1,)) %}{% for i in range(17) %}"
      "{% set ns.t = (ns.t, ns.t) %}{% endfor %}{% for i in range(100000) %}";
  ExpectBound(wide + "{{ {}[ns.t] }}{% endfor %}", "kMaxProducedBytes");
  ExpectBound(wide + "{% set x = [ns.t]|unique %}{% endfor %}",
              "kMaxProducedBytes");
  // What is one is kept.
  ExpectBound(
      "{% set s = 'x' * 60000 %}{% set ns = namespace(l=[]) %}"
      "{% for i in range(1300) %}{% set ns.l = ns.l + [(i, s)] %}{% endfor %}"
      "{{ ns.l|unique|list|length }}",
      "kMaxProducedBytes");
}

TEST(Bounds, NestedValues) {
  ExpectBound(
      "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}"
      "{% set ns.x = [ns.x] %}{% endfor %}",
      "kMaxValueDepth");
  ExpectBound(
      "{% set ns = namespace(x={}) %}{% for i in range(1000) %}"
      "{% set ns.x = {'k': ns.x} %}{% endfor %}",
      "kMaxValueDepth");
}

TEST(Bounds, Loops) {
  const std::string loop = "{% for i in range(100000) %}";
  ExpectBound(loop + loop + loop + "{% endfor %}{% endfor %}{% endfor %}",
              "kMax");
  ExpectBound("{{ range(100001) }}", "kMaxRangeItems");
  ExpectBound("{{ range(9223372036854775807) }}", "kMaxRangeItems");
  ExpectBound("{{ range(0, -(10**18), -1) }}", "kMaxRangeItems");
  ExpectBound(
      "{% for i in range(100000) %}{% for c in s %}{% for d in s %}"
      "{% endfor %}{% endfor %}{% endfor %}",
      "kMax");
}

TEST(Bounds, Recursion) {
  ExpectBound("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
              "kMaxEvaluationDepth");
  ExpectBound("{% macro m(n) %}{{ m(n) }}{{ m(n) }}{% endmacro %}{{ m(1) }}",
              "kMaxEvaluationDepth");
  ExpectBound("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
              "kMaxEvaluationDepth");
  ExpectBound(
      "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}"
      "{% endmacro %}{% call m() %}x{% endcall %}",
      "macro");
}

// A string of one character iterates to itself, so that `map` may map `map`
// for as long as there are arguments.
TEST(Bounds, FiltersThatCallFilters) {
  EXPECT_EQ(*Render("{{ 'a'|map(*(['map'] * 50 + ['upper']))|list|length }}"),
            "1");
  ExpectBound("{{ 'a'|map(*(['map'] * 1000)) }}", "kMaxEvaluationDepth");
  ExpectBound("{{ 'a'|map(*(['map'] * 1000 + ['select'])) }}",
              "kMaxEvaluationDepth");
  // Below the depth of calls already.
  ExpectBound(
      "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% else %}"
      "{{ 'a'|map(*(['map'] * 200)) }}{% endif %}{% endmacro %}{{ m(20) }}",
      "kMaxEvaluationDepth");
  // Each has the arguments of the next.
  ExpectBound("{{ 'a'|map(*(['map'] * 200 + ['x'] * 100000)) }}",
              "kMaxProducedBytes");
  ExpectBound("{{ 'a'|map(*(['map'] * 200), **{'y' * 1000000: 1}) }}",
              "kMaxProducedBytes");
}

TEST(Bounds, NestedSource) {
  for (const int times : {101, 50000}) {
    ExpectBound("{{ " + Repeat("(", times) + "1" + Repeat(")", times) + " }}",
                "kMaxNesting");
    ExpectBound("{{ " + Repeat("[", times) + Repeat("]", times) + " }}",
                "kMaxNesting");
    ExpectBound("{{ " + Repeat("not ", times) + "1 }}", "kMaxNesting");
    ExpectBound("{{ " + Repeat("-", times) + "1 }}", "kMaxNesting");
    ExpectBound("{{ a" + Repeat(".b", times) + " }}", "kMaxNesting");
    ExpectBound("{{ a" + Repeat("[0]", times) + " }}", "kMaxNesting");
    ExpectBound("{{ a" + Repeat("()", times) + " }}", "kMaxNesting");
    ExpectBound("{{ a" + Repeat("|trim", times) + " }}", "kMaxNesting");
    ExpectBound("{{ a" + Repeat(" is odd", 1) + Repeat("|trim", times) + " }}",
                "kMaxNesting");
    ExpectBound("{{ 1" + Repeat(" if 1 else 1", times) + " }}", "kMaxNesting");
    ExpectBound(
        "{{ {1:" + Repeat("{1:", times) + "1" + Repeat("}", times) + "} }}",
        "kMaxNesting");
    ExpectBound(Repeat("{% if 1 %}", times), "kMaxNesting");
    ExpectBound(Repeat("{% for x in y %}", times), "kMaxNesting");
    ExpectBound(
        "{% set " + Repeat("(", times) + "a" + Repeat(")", times) + " = 1 %}",
        "kMaxNesting");
  }
}

// Long is not deep: a template may join hundreds of parts.
TEST(Bounds, LongChainsOfOperatorsAreWelcome) {
  EXPECT_EQ(*Render("{{ 1" + Repeat(" + 1", 5000) + " }}"), "5001");
  EXPECT_EQ(Render("{{ ''" + Repeat(" ~ 'a'", 5000) + " }}")->size(), 5000u);
  EXPECT_EQ(*Render("{{ 0" + Repeat(" or 0", 5000) + " }}"), "0");
  EXPECT_EQ(*Render("{{ 1" + Repeat(" < 2 > 1", 2000) + " }}"), "True");
  EXPECT_EQ(*Render("{% if 0 %}" + Repeat("{% elif 0 %}", 5000) +
                    "{% else %}x{% endif %}"),
            "x");
}

TEST(Bounds, Widths) {
  ExpectBound("{{ '%1000000000d' % 1 }}", "kMaxLayoutWidth");
  ExpectBound("{{ '%*d' % (1000000000, 1) }}", "kMaxLayoutWidth");
  ExpectBound("{{ '%.1000000000f' % 1 }}", "kMaxLayoutPrecision");
  ExpectBound("{{ '%99999999999999999999d' % 1 }}", "kMaxLayoutWidth");
  ExpectBound("{{ '{:1000000000}'.format(1) }}", "kMaxLayoutWidth");
  ExpectBound("{{ '{:.1000000000f}'.format(1) }}", "kMaxLayoutPrecision");
  ExpectBound("{{ s|indent(10**9) }}", "kMaxLayoutWidth");
  ExpectBound("{{ s|center(10**9) }}", "kMaxLayoutWidth");
  ExpectBound("{{ s.center(10**9) }}", "kMaxLayoutWidth");
  ExpectBound("{{ s.ljust(10**9) }}", "kMaxLayoutWidth");
  ExpectBound("{{ s.zfill(10**9) }}", "kMaxLayoutWidth");
  ExpectBound("{{ l|tojson(indent=10**9) }}", "kMaxJsonIndent");
  ExpectBound("{{ l|batch(10**9, 0)|list }}", "linecount");
  ExpectBound("{{ l|slice(10**9)|list }}", "slices");
  ExpectBound(
      "{% for i in range(100000) %}{{ s.center(1000000)|length }}"
      "{% endfor %}",
      "kMaxProducedBytes");
}

TEST(Bounds, LargeNumbers) {
  ExpectBound("{{ 10**10**10 }}", "64 bits");
  ExpectBound("{{ 2**64 }}", "64 bits");
  ExpectBound("{{ 9223372036854775807 + 1 }}", "64 bits");
  ExpectBound("{{ -9223372036854775807 - 2 }}", "64 bits");
  ExpectBound("{{ 9223372036854775807 * 2 }}", "64 bits");
  ExpectBound("{{ (-9223372036854775807 - 1) // -1 }}", "64 bits");
  ExpectBound("{{ -(-9223372036854775807 - 1) }}", "64 bits");
  ExpectBound("{{ (-9223372036854775807 - 1)|abs }}", "64 bits");
  ExpectBound("{{ 99999999999999999999 }}", "64 bits");
  ExpectBound("{{ '99999999999999999999'|int }}", "64 bits");
  ExpectBound("{{ 1e300|int }}", "64 bits");
  ExpectBound("{{ 10.0 ** 1000 }}", "finite");
  EXPECT_EQ(*Render("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
  EXPECT_EQ(*Render("{{ 1 ** 9223372036854775807 }}"), "1");
  ExpectBound("{{ range(0, 9223372036854775807, 2**62)[:] }}", "64 bits");
  ExpectBound("{{ range(5)[::2**62][::4] }}", "64 bits");
  EXPECT_EQ(*Render("{{ 7.5|round(-9223372036854775807 - 1) }}"), "0.0");
  EXPECT_EQ(*Render("{{ s[-9223372036854775807:9223372036854775807] }}"),
            "Hello, World");
  EXPECT_EQ(*Render("{{ s[::9223372036854775807] }}"), "H");
  EXPECT_EQ(*Render("{{ s[::-9223372036854775807] }}"), "d");
}

TEST(Bounds, Output) {
  ExpectBound(
      "{% set x = 'x' * 1000000 %}{% for i in range(1000) %}{{ x }}"
      "{% endfor %}",
      "kMaxOutputBytes");
  ExpectBound(
      "{% set x %}{% for i in range(1000) %}{{ 'x' * 1000000 }}"
      "{% endfor %}{% endset %}",
      "kMax");
}

// Searching long texts for long texts must not take their product.
TEST(Bounds, SearchesAreLinearOrCounted) {
  const std::string context =
      absl::StrCat(R"({"hay": ")", Repeat("a", 2000000), R"(", "needle": ")",
                   Repeat("a", 1000000), R"(b"})");
  EXPECT_EQ(*Render("{{ needle in hay }}{{ hay.find(needle) }}"
                    "{{ hay.count(needle) }}{{ hay.split(needle)|length }}"
                    "{{ hay.replace(needle, '')|length }}",
                    context),
            "False-1012000000");
  ExpectBound("{{ hay.rfind(needle) }}", "kMaxSteps", context);
  ExpectBound("{{ hay.rsplit(needle) }}", "kMaxSteps", context);
  ExpectBound(
      "{% for i in range(100000) %}{% if hay == hay ~ '' %}"
      "{% endif %}{% endfor %}",
      "kMax", context);
  ExpectBound(
      "{% for i in range(100000) %}{% if hay in d %}{% endif %}"
      "{% if hay.startswith(hay) %}{% endif %}{% endfor %}",
      "kMaxSteps", context.substr(0, context.size() - 1) + R"(, "d": {}})");
}

TEST(Bounds, ReplacingNothing) {
  ExpectBound("{{ ('x' * 1000000).replace('', 'y' * 1000) }}",
              "kMaxProducedBytes");
  ExpectBound("{{ ('x' * 1000000)|list|join('y' * 1000) }}",
              "kMaxProducedBytes");
  ExpectBound("{{ ('x,' * 900000).split(',')|map('center', 1000)|list }}",
              "kMaxProducedBytes");
}

// A deep template on a small stack, as some thread pools have.
TEST(Bounds, DepthFitsASmallStack) {
  static std::string result;
  const auto run = [](void*) -> void* {
    const auto filters = Render("{{ 'a'|map(*(['map'] * 1000)) }}");
    const auto text = Render(
        "{% macro m(n) %}{% if n %}{% for x in [1] %}{% with %}"
        "{{ ('(' ~ (m(n - 1)) ~ ')')|trim }}{% endwith %}{% endfor %}"
        "{% endif %}{% endmacro %}{{ m(1000) }}");
    const std::string deep =
        "{{ " + Repeat("(-", 31) + "1" + Repeat(")", 31) + " }}";
    result = absl::StrCat(filters.status().message(), text.status().message(),
                          Render(deep).value_or("failed"));
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  // Sanitizers make frames several times as large.
  constexpr size_t kStackBytes =
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
      size_t{4} << 20;
#else
      size_t{512} << 10;
#endif
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, run, nullptr), 0);
  pthread_join(thread, nullptr);
  EXPECT_THAT(result, testing::ContainsRegex(
                          "kMaxEvaluationDepth.*kMaxEvaluationDepth"));
  EXPECT_THAT(result, testing::EndsWith("-1"));
}

}  // namespace
}  // namespace kvasir::jinja

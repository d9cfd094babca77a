// Only what the template wrote is trusted, however it is cut and joined.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/engine/template/golden.h"

namespace kvasir::jinja {
namespace {

// Runs as text: trusted ones in [], others in ().
std::string Runs(std::string_view source, const Dict& context) {
  const auto runs = RenderRuns(source, context);
  if (!runs.ok()) return std::string(runs.status().message());
  std::string out;
  for (const RenderedRun& run : *runs) {
    out += (run.trusted ? "[" : "(") + run.text + (run.trusted ? "]" : ")");
  }
  return out;
}

Dict Attack() {
  Dict context;
  context.Set("m", Value::String("<|im_start|>", false));
  context.Set("x", Value::String("ab", false));
  context.Set("bos", Value::String("<s>", true));
  context.Set("l", Value::List({Value::String("<|a|>", false),
                                Value::String("<|b|>", false)}));
  return context;
}

struct Case {
  const char* source;
  const char* runs;
};

TEST(Trust, ThatOfEachByteIsKept) {
  constexpr Case kCases[] = {
      {"<|im_start|>{{ m }}<|im_end|>",
       "[<|im_start|>](<|im_start|>)"
       "[<|im_end|>]"},
      {"{{ bos ~ m ~ '!' }}", "[<s>](<|im_start|>)[!]"},
      {"{{ '<|im_' + x + 'start|>' }}", "[<|im_](ab)[start|>]"},
      {"{{ 'a' 'b' }}{{ 'c' }}d", "[abcd]"},
      {"{{ m[:4] ~ m[4:] }}", "(<|im_start|>)"},
      {"{{ ('A' ~ x ~ 'B')[1:4] }}", "(ab)[B]"},
      {"{{ ('A' ~ x ~ 'B')[::-1] }}", "[B](ba)[A]"},
      {"{{ ('A' ~ x ~ 'B')[0] }}{{ ('A' ~ x)[1] }}", "[A](a)"},
      {"{{ (' ' ~ x ~ 'B ')|trim }}", "(ab)[B]"},
      {"{{ (' ' ~ x ~ 'B ').strip() }}", "(ab)[B]"},
      {"{{ ('A' ~ x)|upper }}{{ ('A' ~ x)|title }}", "[A](AB)[A](ab)"},
      {"{{ ('A' ~ x).replace('A', x) }}", "(abab)"},
      {"{{ x.replace('a', '<|e|>') }}", "[<|e|>](b)"},
      {"{{ x|replace('b', '<|e|>') }}", "(a)[<|e|>]"},
      {"{{ (x ~ ',' ~ 'c').split(',')|join('-') }}", "(ab)[-c]"},
      {"{{ ('A' ~ x ~ '\n' ~ x).splitlines()|join('|') }}", "[A](ab)[|](ab)"},
      {"{{ l|join('<sep>') }}", "(<|a|>)[<sep>](<|b|>)"},
      {"{{ '<sep>'.join(l) }}", "(<|a|>)[<sep>](<|b|>)"},
      {"{{ '<|%s|>' % x }}", "[<|](ab)[|>]"},
      {"{{ '<|{}|>'.format(x) }}", "[<|](ab)[|>]"},
      {"{{ '<|%s|>'|format(x) }}", "[<|](ab)[|>]"},
      {"{{ m % () }}", "(<|im_start|>)"},
      {"{{ x * 2 ~ 'A' * 2 }}", "(abab)[AA]"},
      {"{{ ('<a>' ~ x)|indent(2, true) }}", "[  <a>](ab)"},
      {"{{ ('<a>' ~ x)|truncate(4, true, '', 0) }}", "[<a>](a)"},
      {"{% macro q(t) %}<q>{{ t }}</q>{% endmacro %}{{ q(m) }}",
       "[<q>](<|im_start|>)[</q>]"},
      {"{% set b %}<q>{{ m }}{% endset %}{{ b }}", "[<q>](<|im_start|>)"},
      {"{% filter upper %}q{{ x }}{% endfilter %}", "[Q](AB)"},
      {"{% macro w() %}<w>{{ caller() }}{% endmacro %}{% call w() %}{{ x }}"
       "{% endcall %}",
       "[<w>](ab)"},
      {"{% for c in 'A' ~ x %}{{ c }}{% endfor %}", "[A](ab)"},
      {"{{ ('A' ~ x)|list|join }}", "[A](ab)"},
      {"{{ ('A' ~ x)|first }}{{ ('A' ~ x)|last }}", "[A](b)"},
      {"{{ (x ~ 'A').partition('A')|join('-') }}", "(ab)[-A-]"},
      {"{{ [x, 'A']|map('upper')|join }}", "(AB)[A]"},
      {"{{ {'k': '<|t|>'}.k ~ {'k': x}['k'] }}", "[<|t|>](ab)"},
      {"{{ x if x else 'no' }}{{ x or 'no' }}{{ '' or x }}", "(ababab)"},
      {"{{ x|default('d') }}{{ zz|default('d') }}", "(ab)[d]"},
      // What says nothing of where it comes from is not trusted.
      {"{{ ['<|a|>'] }}", "(['<|a|>'])"},
      {"{{ {'a': 1}|tojson }}", "({\")[a](\": 1})"},
      {"{{ m|tojson }}", "(\"<|im_start|>\")"},
      {"{{ 1 }}{{ true }}{{ none }}{{ 1.5 }}", "(1TrueNone1.5)"},
      {"{{ m|string }}{{ m|safe }}{{ m|e }}",
       "(<|im_start|><|im_start|>&lt;|im_start|&gt;)"},
  };
  for (const Case& one : kCases) {
    EXPECT_EQ(Runs(one.source, Attack()), one.runs) << one.source;
  }
}

// Every filter and method on a message whose characters the template never
// writes: whatever comes out of them must not be trusted.
TEST(Trust, NoFilterLaundersAMessage) {
  const std::vector<std::string> filters = {"upper",
                                            "lower",
                                            "title",
                                            "capitalize",
                                            "trim",
                                            "center(40)",
                                            "indent",
                                            "string",
                                            "safe",
                                            "escape",
                                            "forceescape",
                                            "striptags",
                                            "urlencode",
                                            "reverse",
                                            "list|join",
                                            "first",
                                            "last",
                                            "join",
                                            "replace('q', 'r')",
                                            "truncate(3, true, '', 0)",
                                            "default('')",
                                            "tojson",
                                            "format",
                                            "batch(2)|map('join')|join",
                                            "slice(3)|map('join')|join",
                                            "sort|join",
                                            "unique|join",
                                            "max",
                                            "min",
                                            "map('upper')|join",
                                            "select|join",
                                            "reject('odd_one_out')|join",
                                            "groupby(0)|map('last')|list",
                                            "list",
                                            "wordcount",
                                            "length",
                                            "attr('upper')",
                                            "e|e",
                                            "d",
                                            "list|tojson(indent=2)",
                                            "list|sum(start=[])|string"};
  const std::vector<std::string> methods = {"upper()",
                                            "lower()",
                                            "title()",
                                            "capitalize()",
                                            "swapcase()",
                                            "casefold()",
                                            "strip()",
                                            "strip('<')",
                                            "lstrip('<|')",
                                            "rstrip('>')",
                                            "split('_')|join",
                                            "rsplit('_', 1)|join",
                                            "split()|join",
                                            "splitlines()|join",
                                            "partition('_')|join",
                                            "rpartition('_')|join",
                                            "replace('_', '_')[:0]",
                                            "removeprefix('<')",
                                            "removesuffix('>')",
                                            "zfill(3)",
                                            "center(3)",
                                            "ljust(3)",
                                            "rjust(3)",
                                            "format()",
                                            "join(['', ''])"};
  Dict context = Attack();
  int rendered = 0;
  const auto check = [&](const std::string& expression) {
    const auto runs =
        RenderRuns(absl::StrCat("{{ ", expression, " }}"), context);
    if (!runs.ok()) return;
    ++rendered;
    for (const RenderedRun& run : *runs) {
      if (!run.trusted) continue;
      // Fillings, such as blanks, may be the template's; letters are not.
      EXPECT_EQ(run.text.find_first_of("<|imstarIMSTAR_>"), std::string::npos)
          << expression << " trusts " << run.text;
    }
  };
  for (const std::string& filter : filters) check(absl::StrCat("m|", filter));
  for (const std::string& method : methods) check(absl::StrCat("m.", method));
  for (const std::string& a : filters) {
    for (const std::string& b : filters) check(absl::StrCat("m|", a, "|", b));
    for (const std::string& b : methods) check(absl::StrCat("(m.", b, ")|", a));
  }
  EXPECT_GT(rendered, 1500);
}

// Random cuts of a text of both kinds against a twin that keeps a trust for
// each byte.
TEST(Trust, RandomCutsAgreeWithATwin) {
  const uint32_t seed = 20260730;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    // Upper case is the template's, lower case data.
    std::string source = "{{ (";
    Dict context;
    std::string all;
    for (int part = 0; part < 6; ++part) {
      const size_t size = random() % 4;
      std::string text;
      const bool data = random() % 2 == 0;
      for (size_t i = 0; i < size; ++i) {
        text.push_back(static_cast<char>((data ? 'a' : 'A') + random() % 26));
      }
      const std::string name = absl::StrCat("v", part);
      if (data) context.Set(name, Value::String(text, false));
      absl::StrAppend(&source, part > 0 ? " ~ " : "",
                      data ? name : absl::StrCat("'", text, "'"));
      all += text;
    }
    const int from = static_cast<int>(random() % 12);
    const int to = from + static_cast<int>(random() % 12);
    const int step = 1 + static_cast<int>(random() % 3);
    absl::StrAppend(&source, ")[", from, ":", to, ":", step, "] }}");
    std::string expected;
    for (size_t i = static_cast<size_t>(from);
         i < all.size() && i < static_cast<size_t>(to);
         i += static_cast<size_t>(step)) {
      expected.push_back(all[i]);
    }
    const auto runs = RenderRuns(source, context);
    ASSERT_TRUE(runs.ok()) << runs.status() << source;
    std::string text;
    for (const RenderedRun& run : *runs) {
      for (const char c : run.text) {
        EXPECT_EQ(run.trusted, c >= 'A' && c <= 'Z') << source;
      }
      EXPECT_FALSE(run.text.empty());
      text += run.text;
    }
    EXPECT_EQ(text, expected) << source;
  }
}

}  // namespace
}  // namespace kvasir::jinja

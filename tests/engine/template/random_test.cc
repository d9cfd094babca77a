// Random templates: whatever they are, they end with a text or an error. The
// sanitizers see what else they do.
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "engine/template/filters.h"
#include "tests/engine/template/golden.h"

namespace kvasir::jinja {
namespace {

// Writes templates of all parts of the language, most of which render.
class Writer {
 public:
  explicit Writer(uint32_t seed) : random_(seed) {}

  std::string Block(int depth) {
    std::string out;
    for (int i = Below(4); i >= 0; --i) out += Statement(depth);
    return out;
  }

  int Below(int limit) { return static_cast<int>(random_() % limit); }

 private:
  std::string Pick(const std::vector<std::string>& from) {
    return from[random_() % from.size()];
  }

  std::string Atom() {
    return Pick({"n",
                 "f",
                 "s",
                 "e",
                 "u",
                 "l",
                 "d",
                 "nil",
                 "t",
                 "msgs",
                 "zz",
                 "names",
                 "users",
                 "ml",
                 "1",
                 "-2",
                 "0",
                 "2.5",
                 "'a'",
                 "''",
                 "'%s %d'",
                 "'{}{0}'",
                 "[]",
                 "{}",
                 "()",
                 "none",
                 "true",
                 "loop",
                 "ns",
                 "range(4)",
                 "(1, 'b')",
                 "[3, 'x', none]",
                 "m",
                 "x",
                 "{'k': 1, 2: 'v'}",
                 "9223372036854775807",
                 "'漢é😊'"});
  }

  std::string Arguments(int depth) {
    std::string out;
    for (int i = Below(3); i > 0; --i) {
      if (!out.empty()) out += ", ";
      if (Below(8) == 0) out += Pick({"width=", "attribute=", "reverse="});
      out += Expression(depth - 1);
    }
    return out;
  }

  std::string Expression(int depth) {
    if (depth <= 0) return Atom();
    const std::string a = Expression(depth - 1);
    switch (Below(10)) {
      case 0:
        return "(" + a + " " +
               Pick({"+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<",
                     "<=", ">", ">=", "in", "not in", "and", "or"}) +
               " " + Expression(depth - 1) + ")";
      case 1:
        return Pick({"not ", "-", "+"}) + a;
      case 2:
        return "(" + a + " if " + Expression(depth - 1) + " else " + Atom() +
               ")";
      case 3:
      case 4:
        return a + "|" +
               Pick({"upper",     "lower",      "title",      "trim",
                     "length",    "first",      "last",       "list",
                     "join",      "sort",       "unique",     "reverse",
                     "sum",       "max",        "min",        "int",
                     "float",     "abs",        "round",      "string",
                     "tojson",    "default",    "items",      "dictsort",
                     "batch",     "slice",      "select",     "reject",
                     "map",       "selectattr", "rejectattr", "groupby",
                     "replace",   "indent",     "truncate",   "wordcount",
                     "urlencode", "escape",     "striptags",  "center",
                     "attr",      "format",     "safe"}) +
               (Below(2) == 0 ? "" : "(" + Arguments(depth) + ")");
      case 5:
        return "(" + a + " is " +
               Pick({"defined", "none", "string", "mapping", "odd", "even",
                     "iterable", "sequence", "callable", "in(l)", "eq(1)",
                     "divisibleby(3)", "sameas(n)", "upper"}) +
               ")";
      case 6:
        return a + "[" + Pick({"0", "-1", "'k'", "1:", ":2", "::-1", "::2"}) +
               "]";
      case 7:
        return a + "." +
               Pick({"split", "strip", "upper", "find", "replace", "format",
                     "items", "get", "keys", "index", "count", "join",
                     "startswith", "partition", "zfill", "append"}) +
               "(" + Arguments(depth) + ")";
      case 8:
        return Pick({"range", "dict", "namespace", "m", "cycler", "joiner",
                     "caller", "loop", "strftime_now", "raise_exception"}) +
               "(" + Arguments(depth) + ")";
      default:
        return "[" + a + ", " + Expression(depth - 1) + "]";
    }
  }

  // Below: expressions that are valid, by their types.

  std::string TextOf(int depth) {
    if (depth <= 0) {
      return Pick({"s", "e", "u", "ml", "html", "w", "k", "'a'", "''", "'漢é😊'",
                   "users[0].name", "msgs[-1]['content']"});
    }
    const std::string a = "(" + TextOf(depth - 1) + ")";
    switch (Below(6)) {
      case 0:
        return a + Pick({"|upper", "|lower", "|title", "|trim", "|capitalize",
                         "|string", "|indent", "|center(9)", "|truncate(7)",
                         "|escape", "|striptags", "|urlencode", "|reverse",
                         "|replace('l', 'r')", "|safe", "|tojson"});
      case 1:
        return a + Pick({".strip()", ".upper()", ".replace('o', '')",
                         ".zfill(5)", ".title()", ".rstrip('d')",
                         ".removeprefix('H')", ".swapcase()", ".ljust(20)",
                         ".partition('o')[2]", ".casefold()"});
      case 2:
        return "(" + a + " ~ " + AnyOf(depth - 1) + ")";
      case 3:
        return a + Pick({"[1:]", "[::-1]", "[:4]", "[-3:]", "[::2]"});
      case 4:
        return "(" + TextsOf(depth - 1) + "|join(" + a + "))";
      default:
        return Pick({"('%s.%r' % (", "('{}{!r}'.format("}) + a + ", " +
               NumberOf(depth - 1) + "))";
    }
  }

  std::string NumberOf(int depth) {
    if (depth <= 0) {
      return Pick({"n", "f", "neg", "z", "1", "-2", "0", "2.5", "nest.a.b[1]"});
    }
    switch (Below(5)) {
      case 0:
        return "(" + NumberOf(depth - 1) + Pick({" + ", " - ", " * "}) +
               NumberOf(depth - 1) + ")";
      case 1:
        return "(" + NumberOf(depth - 1) + ")" +
               Pick({"|abs", "|round", "|int", "|float"});
      case 2:
        return "(" + TextOf(depth - 1) + ")" +
               Pick({"|length", "|wordcount", ".count('l')", ".find('o')"});
      case 3:
        return "(" + NumbersOf(depth - 1) + Pick({")|sum", ")|length"});
      default:
        return "(" + NumberOf(depth - 1) + " if " + TestOf(depth - 1) +
               " else " + NumberOf(depth - 1) + ")";
    }
  }

  std::string NumbersOf(int depth) {
    if (depth <= 0) {
      return Pick({"l", "[]", "[3, 1.5, -2]", "range(4)", "d.values()"}) +
             "|list";
    }
    if (Below(3) == 0) {
      return "([" + NumberOf(depth - 1) + "] + " + NumbersOf(depth - 1) + ")";
    }
    return "(" + NumbersOf(depth - 1) + ")" +
           Pick({"|sort", "|reverse|list", "|unique|list", "|select|list",
                 "|map('abs')|list", "|reject('odd')|list", "[1:]", "[::-1]",
                 "|batch(2)|map('sum')|list"});
  }

  std::string TextsOf(int depth) {
    if (depth <= 0) {
      return Pick({"names", "d|list", "users|map(attribute='name')|list",
                   "ml.splitlines()", "msgs|map(attribute='role')|list"});
    }
    if (Below(3) == 0) {
      return "(" + TextOf(depth - 1) + ")" +
             Pick({".split()", "|list", ".split('o')"});
    }
    return "(" + TextsOf(depth - 1) + ")" +
           Pick({"|sort", "|sort(reverse=true)", "|unique|list", "|list",
                 "|map('upper')|list", "[1:]", "[::-1]", "|select|list"});
  }

  std::string TestOf(int depth) {
    if (depth <= 0) return Pick({"t", "no", "zz is defined", "true", "not l"});
    switch (Below(5)) {
      case 0:
        return "(" + NumberOf(depth - 1) + Pick({" < ", " == ", " >= "}) +
               NumberOf(depth - 1) + ")";
      case 1:
        return "(" + TextOf(depth - 1) + Pick({" in ", " != ", " < "}) +
               TextOf(depth - 1) + ")";
      case 2:
        return "(" + TextOf(depth - 1) + " in " + TextsOf(depth - 1) + ")";
      case 3:
        return "(" + AnyOf(depth - 1) + " is " +
               Pick({"string", "iterable", "none", "number", "mapping"}) + ")";
      default:
        return "(not " + TestOf(depth - 1) + Pick({" and ", " or "}) +
               TestOf(depth - 1) + ")";
    }
  }

  std::string AnyOf(int depth) {
    switch (Below(5)) {
      case 0:
        return NumberOf(depth);
      case 1:
        return "(" + NumbersOf(depth) + ")";
      case 2:
        return "(" + TextsOf(depth) + ")";
      case 3:
        return Pick({"none", "d", "nest", "users[1]", "zz", "{'k': 1, 2: 'v'}",
                     "namespace(a=1)", "cycler(1, 2).next()",
                     "dict(a=s)|dictsort", "users|groupby('age')|list"});
      default:
        return TextOf(depth);
    }
  }

  // Mostly one of those.
  std::string Something(int depth) {
    return Below(16) == 0 ? Expression(depth) : AnyOf(depth);
  }

  std::string Statement(int depth) {
    const auto tag = [&](const std::string& body) {
      return "{%" + Pick({"", "-", "+"}) + " " + body + " " + Pick({"", "-"}) +
             "%}";
    };
    if (depth <= 0 || Below(3) == 0) {
      return Pick({"", "\n", " text ", "é\n  "}) + "{{ " +
             Something(1 + Below(3)) + " }}";
    }
    const std::string body = Block(depth - 1);
    const std::string value = Something(2);
    switch (Below(9)) {
      case 0:
        return tag("if " + value) + body + tag("else") + body + tag("endif");
      case 1:
        return tag("for x in " + NumbersOf(1)) + body + "{{ x }}" +
               "{{ loop.index }}" + tag("endfor");
      case 2:
        return tag("for k, v in " +
                   Pick({"d.items()", "users|map('items')|map('first')",
                         "d|dictsort", "[(1, s), (0, l)]"}) +
                   " if k") +
               body + Pick({tag("break"), tag("continue"), ""}) + tag("endfor");
      case 3:
        return tag("set x = " + value);
      case 4:
        return tag("set x") + body + tag("endset");
      case 5:
        return tag("macro m(a, b=" + value + ")") + body + tag("endmacro") +
               "{{ m(" + Atom() + ") }}";
      case 6:
        return tag("set ns = namespace()") + tag("set ns.a = " + value);
      case 7:
        return tag("filter upper") + body + tag("endfilter");
      default:
        return tag("with y = " + value) + body + tag("endwith");
    }
  }

  std::mt19937 random_;
};

TEST(RandomTemplates, EndWithATextOrAnError) {
  const uint32_t seed = 20261130;
  SCOPED_TRACE(seed);
  const Dict context = ContextOf(kContext);
  int rendered = 0;
  for (uint32_t round = 0; round < 500; ++round) {
    // Deep ones end with an error, most often.
    const std::string source = Writer(seed + round).Block(round % 3);
    const auto runs = RenderRuns(source, context);
    rendered += runs.ok() ? 1 : 0;
    if (runs.ok()) continue;
    EXPECT_EQ(runs.status().message().substr(0, 20), "chat template, line ")
        << source;
  }
  // Some 400; compilers evaluate what is random in orders of their own.
  EXPECT_GT(rendered, 350) << "errors alone prove little";
}

// Bytes changed at random: the lexer and the parser meet all sorts of ends.
TEST(RandomTemplates, DamagedSourcesEndWithATextOrAnError) {
  const uint32_t seed = 20261201;
  SCOPED_TRACE(seed);
  const Dict context = ContextOf(kContext);
  constexpr std::string_view kBytes = "{}%#-+'\"|.[](),:~ \n0aé\\";
  for (uint32_t round = 0; round < 500; ++round) {
    Writer writer(seed + round);
    std::string source = writer.Block(2);
    for (int i = writer.Below(6); i >= 0 && !source.empty(); --i) {
      const auto at =
          static_cast<size_t>(writer.Below(static_cast<int>(source.size())));
      source[at] = kBytes[static_cast<size_t>(
          writer.Below(static_cast<int>(kBytes.size())))];
    }
    const auto runs = RenderRuns(source, context);
    if (runs.ok()) continue;
    EXPECT_EQ(runs.status().message().substr(0, 13), "chat template") << source;
  }
}

}  // namespace
}  // namespace kvasir::jinja

// Nothing works for free: what looks through or copies its input asks the
// budget before it does.
#include "engine/template/budget.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/template/callables.h"
#include "engine/template/filters.h"
#include "engine/template/globals.h"
#include "engine/template/methods.h"
#include "engine/template/string_format.h"
#include "tests/engine/template/golden.h"

namespace kvasir::jinja {
namespace {

TEST(Budget, SmallThingsAddUp) {
  Budget budget(0);
  for (size_t i = 0; i < kBytesPerStep; ++i) ASSERT_TRUE(budget.Scan(1).ok());
  EXPECT_EQ(budget.steps(), 1u);
}

TEST(Budget, EndsExactlyAtItsLimits) {
  Budget steps(0);
  EXPECT_TRUE(steps.Step(kMaxSteps).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(steps.Scan(1)));
  Budget bytes(0);
  EXPECT_TRUE(bytes.Produce(kMaxProducedBytes).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(bytes.Produce(1)));
  EXPECT_TRUE(bytes.Scan(1).ok());
  for (const size_t huge : {SIZE_MAX, SIZE_MAX / 2, kMaxSteps + 1}) {
    EXPECT_TRUE(absl::IsResourceExhausted(Budget(0).Step(huge))) << huge;
    EXPECT_TRUE(absl::IsResourceExhausted(Budget(0).Scan(huge << 6 | huge)))
        << huge;
  }
}

// Far more than the few steps that are left below.
constexpr size_t kManyItems = 50'000;
constexpr size_t kManyBytes = 1'000'000;
constexpr size_t kStepsLeft = 1000;

Runtime AlmostDone() {
  Runtime runtime = {Budget(0), absl::UnixEpoch(), {}};
  const size_t left = kStepsLeft * kBytesPerStep;
  EXPECT_TRUE(runtime.budget.Produce(kMaxProducedBytes - left).ok());
  EXPECT_TRUE(
      runtime.budget.Step(kMaxSteps - kStepsLeft - runtime.budget.steps())
          .ok());
  return runtime;
}

// A value of each kind that has a size.
std::vector<Value> LargeValues() {
  // Blanks at both ends, and no character that comes only once.
  const std::string half(kManyBytes / 2, ' ');
  ValueList items;
  ValueList pairs;
  Dict dict;
  for (size_t i = 0; i < kManyItems; ++i) {
    const Value text = Value::String(absl::StrCat("K", i), /*trusted=*/false);
    items.push_back(Value::Int(static_cast<int64_t>(i)));
    pairs.push_back(Value::List({text, Value::Int(1)}, SequenceKind::kTuple));
    dict.Set(text, Value::Int(1));
  }
  return {Value::String(half + half, false),
          Value::String(half + "\u00e9" + half, true),
          Value::String(std::string(kManyBytes, 'a'), false),
          Value::String(std::string(kManyBytes, 'A'), false),
          Value::List(items),
          Value::List(items, SequenceKind::kTuple),
          Value::List(items, SequenceKind::kRange),
          Value::List(items, SequenceKind::kView),
          Value::List(pairs),
          Value::FromDict(std::move(dict))};
}

// What each value is tried with.
std::vector<Arguments> ArgumentsFor(const Value& self) {
  const auto named = [](const char* name, Value value) {
    Arguments arguments;
    arguments.named.emplace_back(name, std::move(value));
    return arguments;
  };
  const Value text = Value::String("zz", /*trusted=*/false);
  std::vector<Arguments> all;
  for (const ValueList& positional : std::vector<ValueList>{
           {},
           {self},
           {text},
           {Value::Int(2)},
           {Value::Int(kManyItems)},
           {Value::String(std::string(kManyBytes, 'z'), false)},
           ValueList(kManyItems, text),
           {self, self},
           {text, text},
           {Value::Int(0), self},
           {text, Value::String("upper", false)},
           {Value::String("upper", false)}}) {
    all.push_back({positional, {}});
  }
  all.push_back(named("attribute", text));
  all.push_back(named("sep", self));
  all.push_back(named("chars", self));
  return all;
}

struct Case {
  Value self;
  std::vector<Arguments> arguments;  // to try one by one
};

// Whether it refuses at least once, for the budget.
bool Refuses(const NamedFunction& one, const Case& large) {
  for (const Arguments& arguments : large.arguments) {
    Runtime runtime = AlmostDone();
    const auto value = one.function(runtime, large.self, arguments);
    if (absl::IsResourceExhausted(value.status())) return true;
  }
  return false;
}

// What looks at no more of its input than a few bytes or items; whatever else a
// table has must refuse.
const std::vector<std::string>& Constant() {
  static const auto* const names = new std::vector<std::string>{
      "filter abs",     "filter count",      "filter d",
      "filter default", "filter length",     "filter round",
      "global joiner",  "method append",     "method clear",
      "method copy",    "method extend",     "method insert",
      "method pop",     "method popitem",    "method remove",
      "method reverse", "method setdefault", "method sort",
      "method update",  "test boolean",      "test callable",
      "test defined",   "test divisibleby",  "test escaped",
      "test even",      "test false",        "test filter",
      "test float",     "test integer",      "test iterable",
      "test mapping",   "test none",         "test number",
      "test odd",       "test sequence",     "test string",
      "test test",      "test true",         "test undefined"};
  return *names;
}

void CheckTable(const std::string& kind, FunctionTable table,
                absl::Span<const Case> cases) {
  for (const NamedFunction& one : table) {
    const std::string name = absl::StrCat(kind, " ", View(one.name));
    const bool constant = std::find(Constant().begin(), Constant().end(),
                                    name) != Constant().end();
    bool refuses = false;
    for (const Case& large : cases) refuses = refuses || Refuses(one, large);
    EXPECT_NE(refuses, constant) << name;
  }
}

TEST(Budget, EveryFilterTestAndMethodAsksIt) {
  std::vector<Case> cases;
  for (const Value& self : LargeValues()) {
    cases.push_back({self, ArgumentsFor(self)});
  }
  for (const auto& table :
       {TextFilters(), ListFilters(), SelectFilters(), ValueFilters()}) {
    CheckTable("filter", table, cases);
  }
  CheckTable("test", Tests(), cases);
  CheckTable("global", Globals(), cases);
  // By type: each has functions of its own under the same names.
  for (const Case& one : cases) {
    CheckTable("method", MethodsOf(one.self), absl::MakeConstSpan(&one, 1));
  }
}

// Whether so many calls are refused at last, for the budget.
template <typename Function>
bool EndsInRefusal(Function&& call) {
  Runtime runtime = AlmostDone();
  for (size_t i = 0; i < 2 * kStepsLeft; ++i) {
    if (absl::IsResourceExhausted(call(runtime).status())) return true;
  }
  return false;
}

// Any value has its weight: a template may keep as many as it can make.
TEST(Budget, ValuesThatSayWhatIsMissingAreCharged) {
  const Value none = Value::List({});
  for (const char* name : {"first", "last", "min", "max"}) {
    EXPECT_TRUE(EndsInRefusal([&](Runtime& runtime) {
      return FindFilter(name)(runtime, none, {});
    })) << name;
  }
  const auto loop = std::make_shared<Loop>(ValueList(1), 0, nullptr, nullptr);
  for (const char* name : {"previtem", "nextitem"}) {
    EXPECT_TRUE(EndsInRefusal([&](Runtime& runtime) {
      return loop->Attribute(runtime, name);
    })) << name;
  }
  // A generator whose error nobody asks for.
  const Arguments unknown = {{Value::String("zz", false)}, {}};
  EXPECT_TRUE(EndsInRefusal([&](Runtime& runtime) {
    return FindFilter("map")(runtime, Value::Int(1), unknown);
  }));
  EXPECT_TRUE(EndsInRefusal(
      [&](Runtime& runtime) { return FindFilter("join")(runtime, none, {}); }));
}

std::string Times(size_t count, std::string_view text) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

// What a format asks for costs more than its bytes do.
TEST(Budget, FormatsAreChargedForTheirWork) {
  Runtime runtime = AlmostDone();
  auto space = std::make_shared<Namespace>();
  space->Set("a", Value::FromObject(space));
  const Arguments one = {{Value::FromObject(space)}, {}};
  const Text hops("{0" + Times(2 * kStepsLeft, "[a]") + "}", false);
  EXPECT_TRUE(
      absl::IsResourceExhausted(BraceFormat(runtime, hops, one).status()));
  space->Clear();
  // Without an end, or with nothing but flags.
  const std::string many = Times(kManyBytes, "-");
  runtime = AlmostDone();
  EXPECT_TRUE(absl::IsResourceExhausted(
      BraceFormat(runtime, Text("{" + many, false), one).status()));
  for (const std::string& format : {"%" + many + "d", "%(" + many}) {
    runtime = AlmostDone();
    EXPECT_TRUE(absl::IsResourceExhausted(
        PercentFormat(runtime, Text(format, false), Value::Int(1)).status()));
  }
  for (const char* conversion : {"%c", "%Y", "%T", "%%"}) {
    runtime = AlmostDone();
    EXPECT_TRUE(FormatTime(runtime.budget, conversion, runtime.now).ok());
    EXPECT_TRUE(absl::IsResourceExhausted(
        FormatTime(runtime.budget, Times(kStepsLeft, conversion), runtime.now)
            .status()))
        << conversion;
  }
}

// A tuple's text is made for every look at a dict, and may be long.
TEST(Budget, TuplesAsKeysAreCharged) {
  EXPECT_EQ(*Render("{% set d = {(1, 'a'): 'x', ('s1:a',): 'y', ((1,), 'a'): "
                    "'z'} %}{{ d[(1.0, 'a')] }}{{ d[('s1:a',)] }}"
                    "{{ d[('a',)] is defined }}{{ d[((true,), 'a')] }}"
                    "{{ (1,) in d }}"),
            "xyFalsezFalse");
  for (const std::string look :
       {"d[t]", "t in d", "d.get(t)", "{t: 1}", "[t]|unique|list", "d == e"}) {
    const auto text = Render(
        "{% set t = ('x' * 60000,) %}{% set d = {t: 1} %}"
        "{% set e = {t: 1} %}{% for i in range(100000) %}{% set x = " +
        look + " %}{% endfor %}");
    ASSERT_FALSE(text.ok()) << look;
    EXPECT_TRUE(absl::IsResourceExhausted(text.status())) << look;
  }
}

}  // namespace
}  // namespace kvasir::jinja

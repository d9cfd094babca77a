#include "engine/template/json_reader.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/template/limits.h"
#include "tests/engine/template/golden.h"

namespace kvasir::jinja {
namespace {

using testing::HasSubstr;

// The value as Python would print it.
std::string Printed(const std::string& json) {
  const auto value = ReadJson(json);
  if (!value.ok()) return std::string(value.status().message());
  Dict context;
  context.Set("x", *value);
  const auto runs = RenderRuns("{{ x }}", context);
  std::string text;
  for (const RenderedRun& run : *runs) text += run.text;
  return text;
}

TEST(JsonReader, ReadsWhatPythonReads) {
  EXPECT_EQ(Printed("null"), "None");
  EXPECT_EQ(Printed(" [1, -2, 3.0, 1e2, true, \"a\\n\\u00e9\"] "),
            "[1, -2, 3.0, 100.0, True, 'a\\né']");
  EXPECT_EQ(Printed("{\"b\": 1, \"a\": {}, \"c\": []}"),
            "{'b': 1, 'a': {}, 'c': []}");
  EXPECT_EQ(Printed("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(Printed("-9223372036854775808"), "-9223372036854775808");
}

// The last of equal keys counts, where the first one stood.
TEST(JsonReader, EqualKeysKeepTheirPlace) {
  EXPECT_EQ(Printed("{\"a\": 1, \"b\": 2, \"a\": 3}"), "{'a': 3, 'b': 2}");
  std::string many = "{";
  for (int i = 0; i < 20; ++i) many += "\"k" + std::to_string(i) + "\": 0, ";
  EXPECT_THAT(Printed(many + "\"k3\": 7}"), HasSubstr("'k3': 7, 'k4': 0"));
}

TEST(JsonReader, RefusesWhatIsNone) {
  for (const char* text : {"", "{", "[1,]", "{\"a\"}", "nul", "1 2", "'a'",
                           "{a: 1}", "\"\\ud800\"", "\"\xFF\"", "[1] x"}) {
    EXPECT_THAT(Printed(text), HasSubstr("wanted JSON")) << text;
  }
}

TEST(JsonReader, RefusesIntegersThatDoNotFit) {
  for (const char* text : {"9223372036854775808", "-9223372036854775809",
                           "[123456789012345678901234567890]"}) {
    EXPECT_THAT(Printed(text), HasSubstr("64 bits")) << text;
  }
}

// Depth costs no stack: the bound is met long before the text ends.
TEST(JsonReader, DepthIsBounded) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '[') +
           std::string(static_cast<size_t>(depth), ']');
  };
  EXPECT_TRUE(ReadJson(nested(kMaxJsonDepth)).ok());
  for (const int depth : {kMaxJsonDepth + 1, 1000000}) {
    EXPECT_EQ(Printed(nested(depth)),
              "wanted JSON nested at most 64 deep; found 65 or more");
  }
}

// The parser below would skip the mark; a model would be told of other tools
// than the client's bytes say.
TEST(JsonReader, RefusesAByteOrderMark) {
  EXPECT_EQ(Printed("\xEF\xBB\xBF{}"),
            "wanted JSON; found a byte order mark at its start");
  EXPECT_EQ(Printed("\"\xEF\xBB\xBF\""), "\xEF\xBB\xBF") << "inside it is text";
}

TEST(JsonReader, TextsAreData) {
  const auto value = ReadJson("\"a\"");
  ASSERT_TRUE(value.ok());
  EXPECT_FALSE(value->AsText().IsTrustedAt(0));
}

}  // namespace
}  // namespace kvasir::jinja

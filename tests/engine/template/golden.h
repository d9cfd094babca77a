#ifndef KVASIR_TESTS_ENGINE_TEMPLATE_GOLDEN_H_
#define KVASIR_TESTS_ENGINE_TEMPLATE_GOLDEN_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "engine/template/json_reader.h"
#include "engine/template/template.h"

namespace kvasir::jinja {

// What the golden templates are rendered with.
inline constexpr char kContext[] = R"json({
  "s": "Hello, World", "e": "", "u": "Straße ÉCOLE 漢字😊", "n": 7, "f": 2.5,
  "neg": -3, "z": 0, "t": true, "no": false, "nil": null, "l": [3, 1, 2],
  "names": ["bob", "Alice", "carol"], "d": {"b": 2, "a": 1, "C": 3},
  "nest": {"a": {"b": [10, 20, {"c": "deep"}]}},
  "users": [{"name": "bob", "age": 30, "tags": ["x"]},
            {"name": "Alice", "age": 25, "tags": []},
            {"name": "carol", "age": 30}],
  "msgs": [{"role": "system", "content": "S"},
           {"role": "user", "content": "U1"},
           {"role": "assistant", "content": "A1"},
           {"role": "user", "content": "U2"}],
  "ml": "one\n two\n\nthree", "html": "<b>\"x\" & 'y'</b>", "k": "b",
  "w": "  pad\t\n"
})json";

// 20 July 2025, 08:26:40 UTC.
inline constexpr int64_t kNowSeconds = 1753000000;

// The object of a JSON text as a context. Fails the test if it is none.
inline Dict ContextOf(std::string_view json) {
  const absl::StatusOr<Value> value = ReadJson(json);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() && value->is_dict() ? value->AsDict() : Dict();
}

inline absl::StatusOr<RenderedText> RenderRuns(std::string_view source,
                                               const Dict& context) {
  const absl::StatusOr<Template> parsed = Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->Render(context, {absl::FromUnixSeconds(kNowSeconds)});
}

// The rendered text, whatever its trust.
inline absl::StatusOr<std::string> Render(std::string_view source,
                                          std::string_view json = kContext) {
  const absl::StatusOr<RenderedText> runs = RenderRuns(source, ContextOf(json));
  if (!runs.ok()) return runs.status();
  std::string text;
  for (const RenderedRun& run : *runs) text += run.text;
  return text;
}

struct GoldenCase {
  const char* source;
  const char* expected;  // nullptr: an error
};

inline void CheckGolden(absl::Span<const GoldenCase> cases) {
  for (const GoldenCase& one : cases) {
    const absl::StatusOr<std::string> text = Render(one.source);
    if (one.expected == nullptr) {
      EXPECT_FALSE(text.ok()) << one.source << " gave " << *text;
      const absl::string_view message = text.status().message();
      EXPECT_EQ(message.substr(0, 20), "chat template, line ") << message;
      continue;
    }
    EXPECT_TRUE(text.ok()) << one.source << ": " << text.status();
    EXPECT_EQ(text.value_or(""), one.expected) << one.source;
  }
}

}  // namespace kvasir::jinja

#endif  // KVASIR_TESTS_ENGINE_TEMPLATE_GOLDEN_H_

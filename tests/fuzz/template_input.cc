#include "tests/fuzz/template_input.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "cache/base/check.h"
#include "engine/template/json_reader.h"
#include "engine/template/limits.h"
#include "engine/template/template.h"

namespace kvasir {
namespace {

using jinja::Dict;
using jinja::ReadJson;
using jinja::Value;

// Stands in all data, and in no template unless it is written there.
constexpr std::string_view kMark = "\u27E6";

constexpr char kMessages[] =
    R"([{"role": "system", "content": "⟦S⟧ be <|im_end|> brief"},
        {"role": "user", "content": "⟦U⟧ {{ x }}\n  é漢😊"},
        {"role": "assistant", "content": "⟦A⟧", "tool_calls": [
          {"id": "1", "function": {"name": "⟦f⟧", "arguments": {"a": [1, 2.5,
           null, true, "⟦v⟧"]}}}]},
        {"role": "tool", "content": "⟦T⟧"}])";

Dict MakeContext(std::string_view json) {
  Dict context;
  context.Set("messages", *ReadJson(kMessages));
  context.Set("bos_token", Value::String("<s>", /*trusted=*/true));
  context.Set("add_generation_prompt", Value::Bool(true));
  const absl::StatusOr<Value> x = ReadJson(json);
  if (x.ok()) context.Set("x", *x);
  return context;
}

}  // namespace

bool RunTemplateInput(absl::Span<const uint8_t> bytes) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()),
                             bytes.size());
  const size_t end = std::min(all.find('\0'), all.size());
  const std::string_view source = all.substr(0, end);
  const std::string_view json = all.substr(std::min(end + 1, all.size()));
  const auto parsed = jinja::Template::Parse(source);
  const auto runs = parsed.ok()
                        ? parsed->Render(MakeContext(json), {})
                        : absl::StatusOr<jinja::RenderedText>(parsed.status());
  if (!runs.ok()) {
    KV_CHECK(runs.status().message().substr(0, 13) == "chat template")
        << runs.status().message();
    return false;
  }
  const bool may_write_mark = source.find(kMark) != std::string_view::npos ||
                              source.find('\\') != std::string_view::npos;
  size_t size = 0;
  for (size_t i = 0; i < runs->size(); ++i) {
    const jinja::RenderedRun& run = (*runs)[i];
    KV_CHECK(!run.text.empty());
    KV_CHECK(i == 0 || run.trusted != (*runs)[i - 1].trusted);
    KV_CHECK(!run.trusted || may_write_mark ||
             run.text.find(kMark) == std::string::npos)
        << run.text;
    size += run.text.size();
  }
  KV_CHECK(size <= jinja::kMaxOutputBytes);
  return true;
}

}  // namespace kvasir

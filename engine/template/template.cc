#include "engine/template/template.h"

#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/template/characters.h"
#include "engine/template/evaluator.h"
#include "engine/template/limits.h"
#include "engine/template/parser.h"
#include "engine/template/token.h"

namespace kvasir::jinja {
namespace {

// What a value of the context weighs, with all that it holds.
size_t BytesOf(const Value& value) {
  size_t bytes = sizeof(Value);
  if (value.is_string()) {
    bytes += value.AsText().size();
  } else if (value.is_sequence()) {
    for (const Value& item : value.AsSequence().items) bytes += BytesOf(item);
  } else if (value.is_dict()) {
    for (const auto& [key, item] : value.AsDict().items()) {
      bytes += BytesOf(key) + BytesOf(item);
    }
  }
  return bytes;
}

RenderedText ToRuns(const Text& text) {
  RenderedText runs;
  size_t from = 0;
  for (const Text::Run& run : text.runs()) {
    runs.push_back({std::string(text.view().substr(from, run.end - from)),
                    run.origin == Origin::kTemplate,
                    run.origin == Origin::kMarked});
    from = run.end;
  }
  return runs;
}

}  // namespace

Template::Template(std::shared_ptr<const ParsedTemplate> tree)
    : tree_(std::move(tree)) {}

absl::StatusOr<Template> Template::Parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("chat template: wanted at most ", kMaxTemplateBytes,
                     " bytes (kMaxTemplateBytes); found ", source.size()));
  }
  if (!IsWellFormed(source)) {
    return absl::InvalidArgumentError(
        "chat template: wanted UTF-8; found other bytes");
  }
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  ASSIGN_OR_RETURN(auto tree, Parser(std::move(tokens)).Parse());
  return Template(std::move(tree));
}

absl::StatusOr<RenderedText> Template::Render(
    const Dict& context, const RenderOptions& options) const {
  size_t context_bytes = 0;
  for (const auto& [key, value] : context.items()) {
    context_bytes += BytesOf(value);
  }
  Runtime runtime = {Budget(context_bytes), options.now, {}};
  const auto untie = absl::MakeCleanup([&] {
    for (const auto& object : runtime.changing) object->Clear();
  });
  Evaluator evaluator(tree_.get(), &context, &runtime);
  const absl::StatusOr<Text> text = evaluator.Run();
  if (text.ok()) return ToRuns(*text);
  return absl::Status(text.status().code(),
                      absl::StrCat("chat template, line ", evaluator.line(),
                                   ": ", text.status().message()));
}

}  // namespace kvasir::jinja

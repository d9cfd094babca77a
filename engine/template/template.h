#ifndef KVASIR_ENGINE_TEMPLATE_TEMPLATE_H_
#define KVASIR_ENGINE_TEMPLATE_TEMPLATE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "engine/template/value.h"

namespace kvasir::jinja {

struct ParsedTemplate;

// Part of a rendered text. Neighbours differ in one of the two: what is not
// trusted is data, and must not become a control token, nor a part of one.
struct RenderedRun {
  std::string text;
  bool trusted = false;
  bool marked = false;  // from a text of Origin::kMarked; never trusted
};
using RenderedText = std::vector<RenderedRun>;

struct RenderOptions {
  absl::Time now;  // for strftime_now(); taken as UTC
};

// A chat template in the language of jinja2 3.1, as transformers runs it: with
// trim_blocks and lstrip_blocks on, loop controls, the tag `generation`, in an
// immutable sandbox. Includes, inheritance, imports and translations are
// unknown tags.
//
//   ASSIGN_OR_RETURN(const Template chat, Template::Parse(source));
//   Dict context;
//   context.Set("messages", Value::List(...));
//   ASSIGN_OR_RETURN(RenderedText text, chat.Render(context, {now}));
//
// Source and context may come from anybody: time and memory are bounded by
// limits.h, and no input ends the process. Immutable; any thread.
class Template {
 public:
  // INVALID_ARGUMENT, as "chat template, line 3: unknown tag "foo"".
  static absl::StatusOr<Template> Parse(std::string_view source);

  // INVALID_ARGUMENT for what the template raises or cannot do with this
  // context, RESOURCE_EXHAUSTED for a limit, by name; both with the line.
  absl::StatusOr<RenderedText> Render(const Dict& context,
                                      const RenderOptions& options) const;

 private:
  explicit Template(std::shared_ptr<const ParsedTemplate> tree);

  std::shared_ptr<const ParsedTemplate> tree_;
};

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_TEMPLATE_H_

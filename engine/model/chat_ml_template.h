#ifndef KVASIR_ENGINE_MODEL_CHAT_ML_TEMPLATE_H_
#define KVASIR_ENGINE_MODEL_CHAT_ML_TEMPLATE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace kvasir {

// What may differ between two chat templates of the ChatML format.
struct ChatMlTemplate {
  // Put in front of a conversation that does not start with a system message;
  // empty: nothing is.
  std::string default_system;
  // Whether the template itself prints a BOS token.
  bool prints_bos = false;
};

// Recognises a ChatML template among Jinja templates. This is no interpreter
// but a narrow reading of the printed parts, good for templates of the Qwen and
// SmolLM2 kind on plain conversations (no tools, no reasoning); what it cannot
// vouch for is UNIMPLEMENTED, with the part that is missing or too much.
// Wanted, wherever in the template and however quoted, spaced and concatenated:
//
//   '<|im_start|>' + message['role'] + '\n' + message['content']
//       + '<|im_end|>\n'                      a message
//   '<|im_start|>assistant\n'                 the opening of an answer
//   '<|im_start|>system\n...<|im_end|>\n'     a default system message; may be
//       missing; at most one, in a template that asks for messages[0]['role']
//
// and no other text outside of tags than the blanks that Jinja strips with
// trim_blocks and lstrip_blocks on, as chat templates are rendered.
absl::StatusOr<ChatMlTemplate> ReadChatMlTemplate(std::string_view source);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_CHAT_ML_TEMPLATE_H_

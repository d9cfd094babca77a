#ifndef KVASIR_ENGINE_MODEL_CHAT_FORMAT_H_
#define KVASIR_ENGINE_MODEL_CHAT_FORMAT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/model/tokenizer.h"

namespace kvasir {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

// Ids of a conversation in the ChatML format, `<|im_start|>role\ncontent
// <|im_end|>\n` per message, followed by the opening of an assistant's answer
// if `add_generation_prompt`. Message text never becomes a control token.
//
// If the model's template has a default system message and the first message
// is not a system one, that message is put in front, as the template would.
// There is one BOS token if the model or its template wants one. A model
// without a template is taken to speak ChatML if it has its tokens.
//
// INVALID_ARGUMENT for no messages or an unknown role; otherwise whatever
// CheckChat() says.
absl::StatusOr<std::vector<TokenId>> EncodeChat(
    const Tokenizer& tokenizer, absl::Span<const ChatMessage> messages,
    bool add_generation_prompt);

// Whether the model can chat at all, whatever the messages. UNIMPLEMENTED if
// the vocabulary lacks ChatML's tokens or the template is none that
// ReadChatMlTemplate() recognises: other templates are not interpreted.
absl::Status CheckChat(const Tokenizer& tokenizer);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_CHAT_FORMAT_H_

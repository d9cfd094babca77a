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
// If the model's template opens with a default system message and the
// conversation has none, that message is added, as the template would.
//
// INVALID_ARGUMENT for no messages or an unknown role; UNIMPLEMENTED if the
// vocabulary lacks ChatML's tokens: other templates are not interpreted.
absl::StatusOr<std::vector<TokenId>> EncodeChat(
    const Tokenizer& tokenizer, absl::Span<const ChatMessage> messages,
    bool add_generation_prompt);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_CHAT_FORMAT_H_

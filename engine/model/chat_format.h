#ifndef KVASIR_ENGINE_MODEL_CHAT_FORMAT_H_
#define KVASIR_ENGINE_MODEL_CHAT_FORMAT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "engine/model/tokenizer.h"

namespace kvasir {

// A call of a tool that the assistant made.
struct ChatToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text of an object; empty: no arguments
};

struct ChatMessage {
  std::string role;  // any; the template decides which it knows
  std::string content;
  std::string name;          // empty: none
  std::string tool_call_id;  // empty: none
  std::vector<ChatToolCall> tool_calls;
};

// What a chat template is rendered with.
struct Conversation {
  std::vector<ChatMessage> messages;
  std::vector<std::string> tools;  // JSON text of an object each
  // JSON text of an object: further variables for the template; empty: none.
  std::string template_kwargs;
  // Whether to open an assistant's answer behind the messages.
  bool add_generation_prompt = true;
  // Whether the last message is left open, so that the model goes on with it:
  // the text ends behind the last byte of it that the template prints. Refused
  // if the template prints it altered, other than at its ends, or twice. Not
  // with add_generation_prompt, nor with a last message that has tool calls,
  // which the text would lack.
  bool continue_final_message = false;
  absl::Time now;  // for templates that print the date; taken as UTC
};

// Messages [begin, end) of a conversation, by their places.
struct MessageRange {
  size_t begin = 0;
  size_t end = 0;
};

// Ids of a conversation as the model's own template renders it; a model without
// one is taken to speak ChatML if it has its tokens. The template sees what it
// does in transformers' apply_chat_template(): `messages` and `tools` as dicts
// and lists, `documents` none, `add_generation_prompt`, bos_token, eos_token
// and what other special tokens the vocabulary names, and the further
// variables. An assistant's message with tool calls and no text has the content
// none.
//
// Text of messages, tools and variables never becomes a control token, however
// a template cuts and joins it. A role of the usual ones is no such text: some
// templates make a token of it, "<|" + role + "|>". The ids start with exactly
// one BOS token if the model or its template wants one.
//
// INVALID_ARGUMENT with the field that is at fault ("tools[2]: ..."), and with
// "messages: " for what the template does not take; RESOURCE_EXHAUSTED if
// rendering goes over a limit of engine/template/limits.h; otherwise whatever
// CheckChat() says. Any thread.
//
// The template does not see the messages in `left_out`.
absl::StatusOr<std::vector<TokenId>> EncodeChat(
    const Tokenizer& tokenizer, const Conversation& conversation,
    MessageRange left_out = {});

// Whether the model can chat at all, whatever the messages. UNIMPLEMENTED if
// its template cannot be parsed, with the line and the tag, or if it has none
// and the vocabulary lacks ChatML's tokens.
absl::Status CheckChat(const Tokenizer& tokenizer);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_CHAT_FORMAT_H_

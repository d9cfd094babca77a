#include "engine/model/chat_format.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/chat_context.h"
#include "engine/template/characters.h"
#include "engine/template/template.h"

namespace kvasir {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";

// A model without a template has to have ChatML's tokens to chat.
absl::Status CheckVocabulary(const Tokenizer& tokenizer) {
  for (const std::string_view marker : {kStart, kEnd}) {
    const TextPiece piece = {marker, /*parse_special=*/true};
    const std::vector<TokenId> ids =
        tokenizer.Encode(absl::MakeConstSpan(&piece, 1), false);
    if (ids.size() == 1 && tokenizer.IsControl(ids[0])) continue;
    return absl::UnimplementedError(
        absl::StrCat("chat: wanted a chat template or ChatML's control token ",
                     std::string(marker), " in the vocabulary; found neither"));
  }
  return absl::OkStatus();
}

// Without blanks at its ends, as Python's str.strip() gives it.
std::string_view Bare(std::string_view text) {
  while (!text.empty()) {
    const jinja::Character first = jinja::CharacterAt(text, 0);
    if (!jinja::IsSpace(first.code)) break;
    text.remove_prefix(first.bytes);
  }
  while (!text.empty()) {
    size_t last = text.size() - 1;
    while (!jinja::StartsCharacter(text[last])) --last;
    if (!jinja::IsSpace(jinja::CharacterAt(text, last).code)) break;
    text = text.substr(0, last);
  }
  return text;
}

// Ends the text behind the last message, whose own bytes are marked: behind its
// last byte that the template has printed. What stands there has to read as the
// message does, but for blanks at its ends; a part of it may be the template's
// own writing, as the tags around thoughts are.
absl::Status CutBehindMarked(std::string_view content,
                             jinja::RenderedText& runs) {
  const std::string message = jinja::MendUtf8(content);
  const std::string_view bare = Bare(message);
  if (bare.empty()) {
    return absl::InvalidArgumentError(
        "continue_final_message: wanted a last message with text; found none");
  }
  size_t marked_bytes = 0;  // without the blanks at the ends of each stretch
  size_t end = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].marked) continue;
    marked_bytes += Bare(runs[i].text).size();
    end = i + 1;
  }
  if (marked_bytes > bare.size()) {
    return absl::InvalidArgumentError(
        "continue_final_message: wanted a template that prints the last "
        "message once; found one that prints more");
  }
  runs.resize(end);
  std::string all;
  jinja::RenderedText joined;  // without the marks, which have served
  for (jinja::RenderedRun& run : runs) {
    all += run.text;
    if (!joined.empty() && joined.back().trusted == run.trusted) {
      joined.back().text += run.text;
    } else {
      joined.push_back({std::move(run.text), run.trusted});
    }
  }
  const std::string_view printed = Bare(all);
  if (printed.size() < bare.size() ||
      printed.substr(printed.size() - bare.size()) != bare) {
    return absl::InvalidArgumentError(
        "continue_final_message: wanted a template that prints the last "
        "message as it is; found one that does not");
  }
  runs = std::move(joined);
  return absl::OkStatus();
}

absl::Status CheckConversation(const Conversation& conversation) {
  if (conversation.messages.empty()) {
    return absl::InvalidArgumentError("messages: wanted at least one; found 0");
  }
  if (conversation.continue_final_message &&
      conversation.add_generation_prompt) {
    return absl::InvalidArgumentError(
        "continue_final_message: wanted add_generation_prompt to be false with "
        "it; found true");
  }
  const size_t calls = conversation.messages.back().tool_calls.size();
  if (conversation.continue_final_message && calls > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "continue_final_message: wanted a last message without tool_calls; "
        "found ",
        calls));
  }
  return absl::OkStatus();
}

absl::StatusOr<jinja::RenderedText> RenderChat(const Tokenizer& tokenizer,
                                               const Conversation& conversation,
                                               MessageRange left_out) {
  ASSIGN_OR_RETURN(const jinja::Dict context,
                   MakeChatContext(tokenizer, conversation, left_out));
  absl::StatusOr<jinja::RenderedText> text =
      tokenizer.chat_format()->Render(context, {conversation.now});
  if (!text.ok()) {
    // What a template raises may quote a message; a status is one line.
    std::string fault = absl::StrCat("messages: ", text.status().message());
    absl::c_replace_if(fault, absl::ascii_iscntrl, ' ');
    return absl::Status(text.status().code(), fault);
  }
  if (conversation.continue_final_message) {
    RETURN_IF_ERROR(
        CutBehindMarked(conversation.messages.back().content, *text));
  }
  return text;
}

}  // namespace

absl::Status CheckChat(const Tokenizer& tokenizer) {
  if (tokenizer.chat_template().empty()) return CheckVocabulary(tokenizer);
  const absl::Status& status = tokenizer.chat_format().status();
  if (status.ok()) return status;
  return absl::UnimplementedError(
      absl::StrCat("tokenizer.chat_template: ", status.message()));
}

absl::StatusOr<std::vector<TokenId>> EncodeChat(
    const Tokenizer& tokenizer, const Conversation& conversation,
    MessageRange left_out) {
  RETURN_IF_ERROR(CheckConversation(conversation));
  RETURN_IF_ERROR(CheckChat(tokenizer));
  ASSIGN_OR_RETURN(const jinja::RenderedText text,
                   RenderChat(tokenizer, conversation, left_out));
  std::vector<TextPiece> pieces;
  pieces.reserve(text.size());
  for (const jinja::RenderedRun& run : text) {
    pieces.push_back({run.text, run.trusted});
  }
  std::vector<TokenId> ids = tokenizer.Encode(pieces, /*add_special=*/true);
  // A template that prints BOS twice means one.
  if (!ids.empty() && tokenizer.bos() >= 0 && ids[0] == tokenizer.bos()) {
    const auto rest = std::find_if(ids.begin(), ids.end(), [&](TokenId id) {
      return id != tokenizer.bos();
    });
    ids.erase(ids.begin() + 1, rest);
  }
  return ids;
}

}  // namespace kvasir

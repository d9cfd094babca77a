#include "engine/model/chat_format.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/chat_context.h"
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

// Ends the text behind the last place where data reads `content`, bare of
// blanks at its ends; with those blanks if the template has printed them.
absl::Status CutBehind(std::string_view content, jinja::RenderedText& runs) {
  const absl::string_view all(content.data(), content.size());
  const absl::string_view bare = absl::StripAsciiWhitespace(all);
  const absl::string_view whole = absl::StripLeadingAsciiWhitespace(all);
  if (bare.empty()) {
    return absl::InvalidArgumentError(
        "continue_final_message: wanted a last message with text; found none");
  }
  for (size_t i = runs.size(); i > 0; --i) {
    jinja::RenderedRun& run = runs[i - 1];
    if (run.trusted) continue;
    const absl::string_view text = run.text;
    const size_t found = text.rfind(bare);
    if (found == absl::string_view::npos) continue;
    const bool is_whole = text.substr(found, whole.size()) == whole;
    run.text.resize(found + (is_whole ? whole.size() : bare.size()));
    runs.resize(i);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "continue_final_message: wanted a template that prints the last message "
      "as it is; found one that does not");
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
  return absl::OkStatus();
}

absl::StatusOr<jinja::RenderedText> RenderChat(
    const Tokenizer& tokenizer, const Conversation& conversation) {
  ASSIGN_OR_RETURN(const jinja::Dict context,
                   MakeChatContext(tokenizer, conversation));
  absl::StatusOr<jinja::RenderedText> text =
      tokenizer.chat_format()->Render(context, {conversation.now});
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        absl::StrCat("messages: ", text.status().message()));
  }
  if (conversation.continue_final_message) {
    RETURN_IF_ERROR(CutBehind(conversation.messages.back().content, *text));
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
    const Tokenizer& tokenizer, const Conversation& conversation) {
  RETURN_IF_ERROR(CheckConversation(conversation));
  RETURN_IF_ERROR(CheckChat(tokenizer));
  ASSIGN_OR_RETURN(const jinja::RenderedText text,
                   RenderChat(tokenizer, conversation));
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

#include "engine/model/chat_format.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/chat_ml_template.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

constexpr std::string_view kStart = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";

absl::Status CheckMessages(absl::Span<const ChatMessage> messages) {
  if (messages.empty()) {
    return absl::InvalidArgumentError("messages: wanted at least one; found 0");
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (role == "system" || role == "user" || role == "assistant") continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "messages[", i, "].role: wanted system, user or assistant; found ",
        QuoteText(role)));
  }
  return absl::OkStatus();
}

absl::Status CheckVocabulary(const Tokenizer& tokenizer) {
  for (const std::string_view marker : {kStart, kEnd}) {
    const TextPiece piece = {marker, /*parse_special=*/true};
    const std::vector<TokenId> ids =
        tokenizer.Encode(absl::MakeConstSpan(&piece, 1), false);
    if (ids.size() == 1 && tokenizer.IsControl(ids[0])) continue;
    return absl::UnimplementedError(absl::StrCat(
        "chat: wanted ChatML's control token ", std::string(marker),
        " in the vocabulary; found none, and other formats are not built"));
  }
  return absl::OkStatus();
}

// The pieces of one message, which they point into.
void AppendMessage(const ChatMessage& message, std::vector<TextPiece>& pieces) {
  pieces.push_back({kStart, true});
  pieces.push_back({message.role, false});
  pieces.push_back({"\n", false});
  pieces.push_back({message.content, false});
  pieces.push_back({kEnd, true});
  pieces.push_back({"\n", false});
}

}  // namespace

absl::Status CheckChat(const Tokenizer& tokenizer) {
  RETURN_IF_ERROR(tokenizer.chat_format().status());
  return CheckVocabulary(tokenizer);
}

absl::StatusOr<std::vector<TokenId>> EncodeChat(
    const Tokenizer& tokenizer, absl::Span<const ChatMessage> messages,
    bool add_generation_prompt) {
  RETURN_IF_ERROR(CheckMessages(messages));
  RETURN_IF_ERROR(CheckChat(tokenizer));
  const ChatMlTemplate& format = *tokenizer.chat_format();
  std::vector<TextPiece> pieces;
  const ChatMessage system = {"system", format.default_system};
  if (!system.content.empty() && messages[0].role != system.role) {
    AppendMessage(system, pieces);
  }
  for (const ChatMessage& message : messages) AppendMessage(message, pieces);
  if (add_generation_prompt) {
    pieces.push_back({kStart, true});
    pieces.push_back({"assistant\n", false});
  }
  std::vector<TokenId> ids = tokenizer.Encode(pieces, /*add_special=*/true);
  const bool lacks_bos = format.prints_bos && !tokenizer.adds_bos();
  if (lacks_bos && tokenizer.bos() >= 0)
    ids.insert(ids.begin(), tokenizer.bos());
  return ids;
}

}  // namespace kvasir

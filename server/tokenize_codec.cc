#include "server/tokenize_codec.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "cache/base/status_macros.h"
#include "server/chat_codec.h"
#include "server/event_codec.h"
#include "server/request_rules.h"

namespace kvasir {
namespace {

absl::StatusOr<std::vector<TokenId>> EncodeInput(
    const v1::TokenizeRequest& wire, const ServedModel& model) {
  if (wire.has_chat()) return EncodeChatPrompt(wire.chat(), model);
  return model.tokenizer->Encode(
      wire.text(), !wire.has_add_special_tokens() || wire.add_special_tokens());
}

const char* InputName(const v1::TokenizeRequest& wire) {
  return wire.has_chat() ? "chat" : "text";
}

absl::Status TooLong(absl::string_view field, size_t done, size_t all) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": wanted an answer of at most ", kMaxAnswerBytes,
                   " bytes, found more after ", done, " of ", all, " tokens"));
}

// Where in a text a token's bytes lie.
struct Span {
  size_t start;
  size_t end;
};

// The next token's place in `text`, at or after `at`, where the one before it
// ends. The tokens of a text hold its bytes in order, but for those that the
// vocabulary has no token for: they have vanished, and are skipped here.
Span FindToken(std::string_view text, std::string_view token, size_t at) {
  Span span = {at, at};
  for (size_t i = 0; i < token.size(); ++i) {
    while (at < text.size() && text[at] != token[i]) ++at;
    if (i == 0) span.start = at;
    at = std::min(at + 1, text.size());
    span.end = at;
  }
  return span;
}

// Fills in the tokens that stand for `ids` of `wire`, as it asks for them.
absl::Status AddTokens(const v1::TokenizeRequest& wire,
                       const std::vector<TokenId>& ids,
                       const Tokenizer& tokenizer,
                       v1::TokenizeResponse& answer) {
  // Of a token's tag and length in the answer.
  constexpr size_t kFrameBytes = 3;
  size_t bytes = answer.ByteSizeLong();
  size_t offset = 0;
  for (const TokenId& id : ids) {
    v1::Token& token = *answer.add_tokens();
    token.set_id(static_cast<uint32_t>(id));
    if (wire.with_text()) {
      token.set_text(DecodeText(tokenizer, absl::MakeConstSpan(&id, 1), false));
    }
    if (wire.with_offsets()) {
      // A control token, such as BOS, stands for none of the text.
      const Span span =
          tokenizer.IsControl(id)
              ? Span{offset, offset}
              : FindToken(wire.text(), tokenizer.TokenBytes(id), offset);
      offset = span.end;
      token.set_start(Narrow(static_cast<int64_t>(span.start)));
      token.set_end(Narrow(static_cast<int64_t>(span.end)));
    }
    bytes += kFrameBytes + token.ByteSizeLong();
    if (bytes > kMaxAnswerBytes) {
      return TooLong(InputName(wire), static_cast<size_t>(answer.tokens_size()),
                     ids.size());
    }
  }
  return absl::OkStatus();
}

// The text of `ids`, decoded no further than an answer may be long.
absl::StatusOr<std::string> DecodeAnswer(const std::vector<TokenId>& ids,
                                         bool skip_special,
                                         const Tokenizer& tokenizer) {
  TextDecoder decoder(&tokenizer, skip_special);
  std::string text;
  for (size_t i = 0; i < ids.size(); ++i) {
    text += decoder.Push(ids[i]);
    if (text.size() > kMaxAnswerBytes) {
      return TooLong("token_ids", i + 1, ids.size());
    }
  }
  return text + decoder.Finish();
}

}  // namespace

absl::Status CheckInput(const v1::TokenizeRequest& wire,
                        const ServedModel& model) {
  RETURN_IF_ERROR(CheckKnownFields(wire));
  switch (wire.input_case()) {
    case v1::TokenizeRequest::kText:
      return CheckTextBytes("text", wire.text().size());
    case v1::TokenizeRequest::kChat:
      if (wire.has_add_special_tokens()) {
        return absl::InvalidArgumentError(
            "add_special_tokens: wanted it absent for chat, where the format "
            "decides, found it set");
      }
      if (wire.with_offsets()) {
        return absl::InvalidArgumentError(
            "with_offsets: wanted it with text only, found it with chat");
      }
      return CheckChat(wire.chat());
    case v1::TokenizeRequest::INPUT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "input: wanted text or chat, found neither");
}

absl::Status CheckInput(const v1::DetokenizeRequest& wire,
                        const ServedModel& model) {
  if (wire.token_ids_size() <= kMaxDetokenizeIds) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("token_ids: wanted at most ", kMaxDetokenizeIds,
                   " ids, found ", wire.token_ids_size()));
}

absl::StatusOr<v1::TokenizeResponse> AnswerTokenize(
    const v1::TokenizeRequest& wire, const ServedModel& model) {
  ASSIGN_OR_RETURN(const std::vector<TokenId> ids, EncodeInput(wire, model));
  v1::TokenizeResponse answer;
  answer.mutable_token_ids()->Add(ids.begin(), ids.end());
  answer.set_token_count(Narrow(static_cast<int64_t>(ids.size())));
  answer.set_max_context(Narrow(model.max_context));
  if (const size_t bytes = answer.ByteSizeLong(); bytes > kMaxAnswerBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        InputName(wire), ": wanted an answer of at most ", kMaxAnswerBytes,
        " bytes, found ", bytes, " for ", ids.size(), " token ids"));
  }
  if (wire.with_offsets() || wire.with_text()) {
    RETURN_IF_ERROR(AddTokens(wire, ids, *model.tokenizer, answer));
  }
  return answer;
}

absl::StatusOr<v1::DetokenizeResponse> AnswerDetokenize(
    const v1::DetokenizeRequest& wire, const ServedModel& model) {
  const int32_t size = model.tokenizer->size();
  std::vector<TokenId> ids;
  ids.reserve(static_cast<size_t>(wire.token_ids_size()));
  for (int i = 0; i < wire.token_ids_size(); ++i) {
    const uint32_t id = wire.token_ids(i);
    if (id >= static_cast<uint32_t>(size)) {
      return absl::InvalidArgumentError(
          absl::StrCat("token_ids[", i, "]: wanted a token id in [0, ", size,
                       "), found ", id));
    }
    ids.push_back(static_cast<TokenId>(id));
  }
  v1::DetokenizeResponse answer;
  ASSIGN_OR_RETURN(
      *answer.mutable_text(),
      DecodeAnswer(ids, wire.skip_special_tokens(), *model.tokenizer));
  return answer;
}

}  // namespace kvasir

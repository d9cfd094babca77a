#include <utility>

#include "engine/model/tokenizer.h"
#include "engine/model/utf8.h"

namespace kvasir {

TextDecoder::TextDecoder(const Tokenizer* tokenizer, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special) {}

std::string TextDecoder::Push(TokenId id) {
  if (skip_special_ && tokenizer_->IsControl(id)) return "";
  held_.append(tokenizer_->TokenBytes(id));
  Utf8Text ready = ReplaceIllFormed(held_);
  held_ = std::move(ready.held);
  return std::move(ready.text);
}

std::string TextDecoder::Finish() {
  if (held_.empty()) return "";
  held_.clear();
  return std::string(kReplacementCharacter);
}

std::string DecodeText(const Tokenizer& tokenizer,
                       absl::Span<const TokenId> ids, bool skip_special) {
  TextDecoder decoder(&tokenizer, skip_special);
  std::string text;
  for (const TokenId id : ids) text.append(decoder.Push(id));
  return text.append(decoder.Finish());
}

}  // namespace kvasir

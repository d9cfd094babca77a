#include "server/prompt_echo.h"

#include <algorithm>
#include <utility>

#include "cache/base/check.h"
#include "server/request_codec.h"

namespace kvasir {
namespace {

// Bytes of the prompt in one message, at most: half of what a message may have,
// so that the rest of it has room.
constexpr size_t kMaxEchoBytes = kMaxAnswerBytes / 2;

// The longest beginning of whole characters within `most` bytes.
std::string_view LeadingPiece(std::string_view text, size_t most) {
  if (text.size() <= most) return text;
  size_t end = most;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace

PromptEcho::PromptEcho(Prompt prompt) : prompt_(std::move(prompt)) {
  if (prompt_.ids.empty() && prompt_.text.empty()) {
    index_ = prompt_.sequence_count;
  }
}

v1::GenerateResponse PromptEcho::Next() {
  KV_CHECK(!done()) << "the prompt is told";
  v1::GenerateResponse message;
  message.set_request_id(prompt_.request_id);
  v1::TokenDelta& delta = *message.mutable_delta();
  delta.set_index(index_);
  if (prompt_.usage.has_value()) *delta.mutable_usage() = *prompt_.usage;
  const size_t ids =
      std::min(prompt_.ids.size() - ids_told_, kMaxEchoBytes / kTokenIdBytes);
  const auto first = prompt_.ids.begin() + static_cast<ptrdiff_t>(ids_told_);
  delta.mutable_token_ids()->Add(first, first + static_cast<ptrdiff_t>(ids));
  ids_told_ += ids;
  const std::string_view piece =
      LeadingPiece(std::string_view(prompt_.text).substr(bytes_told_),
                   kMaxEchoBytes - ids * kTokenIdBytes);
  delta.set_text(std::string(piece));
  bytes_told_ += piece.size();
  if (ids_told_ == prompt_.ids.size() && bytes_told_ == prompt_.text.size()) {
    ++index_;
    ids_told_ = bytes_told_ = 0;
  }
  return message;
}

}  // namespace kvasir

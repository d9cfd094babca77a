#include "server/truncation.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "server/chat_codec.h"
#include "server/field_fault.h"

namespace kvasir {
namespace {

int64_t Count(const std::vector<TokenId>& ids) {
  return static_cast<int64_t>(ids.size());
}

int LeadingSystemMessages(const v1::ChatPrompt& chat) {
  int count = 0;
  while (count < chat.messages_size() &&
         (chat.messages(count).role() == "system" ||
          chat.messages(count).role() == "developer")) {
    ++count;
  }
  return count;
}

}  // namespace

int64_t MostPromptTokens(const Truncation& truncation, int64_t max_tokens,
                         const ServedModel& model) {
  if (truncation.most_tokens > 0) return truncation.most_tokens;
  return std::max<int64_t>(model.max_context - std::max<int64_t>(max_tokens, 1),
                           1);
}

TruncatedPrompt TruncateIds(std::vector<TokenId> ids, int64_t most,
                            bool from_right, TokenId bos) {
  const int64_t dropped = Count(ids) - most;
  if (dropped <= 0) return {.ids = std::move(ids)};
  if (from_right) {
    ids.resize(static_cast<size_t>(most));
  } else {
    const bool keeps_first = most > 1 && bos >= 0 && ids.front() == bos;
    const auto from = ids.begin() + (keeps_first ? 1 : 0);
    ids.erase(from, from + dropped);
  }
  return {.ids = std::move(ids), .dropped_tokens = dropped};
}

absl::StatusOr<TruncatedPrompt> TruncateChat(const v1::ChatPrompt& chat,
                                             int64_t most,
                                             const ServedModel& model,
                                             absl::FunctionRef<bool()> ended) {
  ASSIGN_OR_RETURN(const Conversation conversation, DecodeChat(chat));
  const auto encode = [&](int begin,
                          int end) -> absl::StatusOr<std::vector<TokenId>> {
    if (ended()) {
      return absl::CancelledError("the call ended while its prompt was cut");
    }
    return EncodeConversation(
        conversation, model,
        {static_cast<size_t>(begin), static_cast<size_t>(end)});
  };
  ASSIGN_OR_RETURN(std::vector<TokenId> whole, encode(0, 0));
  if (Count(whole) <= most) return TruncatedPrompt{.ids = std::move(whole)};
  // Templates want turns that begin with a user's; so does the model.
  const int first = LeadingSystemMessages(chat);
  std::vector<int> begins;
  for (int i = first + 1; i < chat.messages_size(); ++i) {
    if (chat.messages(i).role() == "user") begins.push_back(i);
  }
  // The earliest begin that is short enough; later ones are shorter.
  TruncatedPrompt best;
  int64_t shortest = Count(whole);
  size_t low = 0;
  size_t high = begins.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    ASSIGN_OR_RETURN(std::vector<TokenId> ids, encode(first, begins[middle]));
    shortest = std::min(shortest, Count(ids));
    if (Count(ids) > most) {
      low = middle + 1;
      continue;
    }
    best = {.ids = std::move(ids)};
    high = middle;
  }
  if (best.ids.empty()) {
    return FieldFault(
        "output.truncate_prompt_tokens",
        absl::StrCat("at least the tokens of the system messages and the last "
                     "turn, ",
                     shortest),
        most);
  }
  best.dropped_tokens = Count(whole) - Count(best.ids);
  return best;
}

}  // namespace kvasir

#ifndef KVASIR_SERVER_TRUNCATION_H_
#define KVASIR_SERVER_TRUNCATION_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "engine/request.h"
#include "kvasir/v1/inference.pb.h"
#include "server/request_codec.h"

namespace kvasir {

// Most tokens that the prompt may have: what the call asks for, or what the
// context has room for beside `max_tokens`, or beside one.
int64_t MostPromptTokens(const Truncation& truncation, int64_t max_tokens,
                         const ServedModel& model);

// Cuts a text's or a list's ids down to `most`; a BOS token at the beginning
// stays, so that the model sees a beginning.
TruncatedPrompt TruncateIds(std::vector<TokenId> ids, int64_t most,
                            bool from_right, TokenId bos);

// Leaves out the oldest turns of a conversation until it has at most `most`
// tokens. What stays begins with the leading system messages, if there are any,
// then with a user's message, and has the last one. INVALID_ARGUMENT if that is
// still too long, with both numbers, or as EncodeChatPrompt() says. Renders the
// conversation a few times and asks `ended` before each: CANCELLED once nobody
// wants the result.
absl::StatusOr<TruncatedPrompt> TruncateChat(const v1::ChatPrompt& chat,
                                             int64_t most,
                                             const ServedModel& model,
                                             absl::FunctionRef<bool()> ended);

}  // namespace kvasir

#endif  // KVASIR_SERVER_TRUNCATION_H_

#ifndef KVASIR_ENGINE_MODEL_CHAT_CONTEXT_H_
#define KVASIR_ENGINE_MODEL_CHAT_CONTEXT_H_

#include "absl/status/statusor.h"

#include "engine/model/chat_format.h"
#include "engine/template/value.h"

namespace kvasir {

// The variables that a chat template sees for a conversation; see EncodeChat(),
// whose errors with a field's name come from here.
absl::StatusOr<jinja::Dict> MakeChatContext(const Tokenizer& tokenizer,
                                            const Conversation& conversation,
                                            MessageRange left_out);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_MODEL_CHAT_CONTEXT_H_

#ifndef KVASIR_SERVER_TOKENIZE_CODEC_H_
#define KVASIR_SERVER_TOKENIZE_CODEC_H_

#include "absl/status/statusor.h"

#include "kvasir/v1/inference.pb.h"
#include "server/request_codec.h"

namespace kvasir {

// The calls that need no engine but its tokenizer. Pure; any thread.

// INVALID_ARGUMENT, NOT_FOUND and UNIMPLEMENTED as of DecodeSettings(), for
// what shows before any work.
absl::Status CheckInput(const v1::TokenizeRequest& wire,
                        const ServedModel& model);
absl::Status CheckInput(const v1::DetokenizeRequest& wire,
                        const ServedModel& model);

// Answers of requests that passed. INVALID_ARGUMENT for an answer that would be
// over kMaxAnswerBytes, and as of DecodePrompt().
absl::StatusOr<v1::TokenizeResponse> AnswerTokenize(
    const v1::TokenizeRequest& wire, const ServedModel& model);
absl::StatusOr<v1::DetokenizeResponse> AnswerDetokenize(
    const v1::DetokenizeRequest& wire, const ServedModel& model);

}  // namespace kvasir

#endif  // KVASIR_SERVER_TOKENIZE_CODEC_H_

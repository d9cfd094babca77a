#ifndef KVASIR_SERVER_TOKENIZE_CODEC_H_
#define KVASIR_SERVER_TOKENIZE_CODEC_H_

#include "absl/status/statusor.h"

#include "kvasir/v1/inference.pb.h"
#include "server/request_codec.h"

namespace kvasir {

// Answers of the calls that need no engine but its tokenizer. Pure; any thread.
// Errors as of DecodeGenerate().
absl::StatusOr<v1::TokenizeResponse> AnswerTokenize(
    const v1::TokenizeRequest& wire, const ServedModel& model);
absl::StatusOr<v1::DetokenizeResponse> AnswerDetokenize(
    const v1::DetokenizeRequest& wire, const ServedModel& model);

}  // namespace kvasir

#endif  // KVASIR_SERVER_TOKENIZE_CODEC_H_

#ifndef KVASIR_SERVER_GENERATION_CODEC_H_
#define KVASIR_SERVER_GENERATION_CODEC_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "engine/request.h"
#include "kvasir/v1/inference.pb.h"
#include "server/request_codec.h"

namespace kvasir {

// How tokens are drawn, when they end and what is told of them: the parts of a
// Generate request that are read field by field. INVALID_ARGUMENT names the
// field, with its place in the request. Ids are checked against the width of
// the logits here, with the number that was sent; whether they are tokens is
// the engine's to say.

// `random_seed` is used if the request has none.
absl::StatusOr<SamplingParams> DecodeSampling(const v1::SamplingParams& wire,
                                              uint64_t random_seed,
                                              int32_t vocab_size);

// 1 if absent.
absl::StatusOr<int32_t> DecodeSequenceCount(const v1::SamplingParams& wire);

absl::StatusOr<StoppingParams> DecodeStopping(const v1::StoppingParams& wire,
                                              int32_t vocab_size);

// Fills in what `call` and its request say of the output.
absl::Status DecodeOutput(const v1::OutputOptions& wire, int32_t vocab_size,
                          GenerateCall& call);

// Ids as the engine counts. `limit`: most of them; 0: any number.
absl::StatusOr<std::vector<TokenId>> DecodeIds(
    std::string_view field,
    const google::protobuf::RepeatedField<uint32_t>& wire, int32_t vocab_size,
    int limit = 0);

}  // namespace kvasir

#endif  // KVASIR_SERVER_GENERATION_CODEC_H_

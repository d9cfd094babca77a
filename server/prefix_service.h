#ifndef KVASIR_SERVER_PREFIX_SERVICE_H_
#define KVASIR_SERVER_PREFIX_SERVICE_H_

#include "absl/status/statusor.h"

#include "kvasir/v1/cache_admin.pb.h"
#include "server/generation_backend.h"

namespace kvasir {

// What CacheAdmin's calls about prefixes answer. Each waits for the engine, so
// none may run on a thread of gRPC. Those that are asked whether they are still
// `wanted` may walk through the whole cache. Errors are INVALID_ARGUMENT and
// UNIMPLEMENTED with the field's name, and those of the engine.

absl::StatusOr<v1::ListPrefixesResponse> AnswerListPrefixes(
    const v1::ListPrefixesRequest& request, GenerationBackend& backend,
    const StillWanted& wanted);

absl::StatusOr<v1::GetPrefixResponse> AnswerGetPrefix(
    const v1::GetPrefixRequest& request, GenerationBackend& backend);

absl::StatusOr<v1::PinPrefixResponse> AnswerPinPrefix(
    const v1::PinPrefixRequest& request, GenerationBackend& backend);

absl::StatusOr<v1::UnpinPrefixResponse> AnswerUnpinPrefix(
    const v1::UnpinPrefixRequest& request, GenerationBackend& backend);

absl::StatusOr<v1::EvictPrefixesResponse> AnswerEvictPrefixes(
    const v1::EvictPrefixesRequest& request, GenerationBackend& backend,
    const StillWanted& wanted);

}  // namespace kvasir

#endif  // KVASIR_SERVER_PREFIX_SERVICE_H_

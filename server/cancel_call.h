#ifndef KVASIR_SERVER_CANCEL_CALL_H_
#define KVASIR_SERVER_CANCEL_CALL_H_

#include "absl/status/statusor.h"

#include "kvasir/v1/inference.pb.h"
#include "server/caller.h"
#include "server/generation_backend.h"

namespace kvasir {

// Ends the requests that CancelGeneration names, as far as they are `caller`'s
// to end: its own by their ids, others' as TENANT/ID with the scope admin.
// INVALID_ARGUMENT, before any is ended, for lists and ids that cannot be. Any
// thread, never waits.
absl::StatusOr<v1::CancelGenerationResponse> AnswerCancel(
    const v1::CancelGenerationRequest& request, GenerationBackend& backend,
    const Caller& caller);

}  // namespace kvasir

#endif  // KVASIR_SERVER_CANCEL_CALL_H_

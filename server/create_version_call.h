#ifndef KVASIR_SERVER_CREATE_VERSION_CALL_H_
#define KVASIR_SERVER_CREATE_VERSION_CALL_H_

#include <memory>

#include "absl/status/status.h"

#include "kvasir/v1/cache_admin.pb.h"
#include "server/generation_backend.h"
#include "server/progress_reactor.h"

namespace kvasir {

// Hands to the engine what a call wants to be made. From then on `reactor`
// carries the engine's reports and the end to the client, and the client's end
// to the engine. An error is DecodeCreateVersion()'s or the engine's, and the
// reactor is still the caller's. `backend` outlives the making.
absl::Status StartCreateVersion(const v1::CreateCacheVersionRequest& request,
                                GenerationBackend& backend,
                                std::shared_ptr<ProgressReactor> reactor);

}  // namespace kvasir

#endif  // KVASIR_SERVER_CREATE_VERSION_CALL_H_

#ifndef KVASIR_SERVER_WARM_CALL_H_
#define KVASIR_SERVER_WARM_CALL_H_

#include <memory>

#include "absl/status/status.h"

#include "kvasir/v1/cache_admin.pb.h"
#include "server/generation_backend.h"
#include "server/progress_reactor.h"
#include "server/server_state.h"
#include "server/work_pool.h"

namespace kvasir {

// Tokenises what a WarmCache call wants on `work`, prompt by prompt until the
// client goes, the server drains or the version is deleted, and hands it to the
// engine. The version is chosen when that begins, and held from then on. From
// then on `reactor` carries the engine's reports and the end to the client, and
// the client's end to the engine. An error shows before any of that, and the
// reactor is still the caller's. `backend` and `state` outlive the call.
absl::Status StartWarmCache(v1::WarmCacheRequest request,
                            GenerationBackend& backend,
                            const ServerState& state, WorkPool& work,
                            std::shared_ptr<ProgressReactor> reactor);

}  // namespace kvasir

#endif  // KVASIR_SERVER_WARM_CALL_H_

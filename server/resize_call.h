#ifndef KVASIR_SERVER_RESIZE_CALL_H_
#define KVASIR_SERVER_RESIZE_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"

#include "engine/cache_resize.h"
#include "server/generation_backend.h"
#include "server/progress_reactor.h"

namespace kvasir {

// Hands a resize to the engine. From then on `reactor` carries the engine's
// reports and the end to the client, and the client's end to the engine.
// `on_resized` is told the new size in bytes, on the engine thread, unless it
// was a dry run. An error is the engine's, and the reactor is still the
// caller's.
absl::Status StartResize(ResizeOrder order, GenerationBackend& backend,
                         std::function<void(int64_t)> on_resized,
                         std::shared_ptr<ProgressReactor> reactor);

}  // namespace kvasir

#endif  // KVASIR_SERVER_RESIZE_CALL_H_

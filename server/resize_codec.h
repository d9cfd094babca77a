#ifndef KVASIR_SERVER_RESIZE_CODEC_H_
#define KVASIR_SERVER_RESIZE_CODEC_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "engine/cache_resize.h"
#include "kvasir/v1/cache_admin.pb.h"
#include "server/cache_sizing.h"
#include "server/generation_backend.h"

namespace kvasir {

// What a call wants of the cache's size, without a sink. INVALID_ARGUMENT with
// the field, wanted and found; UNIMPLEMENTED for another tier than the device;
// RESOURCE_EXHAUSTED for a growth beyond what `room` has left, of which a ratio
// is a share.
absl::StatusOr<ResizeOrder> DecodeResize(const v1::ResizeCacheRequest& wire,
                                         const GenerationBackend& backend,
                                         const CacheRoom& room);

// `start_blocks`: the size when it began.
v1::ResizeCacheResponse EncodeResize(const ResizeReport& report,
                                     int64_t start_blocks,
                                     absl::string_view phase);

}  // namespace kvasir

#endif  // KVASIR_SERVER_RESIZE_CODEC_H_

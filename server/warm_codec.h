#ifndef KVASIR_SERVER_WARM_CODEC_H_
#define KVASIR_SERVER_WARM_CODEC_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "engine/warm_order.h"
#include "kvasir/v1/cache_admin.pb.h"
#include "server/request_codec.h"

namespace kvasir {

// What a WarmCache call wants, without its prompts and a sink: bounds are
// checked, and `parallelism` is set. INVALID_ARGUMENT with the field, wanted
// and found.
absl::StatusOr<WarmOrder> DecodeWarmSettings(
    const v1::WarmCacheRequest& wire,
    std::shared_ptr<const ServedVersion> version);

// Prompt `index` of the call, tokenised, with what the call says of all where
// it says nothing itself. Errors as of DecodeGenerate() and DecodeRetention(),
// behind "prompts[index].".
absl::StatusOr<WarmPrefix> DecodeWarmPrompt(const v1::WarmCacheRequest& wire,
                                            int index,
                                            const ServedModel& model);

v1::WarmCacheResponse EncodeWarmReport(const WarmReport& report);

// The last message; `status` is the order's.
v1::WarmCacheResponse EncodeWarmEnd(const absl::Status& status,
                                    absl::Span<const WarmedPrefix> prefixes);

}  // namespace kvasir

#endif  // KVASIR_SERVER_WARM_CODEC_H_

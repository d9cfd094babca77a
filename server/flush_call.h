#ifndef KVASIR_SERVER_FLUSH_CALL_H_
#define KVASIR_SERVER_FLUSH_CALL_H_

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "kvasir/v1/cache_admin.pb.h"
#include "server/generation_backend.h"
#include "server/unary_call.h"
#include "server/work_pool.h"

namespace kvasir {

// Longest FlushCacheRequest.wait.
inline constexpr absl::Duration kMaxFlushWait = absl::Minutes(10);

// Lets `walking` flush and finish the call; if that is asked for once no
// request is in flight, for which it waits on `work`. Who waits there waits for
// no flush, and one that begins is over when its call ends. If this fails,
// nothing has begun and the call is still the caller's to finish: NOT_FOUND for
// a model or version that is not there, INVALID_ARGUMENT or UNIMPLEMENTED with
// the field's name.
absl::Status StartFlush(const v1::FlushCacheRequest& request, UnaryCall call,
                        GenerationBackend& backend, WorkPool& work,
                        WorkPool& walking);

}  // namespace kvasir

#endif  // KVASIR_SERVER_FLUSH_CALL_H_

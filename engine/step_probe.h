#ifndef KVASIR_ENGINE_STEP_PROBE_H_
#define KVASIR_ENGINE_STEP_PROBE_H_

#include "absl/status/status.h"

#include "cache/kv_cache.h"
#include "engine/served_version.h"

namespace kvasir {

// Whether steps of a version work at all: computes one token that nobody wants
// and keeps nothing of it, not even in the accounts. The runner's error if they
// do not; OK also where there is no room to try, which says nothing.
//
// For failures that may be the fault of what was computed. Engine thread.
absl::Status ProbeStep(KvCache& cache, const ServedVersion& version);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_STEP_PROBE_H_

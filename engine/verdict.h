#ifndef KVASIR_ENGINE_VERDICT_H_
#define KVASIR_ENGINE_VERDICT_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "engine/sequence.h"
#include "engine/stats_recorder.h"

namespace kvasir {

// How a request ends that somebody or its deadline ends. Plain value.
struct Verdict {
  absl::Status status;
  Ending ending = Ending::kClient;
};

// Whether the request's flag or its deadline ends it at `now`, steady; nothing
// if neither does. A cancel by the client about as late as its deadline is what
// the deadline brings about. Pure; engine thread.
std::optional<Verdict> Judge(const Sequence& sequence, absl::Duration now);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_VERDICT_H_

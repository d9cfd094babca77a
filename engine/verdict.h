#ifndef KVASIR_ENGINE_VERDICT_H_
#define KVASIR_ENGINE_VERDICT_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "engine/sequence.h"
#include "engine/stats_recorder.h"

namespace kvasir {

// How a sequence ends that somebody or its time ends. An OK status: by its
// request's time limit. Plain value.
struct Verdict {
  absl::Status status;
  Ending ending = Ending::kClient;
};

// Whether the request's flag, its deadline, its time limit or the failure of
// another of its sequences ends it at `now`, steady; nothing if none does. A
// cancel by the client about as late as its deadline is what
// the deadline brings about. Pure; engine thread.
std::optional<Verdict> Judge(const Sequence& sequence, absl::Duration now);

}  // namespace kvasir

#endif  // KVASIR_ENGINE_VERDICT_H_

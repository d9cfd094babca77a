#ifndef KVASIR_ENGINE_WALK_TURN_H_
#define KVASIR_ENGINE_WALK_TURN_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "cache/base/clock.h"
#include "cache/base/status_macros.h"

namespace kvasir {

// How long a walk through the cache goes on in one turn of the engine before it
// lets the next step go first. A slice that has begun is ended, so that a turn
// takes this and one slice. Under load there is one turn per step, and so this
// is what a walk's speed comes from.
inline constexpr absl::Duration kWalkTurn = absl::Milliseconds(1);

// One turn's slices of `order`; true when it is done. `desk.Continue(order)`
// does a slice, see PrefixDesk, and its errors end the turn. Engine thread.
template <typename Desk, typename Order>
absl::StatusOr<bool> WalkForATurn(const Clock& clock, Desk& desk,
                                  Order& order) {
  const absl::Duration end = clock.Now() + kWalkTurn;
  bool done = false;
  do {
    ASSIGN_OR_RETURN(done, desk.Continue(order));
  } while (!done && clock.Now() < end);
  return done;
}

}  // namespace kvasir

#endif  // KVASIR_ENGINE_WALK_TURN_H_

#ifndef KVASIR_CACHE_RESERVATION_H_
#define KVASIR_CACHE_RESERVATION_H_

#include <cstddef>
#include <memory>

#include "absl/types/span.h"

#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"
#include "cache/lease.h"

namespace kvasir {

class KvCache;
struct ReservationState;

// The tokens that a step is going to append to one lease. `tokens` are the ids
// whose keys and values the step computes, in order; they decide the identity
// of the blocks they fill. The span is copied by KvCache::Reserve().
struct LeaseGrowth {
  Lease* lease = nullptr;
  absl::Span<const TokenId> tokens;
};

// The cache's half of one engine step: the blocks the step is about to fill.
//
// Nobody else sees these blocks before Commit(). Dropping a Reservation
// uncommitted gives them back, so a failed step needs no clean-up code. What
// was evicted to make room stays evicted; that is only lost warmth.
//
// Engine thread only; must not outlive the KvCache or the leases it grows. At
// most one exists per cache at a time.
class [[nodiscard]] Reservation {
 public:
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&&) = delete;
  ~Reservation();

  // The table that the lease of growth `index` will have after Commit(), as
  // kernels read it. Valid while this object is.
  BlockTableView Table(size_t index) const;

  // Gives the blocks to their leases, seals every full one and makes it
  // findable. A block that somebody else sealed meanwhile with the same
  // identity takes the place of ours (contract C2: their bytes are equal).
  void Commit() &&;

 private:
  friend class KvCache;
  explicit Reservation(std::unique_ptr<ReservationState> state);

  std::unique_ptr<ReservationState> state_;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_RESERVATION_H_

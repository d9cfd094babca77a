#ifndef KVASIR_CACHE_RESERVATION_STATE_H_
#define KVASIR_CACHE_RESERVATION_STATE_H_

#include <cstddef>
#include <vector>

#include "cache/base/strong_id.h"
#include "cache/lease_state.h"

namespace kvasir {

class CacheCore;

// What is behind a Reservation: whose tables grow, and by which tokens. The
// granted blocks stand at the ends of the leases' tables, behind the blocks
// that are filled.
struct ReservationState {
  struct Growth {
    LeaseState* lease = nullptr;
    size_t first_token = 0;  // in `tokens`
    size_t token_count = 0;
  };

  CacheCore* core = nullptr;
  std::vector<Growth> growths;
  std::vector<TokenId> tokens;  // of all growths, one after the other
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_RESERVATION_STATE_H_

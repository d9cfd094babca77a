#ifndef KVASIR_CACHE_LEASE_H_
#define KVASIR_CACHE_LEASE_H_

#include <cstdint>
#include <memory>

#include "cache/base/strong_id.h"
#include "cache/kv_layout.h"

namespace kvasir {

class KvCache;
struct LeaseState;

// A sequence's hold on one cache version and on the blocks of its tokens.
//
// While a Lease lives, none of its blocks is evicted or reused, and its version
// is not retired. Dropping it turns sealed blocks that nobody else holds into
// cached ones (findable, evictable) and frees an open last block.
//
// Engine thread only; must not outlive the KvCache that issued it. Movable, the
// source is empty afterwards.
class [[nodiscard]] Lease {
 public:
  Lease();
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  // False for a default-constructed or moved-from lease.
  bool held() const { return state_ != nullptr; }

  VersionId version() const;

  // Tokens whose keys and values are in the table: those found in the cache
  // plus those committed by reservations.
  int64_t token_count() const;

  // Of these, the ones that this lease found and did not compute.
  int64_t cached_token_count() const;

  // Blocks of these tokens; what a live Reservation adds is not among them.
  int64_t block_count() const;

  // Pieces of memory that these tokens hold: what CapacityView counts in.
  int64_t piece_count() const;

  // The table as kernels read it. Valid until the next call on the cache.
  BlockTableView Table() const;

 private:
  friend class KvCache;
  friend class Reservation;
  explicit Lease(std::unique_ptr<LeaseState> state);

  std::unique_ptr<LeaseState> state_;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_LEASE_H_

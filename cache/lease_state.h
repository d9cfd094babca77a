#ifndef KVASIR_CACHE_LEASE_STATE_H_
#define KVASIR_CACHE_LEASE_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "cache/base/strong_id.h"
#include "cache/block_identity.h"
#include "cache/block_table.h"
#include "cache/retention.h"
#include "cache/tail_pieces.h"

namespace kvasir {

class CacheCore;

// What is behind a Lease. Changed by the CacheCore alone; its address is fixed
// for life, so that a live reservation can point to it.
struct LeaseState {
  // Fixed from the start.
  CacheCore* core = nullptr;
  VersionId version;
  std::shared_ptr<const BlockScope> scope;
  bool read_cache = true;
  bool write_cache = true;
  bool resumed = false;
  int64_t recompute_tokens = 0;
  std::optional<Retention> retention;
  int64_t most_tokens = 0;  // that the sequence can come to

  // Blocks of `token_count` tokens, then those granted to a live reservation.
  // If blocks come in pieces, an open one is in `tail`, unless the live
  // reservation fills it: then it is whole, and the tail is the one after it.
  BlockTable table;
  Tail tail;
  int64_t token_count = 0;
  int64_t cached_token_count = 0;
  int64_t hot_blocks = 0;  // of the prefix that HotPrefixes counts it for
  std::vector<TokenId> open_tokens;  // of the open last block
  bool cut_off = false;   // held tokens at a flush: shares no block any more
  bool growing = false;   // named by the live reservation
  size_t list_index = 0;  // in the core's list of leases
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_LEASE_STATE_H_

#ifndef KVASIR_CACHE_INVARIANTS_H_
#define KVASIR_CACHE_INVARIANTS_H_

#include <string>
#include <vector>

#include "absl/types/span.h"

#include "cache/block_pool.h"
#include "cache/lease_state.h"
#include "cache/snapshot.h"
#include "cache/version_table.h"

namespace kvasir {

// Validators for tests, debug builds and bug reports: each returns everything
// that must hold and does not, one sentence per violation, none if all is well.
// They read and change nothing.

// Of the numbers an outsider sees: the accounting identity of contract C3 per
// tier and between tier and versions, and what counters must obey.
std::vector<std::string> CheckSnapshot(const CacheSnapshot& snapshot);

// Between the live leases and what pool and versions say of them: each block is
// held as often as it is pinned, full but for a lease's open last one, and an
// open block is nobody else's. Engine thread only.
std::vector<std::string> CheckLeases(
    const BlockPool& pool, const VersionTable& versions,
    absl::Span<const LeaseState* const> leases);

}  // namespace kvasir

#endif  // KVASIR_CACHE_INVARIANTS_H_

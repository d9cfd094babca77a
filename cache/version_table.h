#ifndef KVASIR_CACHE_VERSION_TABLE_H_
#define KVASIR_CACHE_VERSION_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "cache/base/strong_id.h"

namespace kvasir {

enum class VersionState : uint8_t { kWarming, kServing, kDraining, kRetired };

// What a lease is opened for, which decides the states that allow it.
enum class LeasePurpose : uint8_t {
  kNew,   // a request that chooses the version now: serving
  kHeld,  // one that chose it before, or resumes: serving, draining
  kWarm,  // filling it before anybody asks: warming, serving
};

// The name of a state, as snapshots show it.
absl::string_view VersionStateName(VersionState state);

// One cache version. Plain value.
struct CacheVersion {
  VersionId id;
  std::string label;        // for people
  std::string fingerprint;  // lower-case hex; part of every block's identity
  VersionState state = VersionState::kWarming;
  int64_t lease_count = 0;
  int64_t hit_tokens = 0;
  int64_t quota_blocks = 0;  // 0: none
};

// Which cache versions exist and which moves they may make.
//
//   warming  -> serving   it is filled: requests may choose it
//   warming  -> retired   given up before it served
//   serving  -> draining  no request may choose it any more
//   draining -> serving   rolled back to
//   draining -> retired   its last lease is gone; for good
//
// Versions are never forgotten: a retired one keeps its id and its totals.
// Engine thread only.
class VersionTable {
 public:
  // A new version, warming.
  VersionId Add(std::string_view label, std::string_view fingerprint);

  // Blocks that the version keeps at most when nobody holds them; 0: all.
  void SetQuota(VersionId id, int64_t blocks);

  // FAILED_PRECONDITION for a move that is not in the list above, or into
  // retirement under leases; NOT_FOUND for an unknown version.
  absl::Status Move(VersionId id, VersionState to);

  // Whether a lease may be opened: NOT_FOUND for an unknown version,
  // FAILED_PRECONDITION for one whose state does not allow the purpose.
  absl::Status CheckOpen(VersionId id, LeasePurpose purpose) const;

  // The version must exist.
  void AddLease(VersionId id);
  void DropLease(VersionId id);
  void CountHits(VersionId id, int64_t tokens);
  const CacheVersion& At(VersionId id) const;

  const std::vector<CacheVersion>& versions() const { return versions_; }

 private:
  bool Knows(VersionId id) const;
  CacheVersion& Mutable(VersionId id);

  std::vector<CacheVersion> versions_;  // by id
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_VERSION_TABLE_H_

#ifndef KVASIR_CACHE_VERSION_TABLE_H_
#define KVASIR_CACHE_VERSION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "cache/base/strong_id.h"
#include "cache/version_state.h"

namespace kvasir {

// What a lease is opened for, which decides the states that allow it.
enum class LeasePurpose : uint8_t {
  kNew,   // a request that chooses the version now: serving
  kHeld,  // one that chose it before, or resumes: serving, draining
  kWarm,  // filling it before anybody asks: warming, serving
};

// One cache version. Plain value.
struct CacheVersion {
  VersionId id;
  std::string label;        // for people
  std::string fingerprint;  // lower-case hex; part of every block's identity
  VersionState state = VersionState::kWarming;
  int64_t lease_count = 0;
  int64_t hit_tokens = 0;
};

// Which cache versions exist and which moves they may make.
//
//   warming  -> serving   it is filled: requests may choose it
//   warming  -> retired   given up before it served
//   serving  -> draining  no request may choose it any more
//   draining -> serving   rolled back to
//   draining -> retired   its last lease is gone; for good
//
// The last kMaxRetired retired ones are remembered with their totals, older
// ones can be forgotten; an id is never given twice. Engine thread only.
class VersionTable {
 public:
  static constexpr size_t kMaxRetired = 16;

  // A new version, warming.
  VersionId Add(std::string_view label, std::string_view fingerprint);

  // FAILED_PRECONDITION for a move that is not in the list above, or into
  // retirement under leases; NOT_FOUND for an unknown version.
  absl::Status Move(VersionId id, VersionState to);

  // Takes out the version that retired first, if there are more than
  // kMaxRetired. To be called after each retirement.
  std::optional<CacheVersion> ForgetOldest();

  // Whether a lease may be opened: NOT_FOUND for an unknown version,
  // FAILED_PRECONDITION for one whose state does not allow the purpose.
  absl::Status CheckOpen(VersionId id, LeasePurpose purpose) const;

  // It is there and not retired.
  bool IsResident(VersionId id) const;

  // The version must be known.
  void AddLease(VersionId id);
  void DropLease(VersionId id);
  void CountHits(VersionId id, int64_t tokens);
  const CacheVersion& At(VersionId id) const;

  const std::vector<CacheVersion>& versions() const { return versions_; }

 private:
  absl::Status CheckKnown(VersionId id) const;
  const CacheVersion* Find(VersionId id) const;
  CacheVersion& Mutable(VersionId id);

  std::vector<CacheVersion> versions_;  // few, in the order of their ids
  std::deque<VersionId> retired_;       // of these, the first to retire first
  VersionId::Value next_id_ = 0;
};

}  // namespace kvasir

#endif  // KVASIR_CACHE_VERSION_TABLE_H_

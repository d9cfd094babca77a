#ifndef KVASIR_ENGINE_VERSION_KEEPER_H_
#define KVASIR_ENGINE_VERSION_KEEPER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "cache/kv_cache.h"
#include "engine/served_version.h"
#include "engine/version_directory.h"
#include "engine/version_order.h"

namespace kvasir {

// FAILED_PRECONDITION, with both numbers, if another version besides `count`
// would be more than kMaxResidentVersions. Deleted ones count until they are
// gone.
absl::Status CheckResidentCount(size_t count);

// The versions that are resident and the moves that an operator makes with
// them: add, activate, roll back, delete. Each move is one step for everybody:
// the directory shows it before the call returns, and a request has chosen its
// version before it or after.
//
// At most one version of a model is active, and it serves. Activating another
// one drains it: its blocks stay, so that a rollback finds them, and it is the
// first to lose blocks when room is needed. Deleting a version lets it retire
// as soon as nobody holds it.
//
// Engine thread only.
class VersionKeeper {
 public:
  // Both outlive the keeper.
  VersionKeeper(KvCache* cache, VersionDirectory* directory);
  ~VersionKeeper();  // waits until retired versions have let go of their
                     // weights

  // ALREADY_EXISTS if a resident version is called so.
  absl::Status CheckLabel(std::string_view label) const;

  // The id that the next version gets once the cache knows it. `parts.id` is
  // set here. Warming, unless it is the first of its model: that one serves
  // and is active at once. Same errors as CheckResidentCount() and
  // CheckLabel().
  absl::StatusOr<VersionInfo> Add(ServedVersion::Parts parts, VersionInfo info);

  // A warming version is filled and may be named from now on.
  absl::StatusOr<VersionInfo> BeginServing(VersionId id);

  // All three: NOT_FOUND for a name that is not there, FAILED_PRECONDITION for
  // a move that is not legal: a version that is going to retire, no earlier
  // version to go back to, the active version.
  absl::StatusOr<VersionInfo> Activate(std::string_view model,
                                       std::string_view label);
  absl::StatusOr<VersionInfo> RollBack(std::string_view model);
  absl::StatusOr<VersionInfo> Delete(std::string_view model,
                                     std::string_view label);

  // Deletes a version that is still warming. One that requests could get, now
  // or earlier, is not touched; nor one that is not there any more.
  void DeleteUnserved(VersionId id);

  // Retires the deleted versions that nobody holds any more. To be called at
  // every turn.
  void RetireUnheld();

  // Whether a deleted version waits for its last holder, which may be anywhere.
  bool retiring() const { return retiring_ > 0; }

  // Whether RetireUnheld() has blocks left to drop, and should soon be called
  // again.
  bool dropping() const { return dropping_; }

  std::vector<VersionInfo> List() const;
  // Null if it is not resident.
  const ServedVersion* Find(VersionId id) const;
  // Who keeps the version keeps it from retiring. It must be resident.
  std::shared_ptr<const ServedVersion> Share(VersionId id) const;
  // Not deleted; only these are worth any work.
  bool IsKept(VersionId id) const;
  // Of a model that has versions: the one that requests get.
  VersionId ActiveVersion(std::string_view model) const;

 private:
  using Entry = VersionDirectory::Entry;

  Entry* FindEntry(VersionId id);
  absl::StatusOr<Entry*> Named(std::string_view model, std::string_view label);
  absl::StatusOr<std::string> ModelOrFirst(std::string_view model) const;
  Entry* ActiveOf(std::string_view model);
  void Move(Entry& entry, VersionState to);
  void MakeActive(Entry& entry);
  void Publish();
  void LetGo(std::shared_ptr<const ServedVersion> version);

  KvCache* const cache_;
  VersionDirectory* const directory_;

  std::vector<Entry> entries_;  // model by model, in the order of loading
  // By model, the versions that were active before, the last one last.
  absl::flat_hash_map<std::string, std::vector<VersionId>> history_;
  int retiring_ = 0;
  bool dropping_ = false;
  std::thread burial_;  // of the version that retired last
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_VERSION_KEEPER_H_

#ifndef KVASIR_ENGINE_VERSION_DIRECTORY_H_
#define KVASIR_ENGINE_VERSION_DIRECTORY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "engine/served_version.h"
#include "engine/version_order.h"

namespace kvasir {

// Which versions there are and which one a request gets. One of the objects
// that cross threads: the engine thread publishes, all others resolve. One
// lock, and nothing is called under it.
class VersionDirectory {
 public:
  struct Entry {
    std::shared_ptr<const ServedVersion> version;
    VersionInfo info;
  };

  // --- Any thread. ---

  // The version that a request with these names gets. An empty label means the
  // active version of the model, an empty model the first one that was loaded
  // (or, with a label, the one that the label belongs to). NOT_FOUND for a name
  // that is not there, FAILED_PRECONDITION for a version that is not serving.
  absl::StatusOr<std::shared_ptr<const ServedVersion>> Resolve(
      std::string_view model, std::string_view label) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // Model by model, in the order of loading.
  std::vector<VersionInfo> List() const ABSL_LOCKS_EXCLUDED(mu_);

  // The resident revision with these weights; null if there is none.
  std::shared_ptr<const LoadedModel> FindRevision(std::string_view digest) const
      ABSL_LOCKS_EXCLUDED(mu_);

  // --- Engine thread. ---

  void Publish(std::vector<Entry> entries) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  mutable absl::Mutex mu_;
  std::vector<Entry> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_VERSION_DIRECTORY_H_

#ifndef KVASIR_ENGINE_VERSION_LOADER_H_
#define KVASIR_ENGINE_VERSION_LOADER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "engine/engine.h"
#include "engine/inbox.h"
#include "engine/model_loader.h"
#include "engine/version_directory.h"
#include "engine/version_order.h"

namespace kvasir {

// What a revision needs to be served under a label. `options` say how models
// are run; an empty label becomes "model@first digits of the fingerprint".
ServedVersion::Parts MakeVersionParts(
    const EngineOptions& options, std::shared_ptr<const LoadedModel> revision,
    std::string_view model, std::string_view label,
    const CachePromise* promise);

// What the directory says of a version made from these parts.
VersionInfo InfoOf(const ServedVersion::Parts& parts, std::string_view path,
                   int64_t quota_blocks);

// Makes versions while the engine runs: reads the weights on a thread of its
// own, one version at a time, and hands the result to the engine thread.
// Weights that are resident already, by digest, are not kept twice; but until
// they are read nobody knows, so there has to be room for them (see
// EngineOptions::hold_weights).
//
// Any thread, sinks that hear of their end included. One lock, under which
// nothing is called.
class VersionLoader {
 public:
  struct Parts {
    EngineOptions options;  // how models are run; path and names are replaced
    KvLayout layout;        // that a version's blocks have to have
    VersionDirectory* directory = nullptr;
    Inbox* inbox = nullptr;
    const CachePromise* promise = nullptr;
  };
  // All that the parts point to outlives the loader.
  explicit VersionLoader(Parts parts);

  // Calls off, and waits for the thread.
  ~VersionLoader();

  // FAILED_PRECONDITION while another version is being made, UNAVAILABLE once
  // called off.
  absl::Status Begin(VersionOrder order) ABSL_LOCKS_EXCLUDED(mu_);

  // Makes nothing any more: what is being read is given up at the next tensor,
  // and ends with UNAVAILABLE.
  void CallOff() { called_off_ = true; }

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mu_);
  void Make(VersionOrder order) ABSL_LOCKS_EXCLUDED(mu_);
  absl::StatusOr<ServedVersion::Parts> MakeParts(const VersionOrder& order,
                                                 std::string& path) const;
  absl::StatusOr<std::shared_ptr<const LoadedModel>> LoadRevision(
      const VersionOrder& order, const ServedVersion& active) const;
  absl::Status Hand(VersionOrder order, ServedVersion::Parts version,
                    std::string_view path) const;
  static void WarmUp(const VersionOrder& order, const VersionInfo& added,
                     const KvCache& cache, VersionKeeper& versions,
                     Inbox& inbox);
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return ending_ || next_.has_value();
  }

  const Parts parts_;
  std::atomic<bool> called_off_{false};
  absl::Mutex mu_;
  std::optional<VersionOrder> next_ ABSL_GUARDED_BY(mu_);
  bool busy_ ABSL_GUARDED_BY(mu_) = false;  // from Begin() to the weights
  bool ending_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mu_);  // from the first order on
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_VERSION_LOADER_H_

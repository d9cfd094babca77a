#ifndef KVASIR_SERVER_GENERATION_BACKEND_H_
#define KVASIR_SERVER_GENERATION_BACKEND_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "engine/engine.h"

namespace kvasir {

// What the server asks of an engine; the methods mean what those of Engine
// mean. It exists so that tests can stand in for the engine where an event is
// rare: a full inbox, a stalled step, a sink that is pushed too fast.
//
// All methods are safe from any thread.
class GenerationBackend {
 public:
  virtual ~GenerationBackend() = default;

  // Whoever holds a version lets go of it before the backend ends.
  virtual absl::StatusOr<std::shared_ptr<const ServedVersion>> Resolve(
      std::string_view model, std::string_view label) const = 0;
  virtual std::vector<VersionInfo> Versions() const = 0;
  virtual absl::Status CreateVersion(VersionOrder order) = 0;
  virtual absl::StatusOr<VersionInfo> ActivateVersion(
      std::string_view model, std::string_view label) = 0;
  virtual absl::StatusOr<VersionInfo> RollBackVersion(
      std::string_view model) = 0;
  virtual absl::StatusOr<VersionInfo> DeleteVersion(std::string_view model,
                                                    std::string_view label) = 0;
  virtual absl::Status Submit(Request request,
                              std::shared_ptr<TokenSink> sink) = 0;
  virtual bool Cancel(std::string_view request_id, CancelSource source,
                      std::string_view reason) = 0;
  virtual void Wake() = 0;
  virtual absl::StatusOr<FlushOutcome> FlushCache() = 0;
  virtual absl::StatusOr<std::vector<CachedPrefix>> ListPrefixes(
      const PrefixSelection& selection, const StillWanted& wanted) = 0;
  virtual absl::StatusOr<CachedPrefix> GetPrefix(std::string_view id) = 0;
  virtual absl::StatusOr<CachedPrefix> PinPrefix(std::string_view id,
                                                 absl::Duration ttl) = 0;
  virtual absl::StatusOr<CachedPrefix> UnpinPrefix(std::string_view id) = 0;
  virtual absl::StatusOr<EvictedPrefixes> EvictPrefixes(
      const PrefixSelection& selection, bool dry_run,
      const StillWanted& wanted) = 0;
  virtual absl::StatusOr<EvictedPrefixes> EvictPrefixes(
      std::vector<std::string> ids, bool dry_run) = 0;
  virtual absl::StatusOr<EvictedPrefixes> FlushPrefixes(
      const PrefixSelection& selection, const StillWanted& wanted) = 0;
  virtual void SetTenantQuotas(std::vector<TenantShare> quotas,
                               std::shared_ptr<QuotaSink> sink) = 0;
  virtual absl::Status ResizeCache(ResizeOrder order) = 0;
  virtual absl::Status WarmCache(WarmOrder order) = 0;
  virtual void BeginDrain() = 0;
  virtual void CancelAll(CancelSource source, std::string_view reason) = 0;
  virtual bool WaitIdle(absl::Duration timeout) = 0;
  virtual EngineStats Stats() const = 0;
};

// The real one; owns `engine`.
std::unique_ptr<GenerationBackend> MakeEngineBackend(
    std::unique_ptr<Engine> engine);

}  // namespace kvasir

#endif  // KVASIR_SERVER_GENERATION_BACKEND_H_

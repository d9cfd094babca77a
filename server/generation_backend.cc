#include "server/generation_backend.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvasir {
namespace {

class EngineBackend final : public GenerationBackend {
 public:
  explicit EngineBackend(std::unique_ptr<Engine> engine)
      : engine_(std::move(engine)) {}

  absl::StatusOr<std::shared_ptr<const ServedVersion>> Resolve(
      std::string_view model, std::string_view label) const override {
    return engine_->Resolve(model, label);
  }
  std::vector<VersionInfo> Versions() const override {
    return engine_->Versions();
  }
  absl::Status CreateVersion(VersionOrder order) override {
    return engine_->CreateVersion(std::move(order));
  }
  absl::StatusOr<VersionInfo> ActivateVersion(std::string_view model,
                                              std::string_view label) override {
    return engine_->ActivateVersion(model, label);
  }
  absl::StatusOr<VersionInfo> RollBackVersion(std::string_view model) override {
    return engine_->RollBackVersion(model);
  }
  absl::StatusOr<VersionInfo> DeleteVersion(std::string_view model,
                                            std::string_view label) override {
    return engine_->DeleteVersion(model, label);
  }
  absl::Status Submit(Request request,
                      std::shared_ptr<TokenSink> sink) override {
    return engine_->Submit(std::move(request), std::move(sink));
  }
  bool Cancel(std::string_view request_id, CancelSource source,
              std::string_view reason) override {
    return engine_->Cancel(request_id, source, reason);
  }
  void Wake() override { engine_->Wake(); }
  absl::StatusOr<FlushOutcome> FlushCache() override {
    return engine_->FlushCache();
  }
  absl::StatusOr<std::vector<CachedPrefix>> ListPrefixes(
      const PrefixSelection& selection, const StillWanted& wanted) override {
    return engine_->ListPrefixes(selection, wanted);
  }
  absl::StatusOr<CachedPrefix> GetPrefix(std::string_view id) override {
    return engine_->GetPrefix(id);
  }
  absl::StatusOr<CachedPrefix> PinPrefix(std::string_view id,
                                         absl::Duration ttl) override {
    return engine_->PinPrefix(id, ttl);
  }
  absl::StatusOr<CachedPrefix> UnpinPrefix(std::string_view id) override {
    return engine_->UnpinPrefix(id);
  }
  absl::StatusOr<EvictedPrefixes> EvictPrefixes(
      const PrefixSelection& selection, bool dry_run,
      const StillWanted& wanted) override {
    return engine_->EvictPrefixes(selection, dry_run, wanted);
  }
  absl::StatusOr<EvictedPrefixes> EvictPrefixes(std::vector<std::string> ids,
                                                bool dry_run) override {
    return engine_->EvictPrefixes(std::move(ids), dry_run);
  }
  absl::StatusOr<EvictedPrefixes> FlushPrefixes(
      const PrefixSelection& selection, const StillWanted& wanted) override {
    return engine_->FlushPrefixes(selection, wanted);
  }
  void SetTenantQuotas(std::vector<TenantShare> quotas,
                       std::shared_ptr<QuotaSink> sink) override {
    engine_->SetTenantQuotas(std::move(quotas), std::move(sink));
  }
  absl::Status ResizeCache(ResizeOrder order) override {
    return engine_->ResizeCache(std::move(order));
  }
  absl::Status WarmCache(WarmOrder order) override {
    return engine_->WarmCache(std::move(order));
  }
  void BeginDrain() override { engine_->BeginDrain(); }
  void CancelAll(CancelSource source, std::string_view reason) override {
    engine_->CancelAll(source, reason);
  }
  bool WaitIdle(absl::Duration timeout) override {
    return engine_->WaitIdle(timeout);
  }
  EngineStats Stats() const override { return engine_->Stats(); }

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace

std::unique_ptr<GenerationBackend> MakeEngineBackend(
    std::unique_ptr<Engine> engine) {
  return std::make_unique<EngineBackend>(std::move(engine));
}

}  // namespace kvasir

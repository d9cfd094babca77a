#include "server/create_version_call.h"

#include <string>
#include <utility>

#include "cache/base/status_macros.h"
#include "engine/version_order.h"
#include "server/log.h"
#include "server/request_parse.h"
#include "server/version_codec.h"

namespace kvasir {
namespace {

// The engine's end of the call. What the engine says reaches the operator in
// two places: the client, without paths but their last parts, and the log.
class CreateVersionCall final : public VersionSink {
 public:
  CreateVersionCall(std::shared_ptr<ProgressReactor> reactor,
                    const GenerationBackend& backend)
      : reactor_(std::move(reactor)), backend_(backend) {}

  bool OnProgress(const VersionProgress& progress) override {
    last_ = progress;
    return reactor_->Report(
        [&progress] { return ToBytes(EncodeVersionProgress(progress)); });
  }

  void OnEnd(const absl::Status& status, const VersionInfo& info) override {
    if (!status.ok()) {
      Log(LogLevel::kWarning, "a cache version could not be made",
          {{"reason", std::string(status.message())}});
      return reactor_->End(status);
    }
    Log(LogLevel::kInfo, "a cache version was made",
        {{"model", info.model}, {"label", info.label}, {"path", info.path}});
    last_.phase = VersionProgress::Phase::kDone;
    v1::CreateCacheVersionResponse last = EncodeVersionProgress(last_);
    *last.mutable_version() = EncodeVersion(info, backend_);
    reactor_->End(status, &last);
  }

 private:
  const std::shared_ptr<ProgressReactor> reactor_;
  const GenerationBackend& backend_;
  VersionProgress last_;  // calls come one after the other
};

}  // namespace

absl::Status StartCreateVersion(const v1::CreateCacheVersionRequest& request,
                                GenerationBackend& backend,
                                std::shared_ptr<ProgressReactor> reactor) {
  ASSIGN_OR_RETURN(VersionOrder order, DecodeCreateVersion(request, backend));
  order.sink = std::make_shared<CreateVersionCall>(std::move(reactor), backend);
  return backend.CreateVersion(std::move(order));
}

}  // namespace kvasir

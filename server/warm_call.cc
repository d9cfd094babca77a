#include "server/warm_call.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/warm_order.h"
#include "server/log.h"
#include "server/request_parse.h"
#include "server/version_choice.h"
#include "server/warm_codec.h"

namespace kvasir {
namespace {

// The engine's end of the call.
class WarmCall final : public WarmSink {
 public:
  explicit WarmCall(std::shared_ptr<ProgressReactor> reactor)
      : reactor_(std::move(reactor)) {}

  bool OnProgress(const WarmReport& report) override {
    return reactor_->Report(
        [&report] { return ToBytes(EncodeWarmReport(report)); });
  }

  void OnEnd(const absl::Status& status,
             absl::Span<const WarmedPrefix> prefixes) override {
    const v1::WarmCacheResponse last = EncodeWarmEnd(status, prefixes);
    Log(status.ok() ? LogLevel::kInfo : LogLevel::kWarning,
        status.ok() ? "the cache was warmed" : "the cache was not warmed",
        {{"prompts", absl::StrCat(last.progress().total_count())},
         {"resident", absl::StrCat(last.progress().done_count())},
         {"computed_tokens", absl::StrCat(last.computed_tokens())},
         {"reason", std::string(status.message())}});
    reactor_->End(status, &last);
  }

 private:
  const std::shared_ptr<ProgressReactor> reactor_;
};

}  // namespace

absl::Status StartWarmCache(v1::WarmCacheRequest request,
                            GenerationBackend& backend, WorkPool& work,
                            std::shared_ptr<ProgressReactor> reactor) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ServedVersion> version,
                   ChooseVersion(backend, request.model(), request.version()));
  ASSIGN_OR_RETURN(WarmOrder settings,
                   DecodeWarmSettings(request, std::move(version)));
  return work.Post([request = std::move(request), order = std::move(settings),
                    &backend, reactor = std::move(reactor)]() mutable {
    const absl::Status handed = [&]() -> absl::Status {
      const ServedModel model = ModelOf(*order.version);
      for (int i = 0; i < request.prompts_size(); ++i) {
        ASSIGN_OR_RETURN(WarmPrefix prefix,
                         DecodeWarmPrompt(request, i, model));
        order.prefixes.push_back(std::move(prefix));
      }
      order.sink = std::make_shared<WarmCall>(reactor);
      return backend.WarmCache(std::move(order));
    }();
    if (!handed.ok()) reactor->End(handed);
  });
}

}  // namespace kvasir

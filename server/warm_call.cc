#include "server/warm_call.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "cache/base/status_macros.h"
#include "engine/model/utf8.h"
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

// Nobody warms what is deleted; and who holds it keeps its weights.
absl::Status CheckKept(const ServedVersion& version,
                       const GenerationBackend& backend) {
  for (const VersionInfo& info : backend.Versions()) {
    if (info.id == version.id() && !info.retiring) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "version: ", QuoteText(version.label()), " has been deleted"));
}

// The prompts that `order` is to warm.
absl::Status AddPrefixes(const v1::WarmCacheRequest& request,
                         const GenerationBackend& backend,
                         const ServerState& state, ProgressReactor& reactor,
                         WarmOrder& order) {
  const ServedModel model = ModelOf(*order.version);
  WarmReport report{.prefix_count = request.prompts_size()};
  int64_t tokens = 0;
  for (int i = 0; i < request.prompts_size(); ++i) {
    RETURN_IF_ERROR(state.Accepting().status());
    RETURN_IF_ERROR(CheckKept(*order.version, backend));
    if (!reactor.Report([&] { return ToBytes(EncodeWarmReport(report)); })) {
      return absl::CancelledError("the call was cancelled");
    }
    ASSIGN_OR_RETURN(WarmPrefix prefix, DecodeWarmPrompt(request, i, model));
    tokens += static_cast<int64_t>(prefix.tokens.size());
    RETURN_IF_ERROR(CheckWarmTokens(tokens));
    order.prefixes.push_back(std::move(prefix));
  }
  return absl::OkStatus();
}

absl::StatusOr<WarmOrder> SettingsOf(const v1::WarmCacheRequest& request,
                                     const GenerationBackend& backend) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ServedVersion> version,
                   ChooseVersion(backend, request.model(), request.version()));
  return DecodeWarmSettings(request, std::move(version));
}

absl::Status HandOver(const v1::WarmCacheRequest& request,
                      GenerationBackend& backend, const ServerState& state,
                      const std::shared_ptr<ProgressReactor>& reactor) {
  ASSIGN_OR_RETURN(WarmOrder order, SettingsOf(request, backend));
  RETURN_IF_ERROR(AddPrefixes(request, backend, state, *reactor, order));
  order.sink = std::make_shared<WarmCall>(reactor);
  return backend.WarmCache(std::move(order));
}

}  // namespace

absl::Status StartWarmCache(v1::WarmCacheRequest request,
                            GenerationBackend& backend,
                            const ServerState& state, WorkPool& work,
                            std::shared_ptr<ProgressReactor> reactor) {
  // What is wrong already is told at once. But whoever waits holds no version:
  // it would keep the weights, and another may be active when its turn comes.
  RETURN_IF_ERROR(SettingsOf(request, backend).status());
  const size_t bytes = request.SpaceUsedLong();
  return work.Post(
      [request = std::move(request), &backend, &state,
       reactor = std::move(reactor)]() mutable {
        const absl::Status handed = HandOver(request, backend, state, reactor);
        if (!handed.ok()) reactor->End(handed);
      },
      bytes);
}

}  // namespace kvasir

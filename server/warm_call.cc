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

// The prompts that `order` is to warm.
absl::Status AddPrefixes(const v1::WarmCacheRequest& request,
                         const ServerState& state, ProgressReactor& reactor,
                         WarmOrder& order) {
  const ServedModel model = ModelOf(*order.version);
  WarmReport report{.prefix_count = request.prompts_size()};
  int64_t tokens = 0;
  for (int i = 0; i < request.prompts_size(); ++i) {
    RETURN_IF_ERROR(state.Accepting().status());
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

}  // namespace

absl::Status StartWarmCache(v1::WarmCacheRequest request,
                            GenerationBackend& backend,
                            const ServerState& state, WorkPool& work,
                            std::shared_ptr<ProgressReactor> reactor) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ServedVersion> version,
                   ChooseVersion(backend, request.model(), request.version()));
  ASSIGN_OR_RETURN(WarmOrder settings,
                   DecodeWarmSettings(request, std::move(version)));
  const size_t bytes = request.SpaceUsedLong();
  return work.Post(
      [request = std::move(request), order = std::move(settings), &backend,
       &state, reactor = std::move(reactor)]() mutable {
        absl::Status handed = AddPrefixes(request, state, *reactor, order);
        if (handed.ok()) {
          order.sink = std::make_shared<WarmCall>(reactor);
          handed = backend.WarmCache(std::move(order));
        }
        if (!handed.ok()) reactor->End(handed);
      },
      bytes);
}

}  // namespace kvasir

#include "engine/version_loader.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "cache/base/status_macros.h"
#include "engine/hooked_runner.h"
#include "engine/model/utf8.h"
#include "engine/model_runner.h"
#include "engine/model_set.h"
#include "engine/version_keeper.h"
#include "engine/warm_order.h"

namespace kvasir {
namespace {

// Digits of the fingerprint in a label that nobody chose.
constexpr size_t kLabelDigits = 8;

std::shared_ptr<StepRunner> MakeRunner(const EngineOptions& options,
                                       const LoadedModel& model) {
  auto runner = std::make_shared<ModelRunner>(
      model.transformer.get(),
      ModelRunner::Options{.layout = model.layout,
                           .sampleable_count = model.token_limit,
                           .tokens = &model.tokens});
#if KVASIR_TEST_HOOKS
  return std::make_shared<HookedRunner>(std::move(runner), options.test_hooks);
#else
  (void)options;
  return runner;
#endif
}

}  // namespace

ServedVersion::Parts MakeVersionParts(
    const EngineOptions& options, std::shared_ptr<const LoadedModel> revision,
    std::string_view model, std::string_view label,
    const CachePromise* promise) {
  ServedVersion::Parts parts;
  parts.info = revision->info;
  parts.info.name = model;
  parts.info.cache_version =
      !label.empty()
          ? std::string(label)
          : absl::StrCat(parts.info.name, "@",
                         parts.info.cache_fingerprint.substr(0, kLabelDigits));
  parts.tokenizer =
      std::shared_ptr<const Tokenizer>(revision, revision->tokenizer.get());
  parts.runner = MakeRunner(options, *revision);
  parts.limits.token_limit = revision->token_limit;
  parts.limits.tokens = &revision->tokens;
  parts.limits.model_context = revision->info.max_context;
  if (options.context_limit > 0 &&
      options.context_limit < parts.limits.model_context) {
    parts.limits.model_context = options.context_limit;
  }
  parts.promise = promise;
  parts.revision = std::move(revision);
  return parts;
}

VersionInfo InfoOf(const ServedVersion::Parts& parts, std::string_view path,
                   int64_t quota_blocks) {
  VersionInfo info;
  info.model = parts.info.name;
  info.label = parts.info.cache_version;
  info.fingerprint = parts.info.cache_fingerprint;
  info.weights_digest = parts.info.digest;
  info.tokenizer_digest = parts.info.tokenizer_digest;
  info.path = path;
  info.weight_bytes = parts.info.weight_bytes;
  info.quota_blocks = quota_blocks;
  info.created = absl::Now();
  return info;
}

namespace {

// Token ids mean the same only to the same tokenizer.
absl::Status CheckWarmable(const VersionOrder& order,
                           const ServedVersion& active,
                           const std::string& found) {
  if (order.warm_prefixes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "warm_prefixes: wanted at least 0, found ", order.warm_prefixes));
  }
  const std::string& wanted = active.info().tokenizer_digest;
  if (order.warm_prefixes == 0 || found == wanted) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "warm_prefixes: wanted the tokenizer of ", active.label(), ", ", wanted,
      ", whose tokens the prefixes are made of; found ", found));
}

// What can be known of a file before any room is made for its weights.
absl::Status CheckOutline(const ModelOutline& outline, const KvLayout& layout,
                          const VersionOrder& order,
                          const ServedVersion& active) {
  const absl::Status fits =
      CheckSameShape(layout, active.label(), outline.layout);
  if (!fits.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("model_path: ", fits.message()));
  }
  return CheckWarmable(order, active, outline.tokenizer_digest);
}

// The hottest prefixes of the version that requests get, to be computed in
// another one.
std::vector<WarmPrefix> PrefixesToReplay(const KvCache& cache, VersionId active,
                                         int64_t count) {
  std::vector<WarmPrefix> prefixes;
  const int64_t most = static_cast<int64_t>(kMaxWarmPrefixes);
  for (HotPrefix& hot : cache.HottestPrefixes(
           active, static_cast<size_t>(std::min(count, most)))) {
    prefixes.push_back(
        {.tokens = std::move(hot.tokens), .salt = std::move(hot.salt)});
  }
  return prefixes;
}

// Lets a new version serve when it is warm, or deletes it if it does not get
// there: a version that is named has all that was asked for. But one that
// somebody has activated meanwhile stays, whatever became of it since: requests
// have got it, and may again. On the engine thread; `versions` outlives it.
class ServeWhenWarm final : public WarmSink {
 public:
  ServeWhenWarm(VersionKeeper* versions, VersionInfo info,
                std::shared_ptr<VersionSink> sink)
      : versions_(versions), info_(std::move(info)), sink_(std::move(sink)) {}

  bool OnProgress(const WarmReport& report) override {
    return sink_->OnProgress({.phase = VersionProgress::Phase::kWarming,
                              .done = report.done_count,
                              .total = report.prefix_count,
                              .warmed_tokens = report.computed_tokens});
  }

  void OnEnd(const absl::Status& status,
             absl::Span<const WarmedPrefix> prefixes) override {
    if (!status.ok()) return GiveUp(status);
    VersionProgress done{.phase = VersionProgress::Phase::kDone,
                         .done = static_cast<int64_t>(prefixes.size()),
                         .total = static_cast<int64_t>(prefixes.size())};
    for (const WarmedPrefix& prefix : prefixes) {
      done.warmed_tokens += prefix.resident_tokens;
    }
    if (!sink_->OnProgress(done)) {
      return GiveUp(absl::CancelledError("the version was given up"));
    }
    const absl::StatusOr<VersionInfo> serving =
        versions_->BeginServing(info_.id);
    sink_->OnEnd(serving.status(), serving.ok() ? *serving : VersionInfo());
  }

  void GiveUp(const absl::Status& why) {
    versions_->DeleteUnserved(info_.id);
    sink_->OnEnd(why, VersionInfo());
  }

 private:
  VersionKeeper* const versions_;
  const VersionInfo info_;
  const std::shared_ptr<VersionSink> sink_;
};

absl::Status CalledOff() {
  return absl::UnavailableError("the engine drains and makes no new versions");
}

}  // namespace

VersionLoader::VersionLoader(Parts parts) : parts_(std::move(parts)) {}

VersionLoader::~VersionLoader() {
  CallOff();
  std::thread thread;
  {
    absl::MutexLock lock(&mu_);
    ending_ = true;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

absl::Status VersionLoader::Begin(VersionOrder order) {
  absl::MutexLock lock(&mu_);
  if (called_off_ || ending_) return CalledOff();
  if (busy_) {
    return absl::FailedPreconditionError(
        "another version is being made; one at a time");
  }
  busy_ = true;
  next_ = std::move(order);
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void VersionLoader::Run() {
  while (true) {
    std::optional<VersionOrder> order;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &VersionLoader::HasNews));
      // Whose order was taken on is told of its end, also at the end.
      order = std::exchange(next_, std::nullopt);
    }
    if (!order.has_value()) return;
    Make(*std::move(order));
  }
}

void VersionLoader::Make(VersionOrder order) {
  const std::shared_ptr<VersionSink> sink = order.sink;
  std::string path;
  absl::StatusOr<ServedVersion::Parts> made = MakeParts(order, path);
  {
    // Whoever hears of the end may begin another.
    absl::MutexLock lock(&mu_);
    busy_ = false;
  }
  absl::Status handed = made.ok()
                            ? Hand(std::move(order), *std::move(made), path)
                            : made.status();
  if (handed.ok()) return;
  if (called_off_) handed = CalledOff();
  sink->OnEnd(handed, VersionInfo());
}

// `path` is where the weights come from.
absl::StatusOr<ServedVersion::Parts> VersionLoader::MakeParts(
    const VersionOrder& order, std::string& path) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ServedVersion> active,
                   parts_.directory->Resolve(order.model, ""));
  // Before the weights are read, and again when the version is added.
  const std::vector<VersionInfo> resident = parts_.directory->List();
  RETURN_IF_ERROR(CheckResidentCount(resident.size()));
  for (const VersionInfo& info : resident) {
    if (order.label.empty() || info.label != order.label) continue;
    return absl::AlreadyExistsError(
        absl::StrCat("label: a version of ", QuoteText(info.model),
                     " is called ", QuoteText(info.label), " already"));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const LoadedModel> revision,
                   LoadRevision(order, *active));
  RETURN_IF_ERROR(
      CheckWarmable(order, *active, revision->info.tokenizer_digest));
  path = order.path.empty() ? active->info().path : order.path;
  return MakeVersionParts(parts_.options, std::move(revision), active->model(),
                          order.label, parts_.promise);
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> VersionLoader::LoadRevision(
    const VersionOrder& order, const ServedVersion& active) const {
  if (order.path.empty()) return active.revision();
  EngineOptions options = parts_.options;
  options.model_path = order.path;
  options.model_name = active.model();
  options.load_progress = [this, &order](int64_t done, int64_t total) {
    return !called_off_ &&
           order.sink->OnProgress({.phase = VersionProgress::Phase::kLoading,
                                   .done = done,
                                   .total = total});
  };
  // Once they are in memory, everybody can see them there.
  WeightRoom held;
  const auto admit = [&](const ModelOutline& outline) -> absl::Status {
    if (called_off_) return CalledOff();
    RETURN_IF_ERROR(CheckOutline(outline, parts_.layout, order, active));
    if (!options.hold_weights) return absl::OkStatus();
    ASSIGN_OR_RETURN(held, options.hold_weights(outline.weight_bytes));
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(options, admit));
  if (auto resident = parts_.directory->FindRevision(model.info.digest)) {
    return resident;
  }
  return std::make_shared<const LoadedModel>(std::move(model));
}

absl::Status VersionLoader::Hand(VersionOrder order,
                                 ServedVersion::Parts version,
                                 std::string_view path) const {
  VersionInfo info = InfoOf(version, path, order.quota_blocks);
  return parts_.inbox->Post(
      [inbox = parts_.inbox, order = std::move(order),
       version = std::move(version), info = std::move(info)](
          KvCache& cache, VersionKeeper& versions) mutable {
        absl::StatusOr<VersionInfo> added =
            versions.Add(std::move(version), std::move(info));
        if (!added.ok()) {
          return order.sink->OnEnd(added.status(), VersionInfo());
        }
        WarmUp(order, *added, cache, versions, *inbox);
      });
}

// On the engine thread, which reads the order that it posts here in its next
// turn.
void VersionLoader::WarmUp(const VersionOrder& order, const VersionInfo& added,
                           const KvCache& cache, VersionKeeper& versions,
                           Inbox& inbox) {
  const ServedVersion* const active =
      versions.Find(versions.ActiveVersion(added.model));
  const ServedVersion* const own = versions.Find(added.id);
  // Another version may have become active while the weights were read.
  const absl::Status warmable =
      active == nullptr || own == nullptr
          ? absl::OkStatus()
          : CheckWarmable(order, *active, own->info().tokenizer_digest);
  WarmOrder warm;
  warm.sink = std::make_shared<ServeWhenWarm>(&versions, added, order.sink);
  if (!warmable.ok()) return warm.sink->OnEnd(warmable, {});
  warm.prefixes = PrefixesToReplay(cache, versions.ActiveVersion(added.model),
                                   order.warm_prefixes);
  if (warm.prefixes.empty()) return warm.sink->OnEnd(absl::OkStatus(), {});
  warm.version = versions.Share(added.id);
  const std::shared_ptr<WarmSink> sink = warm.sink;
  const absl::Status posted = inbox.Post(std::move(warm));
  if (!posted.ok()) sink->OnEnd(posted, {});
}

}  // namespace kvasir

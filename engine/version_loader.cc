#include "engine/version_loader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "cache/base/status_macros.h"
#include "engine/hooked_runner.h"
#include "engine/model_runner.h"
#include "engine/version_keeper.h"

namespace kvasir {
namespace {

// Digits of the fingerprint in a label that nobody chose.
constexpr size_t kLabelDigits = 8;

std::shared_ptr<StepRunner> MakeRunner(const EngineOptions& options,
                                       const LoadedModel& model) {
  auto runner = std::make_shared<ModelRunner>(
      model.transformer.get(),
      ModelRunner::Options{.layout = model.layout,
                           .sampleable_count = model.token_limit});
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
    const std::atomic<int64_t>* cache_tokens) {
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
  parts.cache_tokens = cache_tokens;
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
  info.quota_blocks = quota_blocks;
  info.created = absl::Now();
  return info;
}

VersionLoader::VersionLoader(Parts parts) : parts_(std::move(parts)) {}

VersionLoader::~VersionLoader() {
  abandoned_ = true;
  absl::MutexLock lock(&mu_);
  if (thread_.joinable()) thread_.join();
}

absl::Status VersionLoader::Begin(VersionOrder order) {
  if (order.warm_prefixes != 0) {
    return absl::UnimplementedError(
        "warm_prefix_count: this server does not warm a new version yet");
  }
  if (busy_.exchange(true)) {
    return absl::FailedPreconditionError(
        "another version is being made; one at a time");
  }
  absl::MutexLock lock(&mu_);
  if (thread_.joinable()) thread_.join();
  thread_ = std::thread(
      [this, order = std::move(order)]() mutable { Make(std::move(order)); });
  return absl::OkStatus();
}

void VersionLoader::Make(VersionOrder order) {
  const std::shared_ptr<VersionSink> sink = order.sink;
  const absl::Status handed = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::shared_ptr<const ServedVersion> active,
                     parts_.directory->Resolve(order.model, ""));
    ASSIGN_OR_RETURN(std::shared_ptr<const LoadedModel> revision,
                     LoadRevision(order, *active));
    if (revision->layout != parts_.layout) {
      return absl::FailedPreconditionError(absl::StrCat(
          "model_path: wanted a model whose cache blocks take ",
          parts_.layout.BlockBytes(), " bytes as those of ", active->label(),
          " do, found ", revision->layout.BlockBytes()));
    }
    ServedVersion::Parts version =
        MakeVersionParts(parts_.options, std::move(revision), active->model(),
                         order.label, parts_.cache_tokens);
    const std::string path =
        order.path.empty() ? active->info().path : order.path;
    return Hand(std::move(order), std::move(version), path);
  }();
  busy_ = false;
  if (!handed.ok()) sink->OnEnd(handed, VersionInfo());
}

absl::StatusOr<std::shared_ptr<const LoadedModel>> VersionLoader::LoadRevision(
    const VersionOrder& order, const ServedVersion& active) const {
  if (order.path.empty()) return active.revision();
  EngineOptions options = parts_.options;
  options.model_path = order.path;
  options.model_name = active.model();
  options.load_progress = [this, &order](int64_t done, int64_t total) {
    return !abandoned_ &&
           order.sink->OnProgress({.phase = VersionProgress::Phase::kLoading,
                                   .done = done,
                                   .total = total});
  };
  ASSIGN_OR_RETURN(LoadedModel model, LoadModel(options));
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
      [order = std::move(order), version = std::move(version),
       info = std::move(info)](KvCache&, VersionKeeper& versions) mutable {
        absl::StatusOr<VersionInfo> added =
            versions.Add(std::move(version), std::move(info));
        if (added.ok()) added = versions.BeginServing(added->id);
        order.sink->OnEnd(added.status(), added.ok() ? *added : VersionInfo());
      });
}

}  // namespace kvasir

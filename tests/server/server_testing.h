#ifndef KVASIR_TESTS_SERVER_SERVER_TESTING_H_
#define KVASIR_TESTS_SERVER_SERVER_TESTING_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

#include "cache/base/status_macros.h"
#include "engine/model/tokenizer.h"
#include "engine/model_runner.h"
#include "engine/version_directory.h"
#include "kvasir/v1/inference.pb.h"
#include "server/generation_backend.h"
#include "server/request_codec.h"
#include "server/text.h"
#include "tests/support/loop_harness.h"
#include "tests/support/temp_path.h"

namespace kvasir {

// The tokenizer of the model TINY, without the model, and without tokens for
// `lost_bytes`.
inline std::unique_ptr<Tokenizer> MakeTinyTokenizer(
    const std::vector<uint8_t>& lost_bytes = {}) {
  TokenizerSpec spec = TinyTokenizerSpec("smollm");
  for (const uint8_t byte : lost_bytes) {
    constexpr size_t kControlTokens = 3;
    spec.tokens[kControlTokens + byte] =
        absl::StrCat("instead-of-", static_cast<int>(byte));
  }
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      Tokenizer::Create(std::move(spec));
  if (!tokenizer.ok()) ADD_FAILURE() << tokenizer.status();
  return *std::move(tokenizer);
}

inline ModelInfo MakeTinyInfo(const Tokenizer& tokenizer) {
  ModelInfo info;
  info.name = "tiny";
  info.architecture = "llama";
  info.quantization = "F32";
  info.digest = "d1";
  info.cache_version = "tiny@12345678";
  info.cache_fingerprint = "1234567890abcdef";
  info.backend = "cpu test";
  info.kv_type = "f16";
  info.max_context = 256;
  info.vocab_size = tokenizer.size();
  info.layer_count = 2;
  info.end_tokens = {0, 2};
  return info;
}

// A version without a model, in a cache that sets no limit.
inline std::shared_ptr<const ServedVersion> MakeTinyVersion(
    std::shared_ptr<const Tokenizer> tokenizer, const ModelInfo& info,
    VersionId id = VersionId(0)) {
  class NoRunner final : public StepRunner {
    absl::StatusOr<std::vector<StepResult>> Run(
        absl::Span<const StepRows> step) override {
      return absl::UnimplementedError("nothing is computed here");
    }
  };
  static const CachePromise no_limit{int64_t{1} << 40};
  ServedVersion::Parts parts;
  parts.id = id;
  parts.info = info;
  parts.limits.token_limit = tokenizer->size();
  parts.limits.model_context = info.max_context;
  parts.tokenizer = std::move(tokenizer);
  parts.runner = std::make_shared<NoRunner>();
  parts.promise = &no_limit;
  return std::make_shared<const ServedVersion>(std::move(parts));
}

// A backend without an engine: it keeps what it is given, and a test decides
// what comes back. Any thread.
class FakeBackend final : public GenerationBackend {
 public:
  FakeBackend() : tokenizer_(MakeTinyTokenizer()) {
    info_ = MakeTinyInfo(*tokenizer_);
    PublishFirst();
  }

  absl::StatusOr<std::shared_ptr<const ServedVersion>> Resolve(
      std::string_view model, std::string_view label) const override {
    return directory_.Resolve(model, label);
  }
  std::vector<VersionInfo> Versions() const override {
    return directory_.List();
  }
  absl::Status CreateVersion(VersionOrder order) override {
    absl::MutexLock lock(&mu_);
    order_ = std::move(order);
    return move_status;
  }
  absl::StatusOr<VersionInfo> ActivateVersion(std::string_view model,
                                              std::string_view label) override {
    return Move(absl::StrCat("activate ", View(model), "/", View(label)));
  }
  absl::StatusOr<VersionInfo> RollBackVersion(std::string_view model) override {
    return Move(absl::StrCat("roll back ", View(model)));
  }
  absl::StatusOr<VersionInfo> DeleteVersion(std::string_view model,
                                            std::string_view label) override {
    return Move(absl::StrCat("delete ", View(model), "/", View(label)));
  }

  absl::Status Submit(Request request,
                      std::shared_ptr<TokenSink> sink) override {
    if (on_submit) on_submit();
    absl::MutexLock lock(&mu_);
    if (!submit_status.ok()) return submit_status;
    requests_.push_back(std::move(request));
    sinks_.push_back(std::move(sink));
    return absl::OkStatus();
  }
  bool Cancel(std::string_view id, CancelSource source,
              std::string_view reason) override {
    absl::MutexLock lock(&mu_);
    cancelled_.emplace_back(id);
    cancel_reasons_.emplace_back(reason);
    return true;
  }
  void Wake() override { ++wakes; }
  absl::StatusOr<FlushOutcome> FlushCache() override {
    return FlushOutcome{3, 4096};
  }
  absl::StatusOr<std::vector<CachedPrefix>> ListPrefixes(
      const PrefixSelection& selection, const StillWanted& wanted) override {
    RETURN_IF_ERROR(Walk(wanted));
    absl::MutexLock lock(&mu_);
    selection_ = selection;
    return prefixes_;
  }
  absl::StatusOr<CachedPrefix> GetPrefix(std::string_view id) override {
    return Named(absl::StrCat("get ", View(id)));
  }
  absl::StatusOr<CachedPrefix> PinPrefix(std::string_view id,
                                         absl::Duration ttl) override {
    return Named(
        absl::StrCat("pin ", View(id), " for ", absl::FormatDuration(ttl)));
  }
  absl::StatusOr<CachedPrefix> UnpinPrefix(std::string_view id) override {
    return Named(absl::StrCat("unpin ", View(id)));
  }
  absl::StatusOr<EvictedPrefixes> EvictPrefixes(
      const PrefixSelection& selection, bool dry_run,
      const StillWanted& wanted) override {
    RETURN_IF_ERROR(Walk(wanted));
    absl::MutexLock lock(&mu_);
    selection_ = selection;
    moves_.push_back(dry_run ? "try to evict" : "evict");
    return EvictedPrefixes{5, 8192, 2};
  }
  absl::StatusOr<EvictedPrefixes> EvictPrefixes(std::vector<std::string> ids,
                                                bool dry_run) override {
    absl::MutexLock lock(&mu_);
    moves_.push_back(absl::StrCat(dry_run ? "try to evict " : "evict ",
                                  absl::StrJoin(ids, ",")));
    if (!move_status.ok()) return move_status;
    return EvictedPrefixes{5, 8192, 2};
  }
  absl::StatusOr<EvictedPrefixes> FlushPrefixes(
      const PrefixSelection& selection, const StillWanted& wanted) override {
    RETURN_IF_ERROR(Walk(wanted));
    absl::MutexLock lock(&mu_);
    selection_ = selection;
    return EvictedPrefixes{3, 4096, 0};
  }
  void SetTenantQuotas(std::vector<TenantShare> quotas,
                       std::shared_ptr<QuotaSink> sink) override {
    sink->OnEnd(absl::UnimplementedError("not this engine"));
  }
  absl::Status ResizeCache(ResizeOrder order) override {
    absl::MutexLock lock(&mu_);
    if (resize_status.ok()) resize_ = std::move(order);
    return resize_status;
  }
  absl::Status WarmCache(WarmOrder order) override {
    absl::MutexLock lock(&mu_);
    warm_ = std::move(order);
    return absl::OkStatus();
  }
  void BeginDrain() override {}
  void CancelAll(CancelSource source, std::string_view reason) override {}
  bool WaitIdle(absl::Duration timeout) override { return !busy; }
  EngineStats Stats() const override {
    absl::MutexLock lock(&mu_);
    EngineStats stats = stats_;
    stats.versions = directory_.List();
    return stats;
  }

  // While this is set, walks through the cache go on until nobody wants them.
  std::atomic<bool> hold_walks{false};
  // Those that have begun and those that were given up.
  std::atomic<int> walks_begun{0};
  std::atomic<int> walks_given_up{0};

  // The sink of the `index`th submission; waits until it is there.
  std::shared_ptr<TokenSink> sink(size_t index) {
    absl::MutexLock lock(&mu_);
    const auto there = [this, index]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return sinks_.size() > index;
    };
    mu_.Await(absl::Condition(&there));
    return sinks_[index];
  }
  // Lets go of all sinks, as an engine does after the last event.
  void DropSinks() {
    absl::MutexLock lock(&mu_);
    sinks_.clear();
  }
  // The last order; its sink is empty before there was one.
  ResizeOrder resize() const {
    absl::MutexLock lock(&mu_);
    return resize_;
  }
  WarmOrder warm() const {
    absl::MutexLock lock(&mu_);
    return warm_;
  }
  void DropWarm() {
    absl::MutexLock lock(&mu_);
    warm_ = {};
  }
  std::vector<std::string> cancelled() const {
    absl::MutexLock lock(&mu_);
    return cancelled_;
  }
  std::vector<std::string> cancel_reasons() const {
    absl::MutexLock lock(&mu_);
    return cancel_reasons_;
  }
  void SetStats(EngineStats stats) {
    absl::MutexLock lock(&mu_);
    stats_ = std::move(stats);
  }

  std::atomic<bool> busy = false;  // what WaitIdle() looks at

  void SetMaxContext(int64_t tokens) {
    info_.max_context = tokens;
    PublishFirst();
  }
  const ModelInfo& info() const { return info_; }

  // Beside the first version, which is active and of the model "tiny".
  VersionInfo AddVersion(const std::string& label, VersionState state) {
    ModelInfo info = info_;
    info.cache_version = label;
    info.cache_fingerprint = absl::StrCat(label, "-fingerprint");
    Publish(info, state, false);
    return directory_.List().back();
  }
  // With weights of its own, or those of another version with this digest.
  void AddRevision(const std::string& label, const std::string& digest,
                   int64_t weight_bytes) {
    AddVersion(label, VersionState::kServing);
    entries_.back().info.weights_digest = digest;
    entries_.back().info.weight_bytes = weight_bytes;
    directory_.Publish(entries_);
  }
  // From now on the newest version is told first.
  void ListBackwards() {
    std::reverse(entries_.begin(), entries_.end());
    directory_.Publish(entries_);
  }
  void ActivateLastVersion() {
    for (auto& entry : entries_) entry.info.active = false;
    entries_.back().info.active = true;
    directory_.Publish(entries_);
  }
  void RetireLastVersion() {
    entries_.pop_back();
    directory_.Publish(entries_);
  }
  void SetWeights(int64_t bytes) {
    entries_.front().info.weight_bytes = bytes;
    directory_.Publish(entries_);
  }

  // The last order; its sink is empty before there was one.
  VersionOrder order() const {
    absl::MutexLock lock(&mu_);
    return order_;
  }
  // "activate MODEL/LABEL" and the like, in order.
  std::vector<std::string> moves() const {
    absl::MutexLock lock(&mu_);
    return moves_;
  }
  // Of all requests, in order.
  std::vector<std::string> request_versions() const {
    absl::MutexLock lock(&mu_);
    std::vector<std::string> labels;
    for (const Request& request : requests_) {
      labels.push_back(request.version->label());
    }
    return labels;
  }

  // What ListPrefixes() returns, and the first of them the calls about one.
  void SetPrefixes(std::vector<CachedPrefix> prefixes) {
    absl::MutexLock lock(&mu_);
    prefixes_ = std::move(prefixes);
  }
  // Of the last call that had one.
  PrefixSelection selection() const {
    absl::MutexLock lock(&mu_);
    return selection_;
  }

  // Set before the calls.
  absl::Status submit_status;
  absl::Status move_status;  // of all that is done to versions and prefixes
  absl::Status resize_status;
  std::atomic<int64_t> wakes = 0;
  std::function<void()> on_submit;

 private:
  absl::Status Walk(const StillWanted& wanted) {
    ++walks_begun;
    while (hold_walks) {
      if (wanted && !wanted()) {
        ++walks_given_up;
        return absl::CancelledError("nobody waits for it any more");
      }
      absl::SleepFor(absl::Milliseconds(1));
    }
    return absl::OkStatus();
  }
  void PublishFirst() {
    entries_.clear();
    Publish(info_, VersionState::kServing, true);
  }
  void Publish(const ModelInfo& info, VersionState state, bool active) {
    VersionInfo told;
    told.id = VersionId(static_cast<VersionId::Value>(entries_.size()));
    told.model = info.name;
    told.label = info.cache_version;
    told.fingerprint = info.cache_fingerprint;
    told.weights_digest = info.digest;
    told.path = "/models/tiny.gguf";
    told.state = state;
    told.active = active;
    told.created = absl::FromUnixSeconds(1700000000);
    entries_.push_back({MakeTinyVersion(tokenizer_, info, told.id), told});
    directory_.Publish(entries_);
  }
  absl::StatusOr<VersionInfo> Move(std::string what) {
    absl::MutexLock lock(&mu_);
    moves_.push_back(std::move(what));
    if (!move_status.ok()) return move_status;
    return directory_.List().back();
  }

  absl::StatusOr<CachedPrefix> Named(std::string what) {
    absl::MutexLock lock(&mu_);
    moves_.push_back(std::move(what));
    if (!move_status.ok()) return move_status;
    return prefixes_.empty() ? CachedPrefix() : prefixes_.front();
  }

  const std::shared_ptr<const Tokenizer> tokenizer_;
  ModelInfo info_;
  std::vector<VersionDirectory::Entry> entries_;
  VersionDirectory directory_;
  mutable absl::Mutex mu_;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<TokenSink>> sinks_ ABSL_GUARDED_BY(mu_);
  ResizeOrder resize_ ABSL_GUARDED_BY(mu_);
  WarmOrder warm_ ABSL_GUARDED_BY(mu_);
  VersionOrder order_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> moves_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> cancelled_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> cancel_reasons_ ABSL_GUARDED_BY(mu_);
  std::vector<CachedPrefix> prefixes_ ABSL_GUARDED_BY(mu_);
  PrefixSelection selection_ ABSL_GUARDED_BY(mu_);
  EngineStats stats_ ABSL_GUARDED_BY(mu_);
};

// Writes `text` to a file of this test and returns its path.
inline std::string WriteTestFile(const std::string& name,
                                 const std::string& text) {
  const std::string path = TempPath(name);
  std::ofstream(path) << text;
  return path;
}

}  // namespace kvasir

#endif  // KVASIR_TESTS_SERVER_SERVER_TESTING_H_

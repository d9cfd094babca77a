#ifndef KVASIR_TESTS_SERVER_SERVER_TESTING_H_
#define KVASIR_TESTS_SERVER_SERVER_TESTING_H_

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
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"

#include "engine/model/tokenizer.h"
#include "kvasir/v1/inference.pb.h"
#include "server/generation_backend.h"
#include "server/request_codec.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {

// The tokenizer of the model TINY, without the model, and without tokens for
// `lost_bytes`.
inline std::unique_ptr<Tokenizer> MakeTinyTokenizer(
    const std::vector<uint8_t>& lost_bytes = {}) {
  TinyVocabulary vocabulary = MakeTinyVocabulary(0);
  for (const uint8_t byte : lost_bytes) {
    constexpr size_t kControlTokens = 3;
    vocabulary.tokens[kControlTokens + byte] =
        absl::StrCat("instead-of-", static_cast<int>(byte));
  }
  TokenizerSpec spec;
  spec.pre_tokenizer = "smollm";
  spec.tokens = vocabulary.tokens;
  for (const int32_t kind : vocabulary.kinds) {
    spec.kinds.push_back(kind == 3 ? TokenizerSpec::Kind::kControl
                                   : TokenizerSpec::Kind::kNormal);
  }
  spec.merges = vocabulary.merges;
  spec.bos = 1;
  spec.eos = 2;
  spec.end_tokens = {0, 2};
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

// A backend without an engine: it keeps what it is given, and a test decides
// what comes back. Any thread.
class FakeBackend final : public GenerationBackend {
 public:
  FakeBackend() : tokenizer_(MakeTinyTokenizer()) {
    info_ = MakeTinyInfo(*tokenizer_);
    longest_ = LongestTokenBytes(*tokenizer_);
  }

  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  const ModelInfo& model() const override { return info_; }
  size_t longest_token_bytes() const override { return longest_; }
  int64_t max_context() const override { return info_.max_context; }
  bool cache_limits_context() const override { return false; }

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
  absl::StatusOr<FlushOutcome> FlushCache() override {
    return FlushOutcome{3, 4096};
  }
  absl::Status ResizeCache(ResizeOrder order) override {
    absl::MutexLock lock(&mu_);
    resize_ = std::move(order);
    return absl::OkStatus();
  }
  void BeginDrain() override {}
  void CancelAll(CancelSource source, std::string_view reason) override {}
  bool WaitIdle(absl::Duration timeout) override { return !busy; }
  EngineStats Stats() const override {
    absl::MutexLock lock(&mu_);
    return stats_;
  }

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

  void SetMaxContext(int64_t tokens) { info_.max_context = tokens; }

  // Set before the calls.
  absl::Status submit_status;
  std::function<void()> on_submit;

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  ModelInfo info_;
  size_t longest_ = 0;
  mutable absl::Mutex mu_;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mu_);
  std::vector<std::shared_ptr<TokenSink>> sinks_ ABSL_GUARDED_BY(mu_);
  ResizeOrder resize_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> cancelled_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> cancel_reasons_ ABSL_GUARDED_BY(mu_);
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

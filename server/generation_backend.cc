#include "server/generation_backend.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace kvasir {
namespace {

class EngineBackend final : public GenerationBackend {
 public:
  explicit EngineBackend(std::unique_ptr<Engine> engine)
      : engine_(std::move(engine)),
        longest_token_bytes_(LongestTokenBytes(engine_->tokenizer())) {}

  const Tokenizer& tokenizer() const override { return engine_->tokenizer(); }
  const ModelInfo& model() const override { return engine_->model(); }
  size_t longest_token_bytes() const override { return longest_token_bytes_; }
  bool cache_limits_context() const override;
  absl::Status Submit(Request request,
                      std::shared_ptr<TokenSink> sink) override {
    return engine_->Submit(std::move(request), std::move(sink));
  }
  bool Cancel(std::string_view request_id, CancelSource source,
              std::string_view reason) override {
    return engine_->Cancel(request_id, source, reason);
  }
  absl::StatusOr<FlushOutcome> FlushCache() override {
    return engine_->FlushCache();
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
  const size_t longest_token_bytes_;
  // Of the cache, which keeps its size; 0 until the engine has told.
  mutable std::atomic<int64_t> cache_tokens_{0};
};

bool EngineBackend::cache_limits_context() const {
  if (cache_tokens_ == 0) {
    const EngineStats stats = engine_->Stats();
    int64_t blocks = 0;
    for (const TierSnapshot& tier : stats.cache.tiers) {
      blocks += tier.blocks.total();
    }
    cache_tokens_ = blocks * stats.cache.block_tokens;
  }
  return cache_tokens_ == engine_->model().max_context;
}

}  // namespace

size_t LongestTokenBytes(const Tokenizer& tokenizer) {
  size_t longest = 1;
  for (TokenId id = 0; id < tokenizer.size(); ++id) {
    longest = std::max(longest, tokenizer.TokenBytes(id).size());
  }
  return longest;
}

std::unique_ptr<GenerationBackend> MakeEngineBackend(
    std::unique_ptr<Engine> engine) {
  return std::make_unique<EngineBackend>(std::move(engine));
}

}  // namespace kvasir

#include "server/generation_backend.h"

#include <algorithm>
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
  int64_t max_context() const override { return engine_->max_context(); }
  bool cache_limits_context() const override {
    return engine_->cache_limits_context();
  }
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
  absl::Status ResizeCache(ResizeOrder order) override {
    return engine_->ResizeCache(std::move(order));
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
};

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

#ifndef KVASIR_TESTS_SUPPORT_EXACTNESS_RIG_H_
#define KVASIR_TESTS_SUPPORT_EXACTNESS_RIG_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/engine_loop.h"
#include "engine/model_loader.h"
#include "engine/model_runner.h"
#include "engine/version_directory.h"
#include "engine/version_keeper.h"
#include "tests/support/fake_clock.h"
#include "tests/support/recording_sink.h"
#include "tests/support/recording_warm.h"

namespace kvasir {

// One prompt and how to answer it.
struct ExactnessCase {
  std::vector<TokenId> prompt;
  int64_t max_tokens = 0;
  SamplingParams sampling;
};

// The answer, and the logits that each of its tokens was drawn from.
struct ExactnessAnswer {
  std::vector<TokenId> ids;
  std::vector<std::vector<float>> logits;
  Usage usage;
};

// Bytes, not values: contract C2 promises equal bits.
bool SameBits(const ExactnessAnswer& a, const ExactnessAnswer& b);

// A real model, cache and engine loop, turned by the test, that keeps all
// logits a token was drawn from.
class ExactnessRig {
 public:
  explicit ExactnessRig(const EngineOptions& options);

  // Submits case i at turn `arrivals[i]` (in any order; at once if empty) and
  // turns until all are answered.
  std::vector<ExactnessAnswer> Run(const std::vector<ExactnessCase>& cases,
                                   const std::vector<int64_t>& arrivals = {});
  // One after the other, each with the engine to itself.
  std::vector<ExactnessAnswer> RunAlone(
      const std::vector<ExactnessCase>& cases);

  void Flush() { cache_->Flush(); }

  // Posts a warm-up; the other one turns until all of it is resident.
  std::shared_ptr<RecordingWarm> BeginWarm(std::vector<WarmPrefix> prefixes,
                                           int32_t parallelism);
  void Warm(std::vector<WarmPrefix> prefixes, int32_t parallelism);

  // While Run() turns, the cache goes to each of these sizes in turn, over and
  // over, by one strategy after the other.
  void KeepResizing(std::vector<int64_t> blocks) { sizes_ = std::move(blocks); }
  // Resizes that reached their size so far, and blocks they moved.
  int64_t resizes_done() const { return resizes_done_; }
  int64_t relocated_blocks() const {
    return cache_->Snapshot().counters.relocated_blocks;
  }
  const Tokenizer& tokenizer() const { return *model_->tokenizer; }

 private:
  void BeginResize();

  FakeClock clock_;
  std::shared_ptr<const LoadedModel> model_;
  std::unique_ptr<KvCache> cache_;
  std::map<int64_t, std::vector<std::vector<float>>> logits_;  // by sequence
  Inbox inbox_{1024};
  StatsBoard board_;
  CachePromise promise_;
  VersionDirectory directory_;
  VersionKeeper versions_;
  std::unique_ptr<EngineLoop> loop_;
  int64_t submitted_ = 0;

  std::vector<int64_t> sizes_;
  std::shared_ptr<ResizeSink> resize_;  // under way
  int64_t resizes_begun_ = 0;
  int64_t resizes_done_ = 0;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_EXACTNESS_RIG_H_

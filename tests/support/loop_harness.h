#ifndef KVASIR_TESTS_SUPPORT_LOOP_HARNESS_H_
#define KVASIR_TESTS_SUPPORT_LOOP_HARNESS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "cache/kv_cache.h"
#include "engine/engine_loop.h"
#include "engine/hooked_runner.h"
#include "engine/model/tokenizer.h"
#include "engine/request_check.h"
#include "engine/version_directory.h"
#include "engine/version_keeper.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_runner.h"
#include "tests/support/recording_sink.h"

namespace kvasir {

// What makes a tokenizer of the tiny vocabulary.
TokenizerSpec TinyTokenizerSpec(const std::string& pre_tokenizer);

// The tokenizer of the tiny vocabulary: 3 control tokens (0 and 2 end a
// generation), then the 256 bytes.
const Tokenizer& TinyTokenizer();

// Random tokens of the tiny vocabulary, no control token among them.
std::vector<TokenId> RandomPrompt(uint64_t seed, int64_t length);

// A version of the tiny model that is computed by `runner`.
ServedVersion::Parts FakeVersion(const std::string& label,
                                 std::shared_ptr<StepRunner> runner,
                                 int64_t model_context,
                                 const CachePromise* promise);

// One that no sequence is computed in, for tests without a loop.
std::shared_ptr<const ServedVersion> IdleVersion(VersionId id);

// An engine loop over a real cache and a fake runner, turned by the test on its
// own thread.
class LoopHarness {
 public:
  struct Options {
    int64_t blocks = 64;
    int64_t most_blocks = 0;  // that a resize may ask for; 0: `blocks`
    int64_t resize_slice_blocks = 4;
    int32_t block_tokens = 16;
    int64_t model_context = 4096;
    bool prefix_caching = true;
    int64_t hits_per_sample = 0;  // that the canary looks at; 0: it sleeps
    int32_t inbox_limit = 1024;
    Scheduler::Limits limits = {};
    EngineTestHooks hooks = {};
  };
  explicit LoopHarness(const Options& options);

  // A request for `max_tokens` greedy tokens that no end token stops. Ids count
  // up from "0".
  Request MakeRequest(std::vector<TokenId> prompt, int64_t max_tokens);

  // Adds a version of the tiny model, active if `activate`; the one that is
  // there from the start is "tiny@0", of weights 0.
  VersionInfo AddVersion(const std::string& label, int32_t weights,
                         bool activate = true);
  // One that is warming.
  VersionInfo AddWarmingVersion(const std::string& label, int32_t weights);

  // Checks and submits as the engine does; a request without a version gets
  // the active one.
  absl::Status TrySubmit(Request request, std::shared_ptr<TokenSink> sink);
  std::shared_ptr<RecordingSink> Submit(Request request);
  std::shared_ptr<RecordingSink> Submit(std::vector<TokenId> prompt,
                                        int64_t max_tokens);

  // Turns, checking the cache's invariants after each turn.
  bool Turn();
  // Turns until no request is in flight. Fails the test after `max_turns`.
  void RunUntilIdle(int64_t max_turns = 100000);

  // As of the last turn, whether it published or not.
  EngineStats Stats();
  // As the last turn published them.
  EngineStats published() const { return board_.Read(); }
  BlockCounts Blocks() const;
  int64_t UsedBlocks() const;
  void Flush();

  const Clock& clock() const { return clock_; }
  FakeClock& clock() { return clock_; }
  // Of the version that is there from the start.
  FakeRunner& runner() { return *runners_.front(); }
  // Of the one that was added `index`-th.
  FakeRunner& runner(size_t index) { return *runners_.at(index); }
  KvCache& cache() { return *cache_; }
  Inbox& inbox() { return inbox_; }
  EngineLoop& loop() { return *loop_; }
  VersionKeeper& versions() { return *versions_; }
  VersionDirectory& directory() { return directory_; }
  // Of the active version, as they are now.
  RequestLimits limits() const;

 private:
  const Options options_;
  FakeClock clock_;
  std::unique_ptr<KvCache> cache_;
  std::vector<std::shared_ptr<FakeRunner>> runners_;  // of each version
  Inbox inbox_;
  StatsBoard board_;
  CachePromise promise_;
  VersionDirectory directory_;
  std::unique_ptr<VersionKeeper> versions_;
  std::unique_ptr<EngineLoop> loop_;
  int64_t next_id_ = 0;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_LOOP_HARNESS_H_

// A version that is warmed before it serves: from the hottest prefixes of the
// one that does, or not at all.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "tests/support/loop_harness.h"
#include "tests/support/recording_sink.h"
#include "tests/support/recording_warm.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using ::testing::HasSubstr;

class RecordingVersion final : public VersionSink {
 public:
  bool OnProgress(const VersionProgress& progress) override {
    last = progress;
    if (progress.phase == VersionProgress::Phase::kWarming &&
        !warming.HasBeenNotified()) {
      warming.Notify();
    }
    return !(give_up && progress.phase != VersionProgress::Phase::kLoading);
  }
  void OnEnd(const absl::Status& end, const VersionInfo& made) override {
    status = end;
    info = made;
    done_.Notify();
  }
  void WaitUntilEnded() { done_.WaitForNotification(); }

  std::atomic<bool> give_up = false;  // as soon as it warms
  absl::Notification warming;
  std::optional<absl::Status> status;
  VersionInfo info;
  VersionProgress last;

 private:
  absl::Notification done_;
};

class VersionWarmupTest : public ::testing::Test {
 protected:
  VersionWarmupTest() {
    options_.model_path = Model("warm_a.gguf", {});
    options_.model_name = "tiny";
    options_.version_label = "a";
    options_.cache_blocks = 128;
    options_.context_limit = 1024;
    options_.thread_count = 1;
  }

  static std::string Model(const std::string& name,
                           const TinyModelOptions& options) {
    const std::string path = TempPath(name);
    EXPECT_TRUE(WriteTinyModel(options, path).ok());
    return path;
  }

  void Start() {
    auto engine = Engine::Start(options_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  Usage Ask(std::vector<TokenId> prompt, const std::string& label = "") {
    Request request;
    request.id = absl::StrCat(next_id_++);
    request.prompt = std::move(prompt);
    request.sampling.temperature = 0;
    request.stopping = {.max_tokens = 4, .ignore_eos = true};
    request.version = *engine_->Resolve("", label);
    auto sink = std::make_shared<RecordingSink>();
    EXPECT_TRUE(engine_->Submit(std::move(request), sink).ok());
    sink->WaitUntilFinished();
    EXPECT_TRUE(sink->ok());
    return sink->finished->usage;
  }

  std::shared_ptr<RecordingVersion> Create(const std::string& path,
                                           int64_t warm_prefixes,
                                           bool give_up = false) {
    auto sink = std::make_shared<RecordingVersion>();
    sink->give_up = give_up;
    EXPECT_TRUE(engine_
                    ->CreateVersion({.label = "b",
                                     .path = path,
                                     .warm_prefixes = warm_prefixes,
                                     .sink = sink})
                    .ok());
    sink->WaitUntilEnded();
    return sink;
  }

  // Versions retire between steps.
  void WaitUntilOnly(const std::string& label) {
    for (int i = 0; i < 1000 && engine_->Versions().size() > 1; ++i) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    ASSERT_EQ(engine_->Versions().size(), 1u);
    EXPECT_EQ(engine_->Versions().front().label, label);
  }

  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  int next_id_ = 0;
};

TEST_F(VersionWarmupTest, TheHottestPrefixesOfTheOldOneHitInTheNewOne) {
  Start();
  for (int i = 0; i < 4; ++i) Ask(RandomPrompt(1, 100));
  for (int i = 0; i < 3; ++i) Ask(RandomPrompt(2, 50));
  for (int i = 0; i < 2; ++i) Ask(RandomPrompt(3, 200));
  const auto made = Create(Model("warm_b.gguf", {.seed = 2}), 2);
  ASSERT_TRUE(made->status->ok()) << *made->status;
  EXPECT_EQ(made->info.state, VersionState::kServing);
  EXPECT_FALSE(made->info.active);
  EXPECT_EQ(made->last.phase, VersionProgress::Phase::kDone);
  EXPECT_EQ(made->last.done, 2);
  EXPECT_EQ(made->last.warmed_tokens, 96 + 48);
  EXPECT_EQ(engine_->Stats().warmed_tokens, 96 + 48);
  EXPECT_EQ(Ask(RandomPrompt(1, 100), "b").cached_tokens, 96);
  EXPECT_EQ(Ask(RandomPrompt(2, 50), "b").cached_tokens, 48);
  EXPECT_EQ(Ask(RandomPrompt(3, 200), "b").cached_tokens, 0);
}

TEST_F(VersionWarmupTest, NothingHotIsNothingToWaitFor) {
  Start();
  const auto made = Create("", 10);
  ASSERT_TRUE(made->status->ok()) << *made->status;
  EXPECT_EQ(made->info.state, VersionState::kServing);
  EXPECT_EQ(engine_->Stats().warmed_tokens, 0);
}

// The ids of one tokenizer are other words to another.
TEST_F(VersionWarmupTest, AnotherTokenizerIsRefusedByItsDigest) {
  int asked = 0;
  options_.hold_weights = [&asked](int64_t) {
    ++asked;
    return WeightRoom();
  };
  Start();
  const std::string other = Model("warm_c.gguf", {.token_count = 300});
  const auto refused = Create(other, 1);
  EXPECT_EQ(refused->status->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused->status->message()),
              HasSubstr(engine_->Versions().front().tokenizer_digest));
  EXPECT_EQ(engine_->Versions().size(), 1u);
  EXPECT_EQ(asked, 0) << "before any room is made for its weights";
  EXPECT_TRUE(Create(other, 0)->status->ok()) << "cold, it is welcome";
}

TEST_F(VersionWarmupTest, GivenUpOrNotWholeItIsDeleted) {
  options_.cache_blocks = 20;
  Start();
  for (int i = 0; i < 3; ++i) Ask(RandomPrompt(1, 200));
  const std::string path = Model("warm_b.gguf", {.seed = 2});
  const auto given_up = Create(path, 1, /*give_up=*/true);
  EXPECT_EQ(given_up->status->code(), absl::StatusCode::kCancelled);
  WaitUntilOnly("a");
  for (int i = 0; i < 2; ++i) Ask(RandomPrompt(2, 200));
  const auto not_whole = Create(path, 2);
  EXPECT_EQ(not_whole->status->code(), absl::StatusCode::kResourceExhausted);
  WaitUntilOnly("a");
  ASSERT_TRUE(engine_->FlushCache().ok());
  const BlockCounts blocks = engine_->Stats().cache.tiers.front().blocks;
  EXPECT_EQ(blocks.free, blocks.total()) << "C4";
}

// Requests have got it, so it is no longer the warm-up's to delete.
TEST_F(VersionWarmupTest, GivenUpAfterARollbackItStays) {
  options_.prefill_chunk = 1;  // so that the warm-up takes its time
  Start();
  for (int i = 0; i < 2; ++i) Ask(RandomPrompt(1, 1000));
  auto sink = std::make_shared<RecordingVersion>();
  ASSERT_TRUE(
      engine_->CreateVersion({.label = "b", .warm_prefixes = 1, .sink = sink})
          .ok());
  sink->warming.WaitForNotification();
  ASSERT_TRUE(engine_->ActivateVersion("", "b").ok());
  ASSERT_TRUE(engine_->RollBackVersion("").ok());
  sink->give_up = true;
  sink->WaitUntilEnded();
  EXPECT_EQ(sink->status->code(), absl::StatusCode::kCancelled);
  ASSERT_EQ(engine_->Versions().size(), 2u);
  EXPECT_FALSE(engine_->Versions()[1].retiring);
  EXPECT_TRUE(engine_->ActivateVersion("", "b").ok());
}

TEST_F(VersionWarmupTest, ADrainCallsOffTheWarmingOfAVersion) {
  options_.prefill_chunk = 1;
  Start();
  for (int i = 0; i < 2; ++i) Ask(RandomPrompt(1, 1000));
  auto sink = std::make_shared<RecordingVersion>();
  ASSERT_TRUE(
      engine_->CreateVersion({.label = "b", .warm_prefixes = 1, .sink = sink})
          .ok());
  sink->warming.WaitForNotification();
  engine_->BeginDrain();
  sink->WaitUntilEnded();
  EXPECT_EQ(sink->status->code(), absl::StatusCode::kUnavailable);
  WaitUntilOnly("a");
}

// The engine's own calls, with its thread.
TEST_F(VersionWarmupTest, AnOrderOfTheOperatorWarmsTheActiveVersion) {
  Start();
  auto sink = std::make_shared<RecordingWarm>();
  ASSERT_TRUE(engine_
                  ->WarmCache({.prefixes = {{.tokens = RandomPrompt(5, 64)}},
                               .sink = sink})
                  .ok());
  sink->WaitUntilEnded();
  EXPECT_TRUE(sink->ok());
  EXPECT_EQ(Ask(RandomPrompt(5, 65)).cached_tokens, 64);
  EXPECT_EQ(engine_->Stats().warmed_tokens, 64);
  const absl::Status empty =
      engine_->WarmCache({.sink = std::make_shared<RecordingWarm>()});
  EXPECT_EQ(empty.code(), absl::StatusCode::kInvalidArgument);

  options_.prefix_caching = false;
  Start();
  const absl::Status refused =
      engine_->WarmCache({.prefixes = {{.tokens = RandomPrompt(5, 64)}},
                          .sink = std::make_shared<RecordingWarm>()});
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(VersionWarmupTest, TheEndOfTheEngineEndsWhatIsUnderWay) {
  Start();
  std::vector<std::shared_ptr<RecordingWarm>> sinks;
  for (uint64_t i = 0; i < 4; ++i) {
    sinks.push_back(std::make_shared<RecordingWarm>());
    ASSERT_TRUE(
        engine_
            ->WarmCache({.prefixes = {{.tokens = RandomPrompt(i, 1000)}},
                         .sink = sinks.back()})
            .ok());
  }
  engine_.reset();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->status.has_value());
}

}  // namespace
}  // namespace kvasir

// Versions of real files, made beside a serving one, on the engine's threads.

#include "engine/version_loader.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/loop_harness.h"
#include "tests/support/recording_sink.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class RecordingVersion final : public VersionSink {
 public:
  bool OnProgress(const VersionProgress& progress) override {
    last = progress;
    ++reports;
    return !give_up;
  }
  void OnEnd(const absl::Status& end, const VersionInfo& made) override {
    EXPECT_FALSE(status.has_value()) << "ended twice";
    status = end;
    info = made;
    if (on_end) on_end();
    done_.Notify();
  }
  absl::Status Wait() {
    done_.WaitForNotification();
    return *status;
  }

  bool give_up = false;
  std::function<void()> on_end;
  VersionProgress last;
  int reports = 0;
  std::optional<absl::Status> status;
  VersionInfo info;

 private:
  absl::Notification done_;
};

class VersionLoaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = Write("first.gguf", {});
    EngineOptions options;
    options.model_path = path_;
    options.model_name = "tiny";
    options.version_label = "one";
    options.cache_blocks = 128;
    options.thread_count = 1;
    options.hold_weights = [this](int64_t bytes) -> absl::StatusOr<WeightRoom> {
      asked_bytes_.push_back(bytes);
      if (on_hold_) on_hold_();
      if (!hold_status_.ok()) return hold_status_;
      ++held_;
      return WeightRoom(this, [this](const void*) { --held_; });
    };
    auto engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  std::string Write(const std::string& name, const TinyModelOptions& options) {
    const std::string path = TempPath(name);
    EXPECT_TRUE(WriteTinyModel(options, path).ok());
    return path;
  }

  std::shared_ptr<RecordingVersion> Create(const std::string& label,
                                           const std::string& path) {
    auto sink = std::make_shared<RecordingVersion>();
    const absl::Status begun =
        engine_->CreateVersion({.label = label, .path = path, .sink = sink});
    EXPECT_TRUE(begun.ok()) << begun;
    (void)sink->Wait();
    return sink;
  }

  std::vector<TokenId> Generate(const std::vector<TokenId>& prompt,
                                const std::string& label = "",
                                int64_t* cached = nullptr) {
    Request request;
    request.id = std::to_string(next_++);
    request.prompt = prompt;
    request.sampling.temperature = 0;
    request.stopping.max_tokens = 8;
    request.stopping.ignore_eos = true;
    auto version = engine_->Resolve("", label);
    EXPECT_TRUE(version.ok()) << version.status();
    request.version = *std::move(version);
    auto sink = std::make_shared<RecordingSink>();
    EXPECT_TRUE(engine_->Submit(std::move(request), sink).ok());
    sink->WaitUntilFinished();
    EXPECT_TRUE(sink->ok());
    if (cached != nullptr) *cached = sink->accepted->cached_tokens;
    return sink->ids;
  }

  // What hold_weights was asked, what it answers, and what is held.
  std::vector<int64_t> asked_bytes_;
  std::function<void()> on_hold_;
  absl::Status hold_status_;
  std::atomic<int> held_ = 0;

  std::string path_;
  std::unique_ptr<Engine> engine_;
  int next_ = 0;
};

TEST_F(VersionLoaderTest, AnotherRevisionServesBesideTheFirst) {
  const auto prompt = RandomPrompt(1, 70);
  const auto old = Generate(prompt);
  const auto made = Create("two", Write("second.gguf", {.seed = 2}));
  ASSERT_TRUE(made->status->ok()) << *made->status;
  EXPECT_GT(made->reports, 0);
  EXPECT_EQ(made->info.label, "two");
  EXPECT_EQ(made->info.model, "tiny");
  EXPECT_EQ(made->info.state, VersionState::kServing);
  EXPECT_FALSE(made->info.active);
  const auto tried = Generate(prompt, "two");
  EXPECT_NE(tried, old);
  EXPECT_EQ(Generate(prompt), old) << "nobody is moved before the activation";
  ASSERT_TRUE(engine_->ActivateVersion("", "two").ok());
  int64_t cached = 0;
  EXPECT_EQ(Generate(prompt, "", &cached), tried);
  EXPECT_EQ(cached, 64);
  ASSERT_TRUE(engine_->RollBackVersion("").ok());
  EXPECT_EQ(Generate(prompt, "", &cached), old);
  EXPECT_EQ(cached, 64) << "a rollback finds what was there";
}

// PFX-1: a file that is replaced in place is other weights, whatever its name.
TEST_F(VersionLoaderTest, AFileReplacedInPlaceIsAnotherRevision) {
  const auto prompt = RandomPrompt(1, 70);
  const auto old = Generate(prompt);
  ASSERT_TRUE(WriteTinyModel({.seed = 2}, path_).ok());
  EXPECT_EQ(Generate(prompt), old) << "the weights are in memory";
  const auto made = Create("two", path_);
  ASSERT_TRUE(made->status->ok()) << *made->status;
  const std::vector<VersionInfo> versions = engine_->Versions();
  EXPECT_NE(versions[0].weights_digest, versions[1].weights_digest);
  EXPECT_NE(versions[0].fingerprint, versions[1].fingerprint);
  int64_t cached = -1;
  const auto first = Generate(prompt, "two", &cached);
  EXPECT_EQ(cached, 0);
  EXPECT_NE(first, old);
  const auto second = Generate(prompt, "two", &cached);
  EXPECT_EQ(cached, 64);
  EXPECT_EQ(second, first);
}

TEST_F(VersionLoaderTest, TheSameWeightsAreNotKeptTwice) {
  const auto alias = Create("alias", "");
  const auto copy = Create("copy", Write("copy.gguf", {}));
  ASSERT_TRUE(alias->status->ok()) << *alias->status;
  ASSERT_TRUE(copy->status->ok()) << *copy->status;
  const auto revision = (*engine_->Resolve("", ""))->revision();
  EXPECT_EQ((*engine_->Resolve("", "alias"))->revision(), revision);
  EXPECT_EQ((*engine_->Resolve("", "copy"))->revision(), revision);
  EXPECT_EQ(Generate(RandomPrompt(1, 30), "copy"),
            Generate(RandomPrompt(1, 30)));
}

TEST_F(VersionLoaderTest, WhatCannotBeServedLeavesNothingBehind) {
  const auto missing = Create("two", "/nowhere/at/all.gguf");
  EXPECT_FALSE(missing->status->ok());
  EXPECT_THAT(std::string(missing->status->message()),
              HasSubstr("/nowhere/at/all.gguf"));
  const auto wide = Create("two", Write("wide.gguf", {.layer_count = 3}));
  EXPECT_EQ(wide->status->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(wide->status->message()),
              AllOf(StartsWith("model_path: "), HasSubstr("(2 layers of 2"),
                    HasSubstr("found 3 layers of 2")));
  const auto taken = Create("one", "");
  EXPECT_EQ(taken->status->code(), absl::StatusCode::kAlreadyExists);
  const auto nobody = std::make_shared<RecordingVersion>();
  ASSERT_TRUE(engine_->CreateVersion({.model = "other", .sink = nobody}).ok());
  EXPECT_EQ(nobody->Wait().code(), absl::StatusCode::kNotFound);
  const auto given_up = std::make_shared<RecordingVersion>();
  given_up->give_up = true;
  ASSERT_TRUE(engine_->CreateVersion({.path = path_, .sink = given_up}).ok());
  EXPECT_EQ(given_up->Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(engine_->Versions().size(), 1u);
}

// It was found out after the cache had been shrunk for its weights, and all of
// them read.
TEST_F(VersionLoaderTest, AFileOfAnotherShapeCostsNothing) {
  const auto wide = Create("two", Write("wide.gguf", {.layer_count = 3}));
  EXPECT_EQ(wide->status->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(asked_bytes_.empty()) << "no room is made for it";
  EXPECT_EQ(wide->reports, 0) << "nothing was read";
}

TEST_F(VersionLoaderTest, ALabelComesFromTheFingerprintIfNobodyChoseOne) {
  const auto made = Create("", Write("second.gguf", {.seed = 2}));
  ASSERT_TRUE(made->status->ok()) << *made->status;
  EXPECT_THAT(made->info.label, StartsWith("tiny@"));
  EXPECT_THAT(made->info.fingerprint, StartsWith(made->info.label.substr(5)));
}

// Its blocks and its weights go with the last request, and no earlier.
TEST_F(VersionLoaderTest, ADeletedVersionLeavesNothing) {
  Create("two", Write("second.gguf", {.seed = 2}));
  const auto prompt = RandomPrompt(1, 70);
  Generate(prompt);
  ASSERT_TRUE(engine_->ActivateVersion("", "two").ok());
  Generate(prompt);
  const std::weak_ptr<const LoadedModel> weights =
      (*engine_->Resolve("", ""))->revision();
  ASSERT_TRUE(engine_->RollBackVersion("").ok());
  ASSERT_TRUE(engine_->DeleteVersion("", "two").ok());
  while (engine_->Versions().size() > 1 ||
         engine_->Stats().cache.versions[1].state != "retired") {
    absl::SleepFor(absl::Milliseconds(1));
  }
  while (!weights.expired()) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(engine_->Stats().cache.versions[1].blocks, BlockCounts());
  EXPECT_EQ(engine_->DeleteVersion("", "one").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

// RES-1: what is read stays in memory, so somebody has to say that it fits.
TEST_F(VersionLoaderTest, WeightsAreReadOnlyIfThereIsRoom) {
  EXPECT_TRUE(asked_bytes_.empty()) << "the first ones are the cache's to mind";
  const std::string path = Write("second.gguf", {.seed = 2});
  hold_status_ = absl::ResourceExhaustedError("wanted 2, found 1");
  const auto refused = Create("two", path);
  EXPECT_EQ(*refused->status, hold_status_);
  EXPECT_EQ(refused->reports, 0) << "nothing was read";
  EXPECT_EQ(engine_->Versions().size(), 1u);
  hold_status_ = absl::OkStatus();
  EXPECT_TRUE(Create("alias", "")->status->ok());
  EXPECT_EQ(asked_bytes_.size(), 1u) << "an alias takes none";
  int held_while_read = 0;
  on_hold_ = [&] { held_while_read = held_; };
  EXPECT_TRUE(Create("two", path)->status->ok());
  EXPECT_EQ(held_while_read, 0);
  EXPECT_EQ(held_, 0) << "they are in memory, where everybody sees them";
  const std::vector<VersionInfo> versions = engine_->Versions();
  ASSERT_EQ(versions.size(), 3u);
  EXPECT_EQ(versions[1].weight_bytes, versions[0].weight_bytes);
  EXPECT_EQ(versions[1].weights_digest, versions[0].weights_digest);
  // Rows are padded in memory.
  EXPECT_LE(asked_bytes_.back(), versions[2].weight_bytes);
  EXPECT_GT(asked_bytes_.back(), versions[2].weight_bytes * 3 / 4);
  EXPECT_FALSE(
      Create("three", Write("wide.gguf", {.layer_count = 3}))->status->ok());
  EXPECT_EQ(held_, 0);
}

// A client that hears that its call has failed calls again, from where it hears
// it; that is the thread which makes versions.
TEST_F(VersionLoaderTest, WhoHearsOfAnEndMayBeginAnother) {
  auto second = std::make_shared<RecordingVersion>();
  auto first = std::make_shared<RecordingVersion>();
  first->on_end = [&] {
    EXPECT_TRUE(engine_->CreateVersion({.label = "two", .sink = second}).ok());
  };
  ASSERT_TRUE(
      engine_->CreateVersion({.path = "/nowhere.gguf", .sink = first}).ok());
  EXPECT_FALSE(first->Wait().ok());
  EXPECT_TRUE(second->Wait().ok());
  EXPECT_EQ(engine_->Versions().back().label, "two");
}

// C10: a version that is being read is nobody's yet.
TEST_F(VersionLoaderTest, ADrainCallsOffWhatIsBeingRead) {
  on_hold_ = [this] { engine_->BeginDrain(); };
  const auto made = Create("two", Write("second.gguf", {.seed = 2}));
  EXPECT_EQ(made->status->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(made->reports, 0);
  EXPECT_EQ(engine_->Versions().size(), 1u);
  EXPECT_EQ(held_, 0);
  const absl::Status late = engine_->CreateVersion(
      {.label = "three", .sink = std::make_shared<RecordingVersion>()});
  EXPECT_EQ(late.code(), absl::StatusCode::kUnavailable);
}

// One that is too many is told before minutes of reading.
TEST_F(VersionLoaderTest, VersionsAreCountedBeforeTheyAreRead) {
  for (size_t i = 1; i < kMaxResidentVersions; ++i) {
    ASSERT_TRUE(Create(std::to_string(i), "")->status->ok());
  }
  const auto full = Create("more", Write("second.gguf", {.seed = 2}));
  EXPECT_EQ(full->status->code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(full->status->message()), HasSubstr("found 16"));
  EXPECT_TRUE(asked_bytes_.empty());
}

TEST_F(VersionLoaderTest, AnEngineEndsWhileAVersionIsMade) {
  auto sink = std::make_shared<RecordingVersion>();
  ASSERT_TRUE(engine_
                  ->CreateVersion({.label = "two",
                                   .path = Write("second.gguf", {.seed = 2}),
                                   .sink = sink})
                  .ok());
  engine_.reset();
  (void)sink->Wait();  // whatever came of it, it is told
}

}  // namespace
}  // namespace kvasir

// Versions of real files, made beside a serving one, on the engine's threads.

#include "engine/version_loader.h"

#include <cstdint>
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
    done_.Notify();
  }
  absl::Status Wait() {
    done_.WaitForNotification();
    return *status;
  }

  bool give_up = false;
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
  EXPECT_THAT(std::string(wide->status->message()), HasSubstr("bytes"));
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
  EXPECT_TRUE(weights.expired());
  EXPECT_EQ(engine_->Stats().cache.versions[1].blocks, BlockCounts());
  EXPECT_EQ(engine_->DeleteVersion("", "one").status().code(),
            absl::StatusCode::kFailedPrecondition);
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

#include "engine/model_set.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

class ModelSetTest : public ::testing::Test {
 protected:
  ModelSetTest() {
    options_.model_path = Write("set_a.gguf", {});
    options_.model_name = "a";
    options_.cache_blocks = 128;
    options_.thread_count = 1;
  }

  std::string Write(const std::string& name, const TinyModelOptions& options) {
    const std::string path = TempPath(name);
    EXPECT_TRUE(WriteTinyModel(options, path).ok());
    return path;
  }

  static std::vector<TokenId> Generate(Engine& engine, const std::string& model,
                                       int64_t* cached) {
    Request request;
    request.id = model;
    request.prompt = RandomPrompt(1, 70);
    request.sampling.temperature = 0;
    request.stopping.max_tokens = 8;
    request.stopping.ignore_eos = true;
    auto version = engine.Resolve(model, "");
    EXPECT_TRUE(version.ok()) << version.status();
    request.version = *std::move(version);
    auto sink = std::make_shared<RecordingSink>();
    EXPECT_TRUE(engine.Submit(std::move(request), sink).ok());
    sink->WaitUntilFinished();
    EXPECT_TRUE(sink->ok());
    *cached = sink->accepted->cached_tokens;
    return sink->ids;
  }

  EngineOptions options_;
};

TEST_F(ModelSetTest, EachModelIsActiveForItsNameAndAnswersAsAlone) {
  // Two models in one cache: neither may find the other's blocks (C1).
  const std::string second = Write("set_b.gguf", {.seed = 2});
  EngineOptions alone = options_;
  alone.model_path = second;
  alone.model_name = "b";
  int64_t cached = -1;
  std::vector<TokenId> wanted;
  {
    auto engine = Engine::Start(alone);
    ASSERT_TRUE(engine.ok()) << engine.status();
    wanted = Generate(**engine, "b", &cached);
  }
  options_.version_label = "one";
  options_.more_models = {{.name = "b", .path = second}};
  auto engine = Engine::Start(options_);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const std::vector<VersionInfo> versions = (*engine)->Versions();
  ASSERT_EQ(versions.size(), 2u);
  for (const VersionInfo& version : versions) {
    EXPECT_TRUE(version.active) << version.label;
    EXPECT_EQ(version.state, VersionState::kServing);
  }
  EXPECT_EQ(versions[0].label, "one");
  EXPECT_THAT(versions[1].label, StartsWith("b@"));
  EXPECT_EQ(versions[1].path, second);
  const auto first = Generate(**engine, "a", &cached);
  EXPECT_EQ(Generate(**engine, "b", &cached), wanted);
  EXPECT_EQ(cached, 0);
  EXPECT_NE(first, wanted);
  EXPECT_EQ(Generate(**engine, "", &cached), first) << "no name is the first";
  EXPECT_EQ(cached, 64);
  EXPECT_EQ(Generate(**engine, "b", &cached), wanted);
  EXPECT_EQ(cached, 64);
}

TEST_F(ModelSetTest, BlocksOfAnotherShapeEndTheStart) {
  // Whoever reads the line must see which model it is and what differs.
  options_.more_models = {
      {.name = "deep", .path = Write("set_deep.gguf", {.layer_count = 3})}};
  const auto engine = Engine::Start(options_);
  EXPECT_TRUE(absl::IsFailedPrecondition(engine.status())) << engine.status();
  EXPECT_THAT(std::string(engine.status().message()),
              AllOf(StartsWith("more_models: \"deep\": "), HasSubstr("\"a\""),
                    HasSubstr("(2 layers of 2 KV heads of 16, 16 tokens, f16)"),
                    HasSubstr("found 3 layers of 2 KV heads of 16, 16 tokens, "
                              "f16")));
  options_.more_models = {{.name = "", .path = "/nowhere/b.gguf"}};
  EXPECT_THAT(std::string(Engine::Start(options_).status().message()),
              StartsWith("more_models: \"/nowhere/b.gguf\": "));
}

TEST_F(ModelSetTest, TheSameWeightsAreKeptOnce) {
  // Two names for one file: a second copy would be counted off the cache.
  options_.more_models = {
      {.name = "b", .path = options_.model_path},
      {.name = "c", .path = Write("set_c.gguf", {.seed = 2})}};
  const auto models = LoadStartModels(options_);
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->size(), 3u);
  EXPECT_EQ((*models)[0].revision, (*models)[1].revision);
  EXPECT_EQ((*models)[1].name, "b");
  EXPECT_EQ(WeightBytes(*models), (*models)[0].revision->info.weight_bytes +
                                      (*models)[2].revision->info.weight_bytes);
}

TEST_F(ModelSetTest, ProgressIsThatOfAllTogether) {
  // A bar that reaches its end and begins anew says nothing.
  options_.more_models = {{.name = "b", .path = Write("set_b.gguf", {})}};
  double before = 0;
  double last = 0;
  options_.load_progress = [&](int64_t done, int64_t total) {
    last = static_cast<double>(done) / static_cast<double>(total);
    EXPECT_GE(last, before * 0.99);  // files have headers that are not counted
    before = last;
    return true;
  };
  ASSERT_TRUE(LoadStartModels(options_).ok());
  EXPECT_EQ(last, 1);
  int64_t calls = 0;
  options_.load_progress = [&](int64_t, int64_t) { return ++calls < 2; };
  EXPECT_TRUE(absl::IsCancelled(LoadStartModels(options_).status()));
}

TEST_F(ModelSetTest, NamesThatDoNotTellModelsApartAreRefused) {
  const auto refused = [&](std::vector<ModelSource> more) {
    options_.more_models = std::move(more);
    const absl::Status status = CheckEngineOptions(options_);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused({{.name = "a", .path = "x.gguf"}}),
              HasSubstr("\"a\" twice"));
  EXPECT_THAT(refused({{.name = "", .path = "x/a.gguf"}}),
              HasSubstr("\"a\" twice"))
      << "a file's name is a name, too";
  EXPECT_THAT(refused({{.name = "b", .path = ""}}), HasSubstr("path"));
  EXPECT_THAT(refused({{.name = "b\n", .path = "x"}}), HasSubstr("model_name"));
  std::vector<ModelSource> many;
  for (size_t i = 0; i < kMaxStartModels; ++i) {
    many.push_back({.name = std::to_string(i), .path = "x"});
  }
  EXPECT_THAT(refused(many), HasSubstr("at most 16 models, found 17"));
}

// A start of minutes must not end with what its first millisecond could tell.
TEST_F(ModelSetTest, AModelOfAnotherShapeIsNotRead) {
  int64_t most_done = 0;
  options_.load_progress = [&most_done](int64_t done, int64_t) {
    most_done = std::max(most_done, done);
    return true;
  };
  ASSERT_TRUE(LoadStartModels(options_).ok());
  const int64_t first = std::exchange(most_done, 0);
  options_.more_models = {
      {.name = "b", .path = Write("set_wide.gguf", {.layer_count = 3})}};
  const absl::Status refused = LoadStartModels(options_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_EQ(most_done, first);
}

}  // namespace
}  // namespace kvasir

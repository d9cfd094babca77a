// What Submit() makes of a request's sampling parameters.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "tests/support/loop_harness.h"
#include "tests/support/recording_sink.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;

class EngineSamplingTest : public ::testing::Test {
 protected:
  EngineSamplingTest() {
    EngineOptions options;
    options.model_path = TempPath("tiny.gguf");
    EXPECT_TRUE(WriteTinyModel({}, options.model_path).ok());
    options.cache_blocks = 64;
    options.context_limit = 256;
    options.thread_count = 1;
    auto engine = Engine::Start(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }

  absl::Status Submit(SamplingParams sampling,
                      std::shared_ptr<RecordingSink> sink) {
    Request request;
    request.id = std::to_string(next_id_++);
    request.prompt = RandomPrompt(1, 20);
    request.sampling = std::move(sampling);
    request.stopping = {.max_tokens = 60, .ignore_eos = true};
    return engine_->Submit(std::move(request), std::move(sink));
  }

  std::vector<TokenId> Generate(SamplingParams sampling) {
    const auto sink = std::make_shared<RecordingSink>();
    const absl::Status status = Submit(std::move(sampling), sink);
    EXPECT_TRUE(status.ok()) << status;
    if (status.ok()) sink->WaitUntilFinished();
    return sink->ids;
  }

  std::string Refusal(SamplingParams sampling) {
    const absl::Status status =
        Submit(std::move(sampling), std::make_shared<RecordingSink>());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  std::unique_ptr<Engine> engine_;
  int next_id_ = 0;
};

// The lists reach the sampler through one set, which Submit() makes.
TEST_F(EngineSamplingTest, DrawsWhatIsAllowedAndNotBanned) {
  for (const float temperature : {0.0f, 2.0f}) {
    EXPECT_THAT(Generate({.temperature = temperature,
                          .allowed_ids = {40, 41, 42},
                          .banned_ids = {41}}),
                Each(AnyOf(40, 42)));
    EXPECT_THAT(Generate({.temperature = temperature,
                          .logit_bias = {{50, 100}, {51, 100}},
                          .banned_ids = {50}}),
                Each(51));
  }
  EXPECT_THAT(Generate({.temperature = 2}), Contains(testing::Gt(60)))
      << "one request's lists are not another's";
}

// Nothing to draw would end the daemon at the first token.
TEST_F(EngineSamplingTest, RefusesARequestThatLeavesNothingToDraw) {
  EXPECT_THAT(Refusal({.allowed_ids = {40}, .banned_ids = {40}}),
              HasSubstr("sampling.allowed_token_ids: wanted a token"));
  EXPECT_THAT(Refusal({.typical_p = 0}), HasSubstr("sampling.typical_p"));
  EXPECT_EQ(engine_->Stats().rejected_invalid, 2);
}

}  // namespace
}  // namespace kvasir

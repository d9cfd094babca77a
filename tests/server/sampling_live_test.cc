// FIELD_CASES SAM-3: sampling settings and log-probabilities, on a server with
// a real engine.

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "server/generation_backend.h"
#include "tests/server/live_server.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using testing::StartsWith;

class SamplingLiveTest : public testing::Test {
 protected:
  void SetUp() override {
    EngineOptions options;
    options.model_name = "tiny";
    options.model_path = TempPath("sampling_live_tiny.gguf");
    ASSERT_TRUE(WriteTinyModel({}, options.model_path).ok());
    options.context_limit = 256;
    options.cache_blocks = 64;
    options.thread_count = 1;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    live_ = std::make_unique<LiveServer>();
    live_->server().Serve(MakeEngineBackend(*std::move(engine)));
  }

  static v1::GenerateRequest Ask() {
    v1::GenerateRequest request;
    request.set_text("The old harbour");
    request.mutable_sampling()->set_seed(8);
    request.mutable_stopping()->set_max_tokens(1);
    request.mutable_stopping()->set_ignore_eos(true);
    request.mutable_output()->set_logprobs(5);
    request.mutable_output()->set_return_token_ids(true);
    return request;
  }

  std::unique_ptr<LiveServer> live_;
};

// They are of the model: temperature and filters change the token, not them.
TEST_F(SamplingLiveTest, LogprobsAreThoseOfTheModelInAllSettings) {
  v1::GenerateRequest greedy = Ask();
  greedy.mutable_sampling()->set_temperature(0);
  const LiveServer::Result likeliest = live_->Generate(greedy);
  ASSERT_TRUE(likeliest.status.ok()) << likeliest.status.error_message();
  ASSERT_EQ(likeliest.finished().logprobs_size(), 1);
  const v1::PositionLogprobs& want = likeliest.finished().logprobs(0);
  ASSERT_EQ(want.top_size(), 5);
  EXPECT_EQ(want.chosen().rank(), 1);
  double total = 0;
  for (const v1::Logprob& one : want.top()) {
    EXPECT_TRUE(std::isfinite(one.logprob()));
    total += std::exp(double{one.logprob()});
  }
  EXPECT_LE(total, 1);
  for (const float temperature : {0.0f, 1e-4f, 0.5f, 2.0f, 100.0f}) {
    for (const float top_p : {1e-4f, 0.9f, 1.0f}) {
      for (const int top_k : {1, 5, 1000000000}) {
        for (const float min_p : {0.0f, 0.1f, 1.0f}) {
          SCOPED_TRACE(
              absl::StrCat(temperature, " ", top_p, " ", top_k, " ", min_p));
          v1::GenerateRequest request = Ask();
          request.mutable_sampling()->set_temperature(temperature);
          request.mutable_sampling()->set_top_p(top_p);
          request.mutable_sampling()->set_top_k(top_k);
          request.mutable_sampling()->set_min_p(min_p);
          const LiveServer::Result result = live_->Generate(request);
          ASSERT_TRUE(result.status.ok()) << result.status.error_message();
          const v1::PositionLogprobs& found = result.finished().logprobs(0);
          ASSERT_EQ(found.top_size(), 5);
          for (int i = 0; i < 5; ++i) {
            EXPECT_EQ(found.top(i).token_id(), want.top(i).token_id());
            EXPECT_EQ(found.top(i).logprob(), want.top(i).logprob());
          }
          EXPECT_TRUE(std::isfinite(found.chosen().logprob()));
          if (temperature <= 1e-4f || top_k == 1 || min_p == 1 ||
              top_p == 1e-4f) {
            EXPECT_EQ(result.ids(), likeliest.ids());
          }
        }
      }
    }
  }
}

TEST_F(SamplingLiveTest, InvalidSettingsAreRefusedByName) {
  const auto refused = [this](const char* path, auto set) {
    v1::GenerateRequest request = Ask();
    set(*request.mutable_sampling());
    const LiveServer::Result result = live_->Generate(request);
    EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT);
    EXPECT_THAT(result.status.error_message(),
                StartsWith(absl::StrCat("sampling.", path, ":")));
  };
  for (const float value : {-1.0f, std::nanf("")}) {
    refused("temperature", [=](auto& s) { s.set_temperature(value); });
  }
  for (const float value : {0.0f, -1.0f, 2.0f}) {
    refused("top_p", [=](auto& s) { s.set_top_p(value); });
  }
  refused("min_p", [](auto& s) { s.set_min_p(2); });
  refused("typical_p", [](auto& s) { s.set_typical_p(0); });
  refused("repetition_penalty", [](auto& s) { s.set_repetition_penalty(0); });
}

// A setting that reached nobody would go unnoticed in the tests of the sampler.
TEST_F(SamplingLiveTest, EachSettingChangesWhatIsDrawn) {
  const auto ids = [this](auto set) {
    v1::GenerateRequest request = Ask();
    request.mutable_output()->clear_logprobs();
    request.mutable_stopping()->set_max_tokens(60);
    request.mutable_sampling()->set_temperature(1.5f);
    set(*request.mutable_sampling());
    const LiveServer::Result result = live_->Generate(request);
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    return result.ids();
  };
  const std::vector<uint32_t> plain = ids([](auto& s) {});
  EXPECT_EQ(plain.size(), 60u);
  EXPECT_EQ(ids([](auto& s) {}), plain);
  EXPECT_NE(ids([](auto& s) { s.set_temperature(1); }), plain);
  EXPECT_NE(ids([](auto& s) { s.set_top_k(3); }), plain);
  EXPECT_NE(ids([](auto& s) { s.set_top_p(0.5f); }), plain);
  EXPECT_NE(ids([](auto& s) { s.set_min_p(0.5f); }), plain);
  EXPECT_NE(ids([](auto& s) { s.set_typical_p(0.3f); }), plain);
  EXPECT_NE(ids([](auto& s) { s.set_seed(9); }), plain);
  EXPECT_NE(ids([](auto& s) { s.set_frequency_penalty(-2); }), plain);
  EXPECT_NE(ids([](auto& s) { s.set_presence_penalty(-2); }), plain);
  const auto repeated = ids([](auto& s) { s.set_repetition_penalty(0.3f); });
  EXPECT_NE(repeated, plain);
  EXPECT_NE(ids([](auto& s) {
              s.set_repetition_penalty(0.3f);
              s.set_penalty_window(2);
            }),
            repeated);
  EXPECT_EQ(ids([](auto& s) { (*s.mutable_logit_bias())[70] = 100; }),
            std::vector<uint32_t>(60, 70));
  EXPECT_EQ(ids([](auto& s) { s.add_allowed_token_ids(70); }),
            std::vector<uint32_t>(60, 70));
  EXPECT_NE(ids([&](auto& s) { s.add_banned_token_ids(plain[0]); }), plain);
}

}  // namespace
}  // namespace kvasir

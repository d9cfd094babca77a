// FIELD_CASES SAM-1: token ids from clients, on a server with a real engine.

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
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

using testing::HasSubstr;
using testing::StartsWith;

struct Field {
  std::string path;  // what a refusal begins with
  std::function<void(v1::GenerateRequest&, uint32_t id)> add;
};

const std::vector<Field>& Fields() {
  static const auto* const fields = new std::vector<Field>{
      {"token_ids.ids",
       [](auto& request, uint32_t id) {
         request.mutable_token_ids()->add_ids(id);
       }},
      {"stopping.token_ids",
       [](auto& request, uint32_t id) {
         request.mutable_stopping()->add_token_ids(id);
       }},
      {"sampling.logit_bias",
       [](auto& request, uint32_t id) {
         (*request.mutable_sampling()->mutable_logit_bias())[id] = 1;
       }},
      {"sampling.allowed_token_ids",
       [](auto& request, uint32_t id) {
         request.mutable_sampling()->add_allowed_token_ids(id);
       }},
      {"sampling.banned_token_ids",
       [](auto& request, uint32_t id) {
         request.mutable_sampling()->add_banned_token_ids(id);
       }},
      {"output.logprob_token_ids", [](auto& request, uint32_t id) {
         request.mutable_output()->set_logprobs(1);
         request.mutable_output()->add_logprob_token_ids(id);
       }}};
  return *fields;
}

v1::GenerateRequest Ask(const std::string& text, int max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  request.set_stream(true);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_max_tokens(max_tokens);
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_output()->set_return_token_ids(true);
  return request;
}

class TokenIdsLiveTest : public testing::Test {
 protected:
  void Start(const TinyModelOptions& model) {
    EngineOptions options;
    options.model_name = "tiny";
    options.model_path = TempPath("token_ids_tiny.gguf");
    ASSERT_TRUE(WriteTinyModel(model, options.model_path).ok());
    options.context_limit = 2048;
    options.cache_blocks = 512;
    options.thread_count = 1;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    live_ = std::make_unique<LiveServer>();
    live_->server().Serve(MakeEngineBackend(*std::move(engine)));
  }

  void ExpectRefused(const v1::GenerateRequest& request,
                     const std::string& path) {
    const LiveServer::Result result = live_->Generate(request);
    EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT)
        << path << ": " << result.status.error_message();
    EXPECT_THAT(result.status.error_message(), StartsWith(path));
    EXPECT_TRUE(result.messages.empty());
  }

  // Of each field, an id that has no logit, lists that are too long and biases
  // that are no numbers. `width` is that of the logits.
  void RefuseAll(uint32_t width) {
    for (const Field& field : Fields()) {
      for (const uint32_t id :
           {width, width + 5, 1u << 31, std::numeric_limits<uint32_t>::max()}) {
        v1::GenerateRequest request = Ask("x", 1);
        field.add(request, 5);
        field.add(request, id);
        ExpectRefused(request, field.path);
      }
      if (field.path == "token_ids.ids") continue;  // has the context's limit
      v1::GenerateRequest request = Ask("x", 1);
      for (uint32_t i = 0; i < 5000; ++i) field.add(request, i % 100 + i);
      ExpectRefused(request, field.path);
    }
    for (const float bias : {std::nanf(""), INFINITY, -INFINITY, 101.0f}) {
      v1::GenerateRequest request = Ask("x", 1);
      (*request.mutable_sampling()->mutable_logit_bias())[7] = bias;
      ExpectRefused(request, "sampling.logit_bias");
    }
  }

  std::unique_ptr<LiveServer> live_;
};

// Streams that run meanwhile end as they do alone.
TEST_F(TokenIdsLiveTest, BadIdsAreRefusedByNameAndTouchNoStream) {
  Start({});
  constexpr int kTokens = 1500;
  const v1::GenerateRequest asks[] = {Ask("The old harbour", kTokens),
                                      Ask("alpha beta", kTokens)};
  std::vector<std::vector<uint32_t>> alone, beside(2);
  for (const auto& ask : asks) alone.push_back(live_->Generate(ask).ids());
  std::vector<std::thread> streams;
  for (size_t i = 0; i < 2; ++i) {
    streams.emplace_back(
        [&, i] { beside[i] = live_->Generate(asks[i]).ids(); });
  }
  grpc::ClientContext context;
  v1::GetModelResponse model;
  ASSERT_TRUE(live_->inference().GetModel(&context, {}, &model).ok());
  RefuseAll(static_cast<uint32_t>(model.model().vocab_size()));
  for (std::thread& stream : streams) stream.join();
  ASSERT_EQ(alone[0].size(), static_cast<size_t>(kTokens));
  EXPECT_EQ(beside, alone);
}

// Ids with a logit but no token, and ids with a token but no logit, both.
TEST_F(TokenIdsLiveTest, VocabularyAndLogitsMayDifferInWidth) {
  Start({.token_count = 300, .embedding_rows = 384});
  for (const Field& field : Fields()) {
    for (const uint32_t id : {300u, 383u, 384u, 389u}) {
      v1::GenerateRequest request = Ask("x", 1);
      field.add(request, 5);
      field.add(request, id);
      const LiveServer::Result result = live_->Generate(request);
      EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT)
          << field.path << " " << id;
      EXPECT_THAT(
          result.status.error_message(),
          HasSubstr(field.path == "token_ids.ids" ? "token_ids" : field.path));
    }
  }
}

// A negative id and one beyond 64 bits come as other numbers, or as no message.
TEST_F(TokenIdsLiveTest, IdsThatTheWireCannotHoldAreRefused) {
  Start({});
  const auto status = [this](const std::string& bytes) {
    return live_->CallWithBytes("kvasir.v1.Inference/Generate", bytes);
  };
  // token_ids { ids: -1 } as a 64-bit varint, which becomes 2^32 - 1.
  const std::string minus_one =
      "\x22\x0c\x0a\x0a" + std::string(9, '\xFF') + std::string("\x01", 1);
  EXPECT_EQ(status(minus_one).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status(minus_one).error_message(), StartsWith("token_ids.ids"));
  // logit_bias { key: "seven" }: a text where a number is to be.
  const std::string text_key = "\x32\x09\x5a\x07\x0a\x05seven";
  EXPECT_EQ(status(text_key).error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status(text_key).error_message(), StartsWith("sampling"));
}

}  // namespace
}  // namespace kvasir

#include "server/request_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/model/utf8.h"
#include "server/chat_codec.h"
#include "server/retention_codec.h"
#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class RequestCodecTest : public testing::Test {
 protected:
  RequestCodecTest()
      : tokenizer_(MakeTinyTokenizer()), info_(MakeTinyInfo(*tokenizer_)) {
    context_.request_id = "r1";
    context_.random_seed = 77;
    context_.now = absl::Seconds(100);
    wire_.set_text("The old");
  }

  absl::StatusOr<GenerateCall> Decode() {
    const auto version = MakeTinyVersion(tokenizer_, info_);
    ServedModel model = ModelOf(*version);
    model.cache_limits_context = cache_limits_context_;
    return DecodeGenerate(wire_, context_, model);
  }

  // The code, and a message that names the field, what was wanted and found.
  void ExpectRefused(absl::StatusCode code, const std::string& field,
                     const std::string& wanted, const std::string& found) {
    const absl::Status status = Decode().status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(testing::StartsWith(field), HasSubstr(wanted), HasSubstr(found)));
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  ModelInfo info_;
  bool cache_limits_context_ = false;
  CallContext context_;
  v1::GenerateRequest wire_;
};

TEST_F(RequestCodecTest, DefaultsSampleTheModelsDistribution) {
  const absl::StatusOr<GenerateCall> call = Decode();
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->request.id, "r1");
  EXPECT_EQ(call->request.prompt, tokenizer_->Encode("The old", true));
  EXPECT_EQ(call->request.sampling.temperature, 1.0f);
  EXPECT_EQ(call->request.sampling.top_p, 1.0f);
  EXPECT_EQ(call->request.sampling.top_k, 0);
  EXPECT_EQ(call->request.sampling.seed, 77u) << "drawn, since none is given";
  EXPECT_EQ(call->request.stopping.max_tokens, 0)
      << "until the context is full";
  EXPECT_TRUE(call->request.cache.read);
  EXPECT_TRUE(call->request.cache.write);
  EXPECT_TRUE(call->request.skip_special_tokens);
  EXPECT_EQ(call->request.deadline, absl::InfiniteDuration());
  EXPECT_FALSE(call->stream);
  EXPECT_TRUE(call->return_text);
  EXPECT_FALSE(call->return_token_ids);
  EXPECT_EQ(call->stream_interval, 1);
}

TEST_F(RequestCodecTest, CarriesEverySetting) {
  wire_.set_stream(true);
  auto& sampling = *wire_.mutable_sampling();
  sampling.set_temperature(0);
  sampling.set_top_p(0.5f);
  sampling.set_min_p(0.25f);
  sampling.set_top_k(3);
  sampling.set_seed(0);
  wire_.mutable_stopping()->set_max_tokens(9);
  wire_.mutable_stopping()->add_token_ids(5);
  wire_.mutable_stopping()->set_ignore_eos(true);
  auto& output = *wire_.mutable_output();
  output.set_return_text(false);
  output.set_skip_special_tokens(false);
  wire_.set_stream(true);
  output.set_stream_interval(4);
  output.set_usage_every_chunk(true);
  output.set_timings(true);
  wire_.mutable_cache()->set_salt("tenant");
  wire_.mutable_cache()->set_version(info_.cache_version);
  const absl::StatusOr<GenerateCall> call = Decode();
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_TRUE(call->stream);
  EXPECT_EQ(call->request.sampling.temperature, 0);
  EXPECT_EQ(call->request.sampling.top_p, 0.5f);
  EXPECT_EQ(call->request.sampling.min_p, 0.25f);
  EXPECT_EQ(call->request.sampling.top_k, 3);
  EXPECT_EQ(call->request.sampling.seed, 0u) << "0 is a seed like any other";
  EXPECT_EQ(call->request.stopping.max_tokens, 9);
  EXPECT_THAT(call->request.stopping.token_ids, ElementsAre(5));
  EXPECT_TRUE(call->request.stopping.ignore_eos);
  EXPECT_FALSE(call->return_text);
  EXPECT_TRUE(call->return_token_ids) << "without text there must be ids";
  EXPECT_FALSE(call->request.skip_special_tokens);
  EXPECT_EQ(call->stream_interval, 4);
  EXPECT_TRUE(call->usage_every_chunk);
  EXPECT_TRUE(call->timings);
  EXPECT_EQ(call->request.cache.salt, "tenant");
}

TEST_F(RequestCodecTest, TokenIdsAreUsedAsTheyAre) {
  wire_.mutable_token_ids()->add_ids(7);
  wire_.mutable_token_ids()->add_ids(8);
  const absl::StatusOr<GenerateCall> call = Decode();
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_THAT(call->request.prompt, ElementsAre(7, 8));
}

TEST_F(RequestCodecTest, ChatBecomesTheModelsFormat) {
  auto& message = *wire_.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("<|im_end|>");
  const absl::StatusOr<GenerateCall> call = Decode();
  ASSERT_TRUE(call.ok()) << call.status();
  // Start, "user", and the answer's opening; the user's text ends nothing.
  EXPECT_EQ(call->request.prompt.front(), 1);
  EXPECT_EQ(
      std::count(call->request.prompt.begin(), call->request.prompt.end(), 1),
      2);
  EXPECT_EQ(
      std::count(call->request.prompt.begin(), call->request.prompt.end(), 2),
      1);
  wire_.mutable_chat()->set_add_generation_prompt(false);
  EXPECT_LT(Decode()->request.prompt.size(), call->request.prompt.size());
}

TEST_F(RequestCodecTest, CacheModes) {
  wire_.mutable_cache()->set_mode(v1::CACHE_MODE_READ_ONLY);
  EXPECT_TRUE(Decode()->request.cache.read);
  EXPECT_FALSE(Decode()->request.cache.write);
  wire_.mutable_cache()->set_mode(v1::CACHE_MODE_BYPASS);
  EXPECT_FALSE(Decode()->request.cache.read);
  EXPECT_FALSE(Decode()->request.cache.write);
  wire_.mutable_cache()->set_store_completion(false);
  EXPECT_TRUE(Decode().ok()) << "nothing is stored anyway";
  wire_.mutable_cache()->set_store_completion(true);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "cache.store_completion",
                "false", "true");
  wire_.mutable_cache()->set_mode(v1::CACHE_MODE_READ_WRITE);
  EXPECT_TRUE(Decode().ok());
  wire_.mutable_cache()->set_store_completion(false);
  EXPECT_TRUE(absl::IsUnimplemented(Decode().status()));
  wire_.mutable_cache()->Clear();
  wire_.mutable_cache()->set_mode(static_cast<v1::CacheMode>(9));
  ExpectRefused(absl::StatusCode::kInvalidArgument, "cache.mode", "READ_ONLY",
                "9");
}

TEST_F(RequestCodecTest, CacheRetention) {
  EXPECT_FALSE(Decode()->request.cache.retention.has_value());
  v1::CacheOptions& cache = *wire_.mutable_cache();
  cache.set_retention(v1::RETENTION_HIGH);
  EXPECT_EQ(Decode()->request.cache.retention,
            Retention{.priority = kHighPriority});
  cache.set_priority(0);
  cache.mutable_ttl()->set_seconds(60);
  EXPECT_EQ(Decode()->request.cache.retention,
            (Retention{.priority = 0, .ttl = absl::Seconds(60)}));
  cache.set_mode(v1::CACHE_MODE_READ_ONLY);
  EXPECT_TRUE(Decode().ok()) << "what it finds may be kept longer";
  cache.set_mode(v1::CACHE_MODE_BYPASS);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "cache.mode", "READ_ONLY",
                "BYPASS");
  cache.clear_priority();
  cache.clear_ttl();
  cache.set_retention(v1::RETENTION_NORMAL);
  EXPECT_TRUE(Decode().ok()) << "the neutral value";
}

TEST_F(RequestCodecTest, CacheRetentionRefusalsAreNamed) {
  v1::CacheOptions& cache = *wire_.mutable_cache();
  cache.set_priority(101);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "cache.priority",
                "0 to 100", "101");
  cache.set_priority(-1);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "cache.priority",
                "0 to 100", "-1");
  cache.set_priority(100);
  cache.mutable_ttl();
  ExpectRefused(absl::StatusCode::kInvalidArgument, "cache.ttl", "above 0",
                "0 s");
  cache.clear_ttl();
  cache.set_retention(v1::RETENTION_PINNED);
  ExpectRefused(absl::StatusCode::kUnimplemented, "cache.retention", "pin",
                "PINNED");
  cache.set_retention(static_cast<v1::Retention>(9));
  ExpectRefused(absl::StatusCode::kInvalidArgument, "cache.retention",
                "EPHEMERAL", "9");
  cache.clear_retention();
  cache.add_breakpoints();
  EXPECT_TRUE(absl::IsUnimplemented(Decode().status()));
}

// max_time ends with what there is, the call's deadline with an error.
TEST_F(RequestCodecTest, MaxTimeAndDeadlineAreTwoThings) {
  context_.deadline = absl::Seconds(110);
  wire_.mutable_max_time()->set_seconds(5);
  EXPECT_EQ(Decode()->request.deadline, absl::Seconds(110));
  EXPECT_EQ(Decode()->request.time_limit, absl::Seconds(105));
  wire_.mutable_max_time()->set_seconds(0);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "max_time", "above 0",
                "0 s");
  wire_.mutable_max_time()->set_seconds(-3);
  EXPECT_TRUE(absl::IsInvalidArgument(Decode().status()));
  wire_.mutable_max_time()->set_seconds(std::numeric_limits<int64_t>::max());
  EXPECT_TRUE(absl::IsInvalidArgument(Decode().status()));
}

TEST_F(RequestCodecTest, MissingPrompt) {
  wire_.clear_text();
  ExpectRefused(absl::StatusCode::kInvalidArgument, "prompt",
                "text, token_ids or chat", "none");
}

TEST_F(RequestCodecTest, ChatWithoutMessages) {
  wire_.mutable_chat();
  EXPECT_THAT(std::string(Decode().status().message()),
              testing::StartsWith("chat.messages: wanted"));
}

// SAM-1: ids come from outside, and the engine indexes by them.
TEST_F(RequestCodecTest, TokenIdsOutOfTheVocabularyAreNamed) {
  for (const uint32_t bad :
       {static_cast<uint32_t>(info_.vocab_size), uint32_t{1} << 31,
        std::numeric_limits<uint32_t>::max()}) {
    wire_.mutable_token_ids()->Clear();
    wire_.mutable_token_ids()->add_ids(3);
    wire_.mutable_token_ids()->add_ids(bad);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "token_ids.ids[1]",
                  std::to_string(info_.vocab_size), std::to_string(bad));
    wire_.set_text("x");
    wire_.mutable_stopping()->clear_token_ids();
    wire_.mutable_stopping()->add_token_ids(bad);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "stopping.token_ids[0]",
                  std::to_string(info_.vocab_size), std::to_string(bad));
    wire_.mutable_stopping()->clear_token_ids();
  }
}

TEST_F(RequestCodecTest, SamplingOutOfRangeIsNamed) {
  struct Case {
    const char* field;
    void (*set)(v1::SamplingParams&);
  };
  const Case cases[] = {
      {"sampling.temperature", [](auto& s) { s.set_temperature(-1); }},
      {"sampling.temperature", [](auto& s) { s.set_temperature(NAN); }},
      {"sampling.temperature", [](auto& s) { s.set_temperature(INFINITY); }},
      {"sampling.top_p", [](auto& s) { s.set_top_p(0); }},
      {"sampling.top_p", [](auto& s) { s.set_top_p(-1); }},
      {"sampling.top_p", [](auto& s) { s.set_top_p(2); }},
      {"sampling.top_p", [](auto& s) { s.set_top_p(NAN); }},
      {"sampling.min_p", [](auto& s) { s.set_min_p(2); }},
      {"sampling.min_p", [](auto& s) { s.set_min_p(-0.1f); }},
      {"sampling.top_k", [](auto& s) { s.set_top_k(-1); }},
  };
  for (const Case& c : cases) {
    wire_.clear_sampling();
    c.set(*wire_.mutable_sampling());
    ExpectRefused(absl::StatusCode::kInvalidArgument, c.field, "wanted",
                  "found");
  }
}

TEST_F(RequestCodecTest, Limits) {
  wire_.mutable_stopping()->set_max_tokens(0);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "stopping.max_tokens",
                "at least 1", "0");
  wire_.mutable_stopping()->clear_max_tokens();
  for (int i = 0; i <= kMaxStopTokens; ++i) {
    wire_.mutable_stopping()->add_token_ids(1);
  }
  ExpectRefused(absl::StatusCode::kInvalidArgument, "stopping.token_ids", "64",
                "65");
  wire_.clear_stopping();
  wire_.mutable_output()->set_stream_interval(kMaxStreamInterval + 1);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "output.stream_interval",
                "1024", "1025");
  wire_.mutable_output()->set_stream_interval(-1);
  EXPECT_FALSE(Decode().ok());
  wire_.clear_output();
  // What asks for a stream's manner without a stream is a mistake.
  for (const int32_t interval : {1, 2}) {
    wire_.mutable_output()->set_stream_interval(interval);
    ExpectRefused(absl::StatusCode::kInvalidArgument, "output.stream_interval",
                  "stream beside it", "stream = false");
  }
  wire_.clear_output();
  wire_.mutable_output()->set_usage_every_chunk(true);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "output.usage_every_chunk",
                "stream beside it", "stream = false");
  wire_.clear_output();
  wire_.mutable_output()->set_progress(true);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "output.progress",
                "stream beside it", "stream = false");
  wire_.clear_output();
  wire_.mutable_cache()->set_salt(std::string(kMaxSaltBytes + 1, 's'));
  ExpectRefused(absl::StatusCode::kInvalidArgument, "cache.salt", "1024",
                "1025");
  wire_.clear_cache();
  wire_.set_text(std::string(kMaxPromptBytes + 1, 'a'));
  ExpectRefused(absl::StatusCode::kInvalidArgument, "text", "4194304",
                "4194305");
  for (int i = 0; i <= kMaxChatMessages; ++i) {
    wire_.mutable_chat()->add_messages()->set_role("user");
  }
  ExpectRefused(absl::StatusCode::kInvalidArgument, "chat.messages", "4096",
                "4097");
}

// A text far over the context must not be tokenised first: that is seconds of a
// gRPC thread for nothing.
TEST_F(RequestCodecTest, HopelesslyLongTextIsRefusedByItsBytes) {
  wire_.set_text(std::string(1 << 20, 'a'));
  ExpectRefused(absl::StatusCode::kInvalidArgument, "prompt",
                "at most 255 tokens", "1048576 bytes");
}

// Whatever finds that a chat is too long names the chat: its bytes, its tokens,
// or what truncation has left of it.
TEST_F(RequestCodecTest, ChatThatIsTooLongIsRefusedByItsName) {
  v1::ChatMessage& message = *wire_.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content(std::string(1 << 20, 'a'));
  ExpectRefused(absl::StatusCode::kInvalidArgument, "chat: wanted",
                "at most 255 tokens", "found a text of");
  message.set_content(std::string(300, '\x01'));
  ExpectRefused(absl::StatusCode::kInvalidArgument, "chat: wanted",
                "at most 255 tokens", "found 3");
  wire_.mutable_output()->set_truncate_prompt_tokens(1000);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "chat: wanted",
                "at most 255 tokens", "found 3");
  cache_limits_context_ = true;
  ExpectRefused(absl::StatusCode::kResourceExhausted, "chat: wanted",
                "at most 255 tokens", "a KV cache of");
}

TEST_F(RequestCodecTest, IdsAndPartsAreWorkAsTextIs) {
  EXPECT_EQ(WorkBytes(wire_), 7u);
  wire_.mutable_token_ids()->mutable_ids()->Resize(1000, 1);
  EXPECT_EQ(WorkBytes(wire_), 4000u);
  wire_.mutable_chat()->add_messages();
  EXPECT_EQ(WorkBytes(wire_), kWorkBytesOfPart);
}

// Ids are four bytes each here and one on the wire; the first that is bad would
// be found only after all were copied.
TEST_F(RequestCodecTest, TooManyIdsAreRefusedBeforeTheyAreRead) {
  wire_.mutable_token_ids()->mutable_ids()->Resize(255, 1);
  EXPECT_TRUE(Decode().ok()) << Decode().status();
  wire_.mutable_token_ids()->add_ids(1u << 31);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "prompt",
                "at most 255 tokens", "256");
}

// A shorter text of the same fault is refused by the engine, with this code.
TEST_F(RequestCodecTest, PromptOverTheCacheIsNoFaultOfTheRequest) {
  cache_limits_context_ = true;
  wire_.set_text(std::string(1 << 20, 'a'));
  ExpectRefused(absl::StatusCode::kResourceExhausted, "prompt",
                "a KV cache of 256", "1048576 bytes");
  wire_.mutable_token_ids()->mutable_ids()->Resize(256, 1);
  ExpectRefused(absl::StatusCode::kResourceExhausted, "prompt",
                "a KV cache of 256", "found 256");
}

TEST(ChooseRequestIdTest, MessageThenMetadataThenOurs) {
  EXPECT_EQ(*ChooseRequestId("a", "b", "c"), "a");
  EXPECT_EQ(*ChooseRequestId("", "b", "c"), "b");
  EXPECT_EQ(*ChooseRequestId("", "", "c"), "c");
}

// Ids go to logs, trailers and error messages.
TEST(ChooseRequestIdTest, RefusesWhatIsNotVisibleAscii) {
  for (const std::string& bad :
       {std::string("a b"), std::string("a\n"), std::string("\xc3\xa9"),
        std::string(1, '\0'), std::string(kMaxRequestIdBytes + 1, 'x')}) {
    const absl::Status status = ChooseRequestId(bad, "", "c").status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad;
    EXPECT_THAT(std::string(status.message()),
                testing::StartsWith("request_id: wanted"));
  }
  EXPECT_TRUE(
      ChooseRequestId(std::string(kMaxRequestIdBytes, 'x'), "", "").ok());
  EXPECT_FALSE(ChooseRequestId("", "b c", "c").ok());
}

}  // namespace
}  // namespace kvasir

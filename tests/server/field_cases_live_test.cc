// Cases of FIELD_CASES that need a real engine behind the wire and tokens that
// a test chooses.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "engine/model/utf8.h"
#include "server/generation_backend.h"
#include "tests/server/live_server.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

// One token of TINY's vocabulary per byte.
std::vector<TokenId> TokensOf(const std::string& text) {
  std::vector<TokenId> ids;
  for (const char byte : text) ids.push_back(3 + static_cast<uint8_t>(byte));
  return ids;
}

class FieldCasesLiveTest : public testing::Test {
 protected:
  // The tokens that are generated, whatever is asked; none: those of TINY.
  void Start(std::vector<TokenId> script = {}) {
    EngineOptions options;
    options.model_name = "tiny";
    options.context_limit = 2048;
    options.cache_blocks = 400;
    options.thread_count = 1;
    options.model_path = TempPath("field_cases_tiny.gguf");
#if KVASIR_TEST_HOOKS
    options.test_hooks.script = std::move(script);
#else
    if (!script.empty()) GTEST_SKIP() << "built without test hooks";
#endif
    const absl::Status written = WriteTinyModel({}, options.model_path);
    ASSERT_TRUE(written.ok()) << written;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    live_ = std::make_unique<LiveServer>();
    live_->server().Serve(MakeEngineBackend(*std::move(engine)));
  }

  v1::CacheStats Idle() {
    EXPECT_TRUE(Eventually([this] {
      const v1::CacheStats stats = live_->Stats();
      return stats.running_count() + stats.waiting_count() == 0 &&
             stats.tiers(0).pinned_blocks() == 0;
    }));
    grpc::ClientContext context;
    v1::FlushCacheResponse answer;
    EXPECT_TRUE(live_->admin().FlushCache(&context, {}, &answer).ok());
    return live_->Stats();
  }

  std::unique_ptr<LiveServer> live_;
};

// LEAK-3: a cancel ends every sequence that the call has started, also when one
// of them has ended by itself already.
TEST_F(FieldCasesLiveTest, ACancelEndsAllSequences) {
  Start();
  for (int round = 0; round < 50; ++round) {
    v1::GenerateRequest request;
    request.set_text("The old harbour was quiet in the early morning");
    request.set_stream(true);
    request.mutable_sampling()->set_n(4);
    request.mutable_sampling()->set_seed(round);
    request.mutable_stopping()->set_ignore_eos(true);
    request.mutable_stopping()->set_max_tokens(800);
    request.mutable_output()->set_return_token_ids(true);
    if (round % 2 == 1) {
      // The first token of one of them ends it.
      v1::GenerateRequest probe = request;
      probe.set_stream(false);
      probe.mutable_sampling()->set_n(1);
      probe.mutable_sampling()->set_seed(round + 2);
      probe.mutable_stopping()->set_max_tokens(1);
      const auto first = live_->Generate(probe).ids();
      ASSERT_EQ(first.size(), 1u);
      request.mutable_stopping()->add_token_ids(first[0]);
    }
    grpc::ClientContext context;
    const auto reader = live_->inference().Generate(&context, request);
    v1::GenerateResponse message;
    for (int chunk = 0; chunk < 6; ++chunk) {
      ASSERT_TRUE(reader->Read(&message)) << round;
    }
    context.TryCancel();
    EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
    ASSERT_TRUE(Eventually([this] {
      const v1::CacheStats stats = live_->Stats();
      return stats.running_count() == 0 && stats.tiers(0).pinned_blocks() == 0;
    })) << round;
  }
  const v1::CacheStats stats = Idle();
  EXPECT_EQ(stats.tiers(0).free_blocks(), 400);
}

// STR-1: at every cut the text is whole characters, and all modes agree.
TEST_F(FieldCasesLiveTest, TextIsWholeCharactersAtEveryCut) {
  const std::string text = "Hi \xF0\x9F\x98\x8A\xC3\xA9\xE6\xBC\xA2.";
  Start(TokensOf(text));
  if (IsSkipped()) return;
  for (size_t tokens = 1; tokens <= text.size(); ++tokens) {
    v1::GenerateRequest request;
    request.set_text("x");
    request.mutable_stopping()->set_max_tokens(static_cast<int>(tokens));
    request.mutable_output()->set_return_token_ids(true);
    const LiveServer::Result whole = live_->Generate(request);
    request.set_stream(true);
    const LiveServer::Result pieces = live_->Generate(request);
    ASSERT_TRUE(whole.status.ok() && pieces.status.ok());
    for (const auto& message : pieces.messages) {
      const std::string& piece = message.delta().text();
      EXPECT_EQ(WellFormedBytes(piece), piece.size());
    }
    EXPECT_EQ(whole.text(), pieces.text());
    const Utf8Text cut = ReplaceIllFormed(text.substr(0, tokens));
    EXPECT_EQ(whole.text(), cut.held.empty()
                                ? cut.text
                                : cut.text + std::string(kReplacementCharacter))
        << "an unfinished tail is one replacement character, in both modes";
    EXPECT_EQ(whole.ids().size(), tokens);
    EXPECT_EQ(pieces.finished().usage().completion_tokens(),
              static_cast<int>(tokens));
  }
}

// STR-2 and STR-3 on the wire: nothing of a match is sent, in either mode.
TEST_F(FieldCasesLiveTest, StopTextsEndBothModesAtTheSamePlace) {
  const std::string text = "The old harbour caf\xC3\xA9.\nmore";
  Start(TokensOf(text));
  if (IsSkipped()) return;
  struct Case {
    std::string stop;
    size_t before;  // bytes of text that are delivered
  };
  for (const Case& c : std::vector<Case>{{"rbo", 10},
                                         {"d har", 6},
                                         {"\xC3\xA9", 19},
                                         {"f\xC3\xA9.", 18},
                                         {"\n", 22}}) {
    for (const bool include : {false, true}) {
      v1::GenerateRequest request;
      request.set_text("x");
      request.mutable_stopping()->set_max_tokens(26);
      request.mutable_stopping()->add_strings(c.stop);
      request.mutable_stopping()->set_include_stop(include);
      const LiveServer::Result whole = live_->Generate(request);
      request.set_stream(true);
      const LiveServer::Result pieces = live_->Generate(request);
      const std::string wanted =
          text.substr(0, c.before + (include ? c.stop.size() : 0));
      EXPECT_EQ(whole.text(), wanted);
      EXPECT_EQ(pieces.text(), wanted);
      for (const LiveServer::Result* result : {&whole, &pieces}) {
        EXPECT_EQ(result->finished().reason(), v1::FINISH_REASON_STOP_STRING);
        EXPECT_EQ(result->finished().matched_text(), c.stop);
      }
    }
  }
  v1::GenerateRequest pending;
  pending.set_text("x");
  pending.mutable_stopping()->set_max_tokens(12);
  pending.mutable_stopping()->add_strings("harbor");
  pending.mutable_stopping()->add_strings("rbour light");
  const LiveServer::Result held = live_->Generate(pending);
  EXPECT_EQ(held.text(), text.substr(0, 12)) << "what was held is delivered";
  EXPECT_EQ(held.finished().reason(), v1::FINISH_REASON_LENGTH);
}

// CTX-1: a prompt that is too long is an error, and with truncation the reply
// says how much is gone.
TEST_F(FieldCasesLiveTest, TruncationIsAskedForAndReported) {
  Start();
  v1::GenerateRequest request;
  for (int i = 0; i < 3000; ++i) request.mutable_token_ids()->add_ids(70);
  request.mutable_stopping()->set_max_tokens(2);
  const LiveServer::Result refused = live_->Generate(request);
  EXPECT_EQ(refused.status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(refused.status.error_message(), testing::HasSubstr("3000"));
  EXPECT_THAT(refused.status.error_message(), testing::HasSubstr("2047"));
  request.mutable_output()->set_truncate_prompt_tokens(-1);
  request.set_stream(true);
  const LiveServer::Result cut = live_->Generate(request);
  ASSERT_TRUE(cut.status.ok()) << cut.status.error_message();
  EXPECT_EQ(cut.finished().truncated_tokens(), 3000 - 2046);
  EXPECT_EQ(cut.finished().usage().prompt_tokens(), 2046);
  EXPECT_EQ(cut.messages[0].accepted().truncated_tokens(), 3000 - 2046);
}

}  // namespace
}  // namespace kvasir

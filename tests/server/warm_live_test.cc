// WarmCache over the wire, with a real engine on the model TINY.

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/engine.h"
#include "server/generation_backend.h"
#include "server/start_warmup.h"
#include "tests/server/live_server.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using testing::HasSubstr;

class WarmLiveTest : public testing::Test {
 protected:
  WarmLiveTest() {
    options_.model_name = "tiny";
    options_.context_limit = 8192;
    options_.cache_blocks = 600;
    options_.thread_count = 1;
  }

  void Start() {
    options_.model_path = TempPath("warm_live_tiny.gguf");
    ASSERT_TRUE(WriteTinyModel({}, options_.model_path).ok());
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    auto backend = MakeEngineBackend(*std::move(engine));
    backend_ = backend.get();
    live_ = std::make_unique<LiveServer>();
    live_->server().Serve(std::move(backend));
  }

  using Warmed = LiveServer::Told<v1::WarmCacheResponse>;
  Warmed Warm(const v1::WarmCacheRequest& request) {
    return LiveServer::ReadToEnd<v1::WarmCacheResponse>(
        [&](grpc::ClientContext* context) {
          return live_->admin().WarmCache(context, request);
        });
  }

  static std::string Words(char letter) {
    std::string text;
    for (int i = 0; i < 80; ++i) text += std::string("word ") + letter;
    return text;
  }

  v1::Usage Ask(const std::string& text, const std::string& salt = "") {
    v1::GenerateRequest request;
    request.set_text(text);
    request.mutable_cache()->set_salt(salt);
    request.mutable_stopping()->set_max_tokens(2);
    const auto result = live_->Generate(request);
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    return result.finished().usage();
  }

  int64_t ActiveLeases() {
    int64_t leases = 0;
    const v1::CacheStats stats = live_->Stats();
    for (const auto& version : stats.versions()) {
      leases += version.lease_count();
    }
    return leases;
  }

  EngineOptions options_;
  std::unique_ptr<LiveServer> live_;
  GenerationBackend* backend_ = nullptr;
};

TEST_F(WarmLiveTest, PromptsThatWereWarmedHit) {
  Start();
  v1::WarmCacheRequest request;
  request.add_prompts()->set_text(Words('a'));
  v1::WarmPrompt& salted = *request.add_prompts();
  salted.set_text(Words('b'));
  salted.set_salt("tenant");
  request.set_parallelism(2);
  const Warmed warmed = Warm(request);
  ASSERT_TRUE(warmed.status.ok()) << warmed.status.error_message();
  EXPECT_EQ(warmed.last.progress().phase(), "done");
  ASSERT_EQ(warmed.last.prefixes_size(), 2);
  const int64_t whole = warmed.last.prefixes(0).token_count();
  EXPECT_EQ(whole % 16, 0);
  EXPECT_GT(whole, 0);
  EXPECT_EQ(warmed.last.prefixes(0).resident(0).token_count(), whole);
  EXPECT_EQ(live_->Stats().lookup_tokens(), 0) << "nobody has asked yet";
  const v1::Usage hit = Ask(Words('a') + " and on");
  EXPECT_GE(hit.cached_tokens(), whole - 16);
  EXPECT_EQ(Ask(Words('b') + " and on").cached_tokens(), 0);
  EXPECT_GT(Ask(Words('b') + " and on", "tenant").cached_tokens(), 0);
}

// A client that only looks at the status must not take some of it for all.
TEST_F(WarmLiveTest, WhatDoesNotFitIsAnErrorWithItsPrompts) {
  options_.cache_blocks = 20;
  Start();
  v1::WarmCacheRequest request;
  request.add_prompts()->set_text(Words('a'));
  for (int i = 0; i < 2; ++i) {
    auto& ids = *request.add_prompts()->mutable_token_ids();
    for (int k = 0; k < 200; ++k)
      ids.add_ids(static_cast<uint32_t>(3 + i + k % 100));
  }
  request.add_prompts()->set_text("short");
  const Warmed warmed = Warm(request);
  EXPECT_FALSE(warmed.status.ok());
  EXPECT_THAT(warmed.status.error_message(), HasSubstr("not fully resident"));
  EXPECT_EQ(warmed.last.progress().phase(), "incomplete");
  ASSERT_EQ(warmed.last.prefixes_size(), 4);
  EXPECT_EQ(warmed.last.prefixes(2).code(), 0) << "the last one is there";
  EXPECT_EQ(warmed.last.prefixes(3).code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(warmed.last.prefixes(3).message(), HasSubstr("one whole block"));
  EXPECT_EQ(ActiveLeases(), 0);
}

TEST_F(WarmLiveTest, FaultsAreRefusedBeforeAnythingIsComputed) {
  Start();
  v1::WarmCacheRequest request;
  EXPECT_EQ(Warm(request).status.error_code(), grpc::INVALID_ARGUMENT);
  request.add_prompts()->set_text(Words('a'));
  request.add_prompts();
  EXPECT_THAT(Warm(request).status.error_message(), HasSubstr("prompts[1]."));
  request.mutable_prompts()->RemoveLast();
  request.set_model("other");
  EXPECT_EQ(Warm(request).status.error_code(), grpc::NOT_FOUND);
  request.clear_model();
  request.set_version("no-such");
  EXPECT_EQ(Warm(request).status.error_code(), grpc::NOT_FOUND);
  EXPECT_EQ(backend_->Stats().warmed_tokens, 0);
  EXPECT_EQ(live_->CallWithBytes("kvasir.v1.CacheAdmin/WarmCache", "\xff\xff")
                .error_code(),
            grpc::INVALID_ARGUMENT);
}

TEST_F(WarmLiveTest, PinnedPromptsAreToldAsPinnedOrNot) {
  options_.cache_blocks = 40;
  Start();
  v1::WarmCacheRequest request;
  request.set_retention(v1::RETENTION_PINNED);
  for (const uint32_t first : {3u, 103u}) {
    auto& ids = *request.add_prompts()->mutable_token_ids();
    for (uint32_t i = 0; i < 288; ++i) ids.add_ids(first + i % 90);
  }
  const Warmed warmed = Warm(request);
  EXPECT_EQ(warmed.status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_EQ(warmed.last.prefixes(0).code(), 0);
  EXPECT_THAT(warmed.last.prefixes(1).message(), HasSubstr("pins"));
}

// A call that ends calls its warm-up off, wherever that is.
TEST_F(WarmLiveTest, ACancelledCallLeavesNothingBehind) {
  Start();
  v1::WarmCacheRequest request;
  for (uint32_t p = 0; p < 60; ++p) {
    auto& ids = *request.add_prompts()->mutable_token_ids();
    for (uint32_t i = 0; i < 4000; ++i) {
      ids.add_ids(3 + (p * 31 + i * (p + 1)) % 250);
    }
  }
  grpc::ClientContext context;
  const auto reader = live_->admin().WarmCache(&context, request);
  v1::WarmCacheResponse first;
  ASSERT_TRUE(reader->Read(&first));
  EXPECT_EQ(first.progress().phase(), "warming");
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return ActiveLeases() == 0; }));
  EXPECT_EQ(Warm([] {
              v1::WarmCacheRequest next;
              next.add_prompts()->set_text(Words('z'));
              return next;
            }())
                .status.error_code(),
            grpc::OK)
      << "the next one has its turn";
}

constexpr int kManyPrompts = 4000;

// Words enough to keep a tokeniser busy for a good while.
v1::WarmCacheRequest ManyWords() {
  v1::WarmCacheRequest request;
  std::string text;
  while (text.size() < 4000) text += "word after word, ";
  for (int i = 0; i < kManyPrompts; ++i) request.add_prompts()->set_text(text);
  return request;
}

// An operator who has to flush, or to roll back, does not wait for a call that
// has minutes of text to tokenise.
TEST_F(WarmLiveTest, OtherCallsAreServedWhileOneIsTokenised) {
  Start();
  grpc::ClientContext context;
  const auto reader = live_->admin().WarmCache(&context, ManyWords());
  v1::WarmCacheResponse report;
  ASSERT_TRUE(reader->Read(&report)) << "it says at once that it is at work";
  EXPECT_EQ(report.progress().total_count(), kManyPrompts);
  v1::FlushCacheResponse flushed;
  grpc::ClientContext flush;
  EXPECT_TRUE(live_->admin().FlushCache(&flush, {}, &flushed).ok());
  // All reports until then were made before a prompt was handed over.
  context.TryCancel();
  while (reader->Read(&report)) {
    EXPECT_EQ(report.progress().phase(), "warming");
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::CANCELLED)
      << "it had not come to its end";
}

// C10: nor does the end of the daemon.
TEST_F(WarmLiveTest, ADrainEndsWarmUpsWhereverTheyAre) {
  Start();
  grpc::ClientContext tokenised;
  const auto reader = live_->admin().WarmCache(&tokenised, ManyWords());
  v1::WarmCacheResponse report;
  ASSERT_TRUE(reader->Read(&report));
  live_->server().BeginDrain();
  while (reader->Read(&report)) {
  }
  const grpc::Status ended = reader->Finish();
  EXPECT_EQ(ended.error_code(), grpc::UNAVAILABLE) << ended.error_message();
  EXPECT_EQ(Warm(ManyWords()).status.error_code(), grpc::UNAVAILABLE);
}

// The prompts of one call are in memory together.
TEST_F(WarmLiveTest, TokensOfACallAreBounded) {
  options_.context_limit = 8192;
  Start();
  v1::WarmCacheRequest request;
  for (int p = 0; p <= kMaxWarmTokens / 8000; ++p) {
    auto& ids = *request.add_prompts()->mutable_token_ids();
    for (uint32_t i = 0; i < 8000; ++i) ids.add_ids(3 + i % 200);
  }
  const Warmed warmed = Warm(request);
  EXPECT_EQ(warmed.status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(warmed.status.error_message(),
              HasSubstr("warm tokens: wanted at most 4194304"));
}

// The main thread has signals to read meanwhile.
TEST_F(WarmLiveTest, TheStartIsCalledOffBetweenPrompts) {
  Start();
  WarmFile file;
  file.request = ManyWords();
  for (int i = 0; i < file.request.prompts_size(); ++i) file.lines.push_back(i);
  file.request.mutable_prompts(kManyPrompts - 1)
      ->mutable_token_ids()
      ->add_ids(999999);
  testing::internal::CaptureStderr();
  {
    StartWarmup warmup(&file, [] {});
    warmup.Begin(*backend_);
    EXPECT_FALSE(warmup.ended());
    warmup.CallOff();
    EXPECT_TRUE(Eventually([&] { return warmup.ended(); }));
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::Not(HasSubstr("line=3999 ")))
      << "the last prompt was looked at";
}

// The server waits for its files' prefixes, and says which are not there.
TEST_F(WarmLiveTest, TheStartWarmsAFileAndEnds) {
  Start();
  auto file = ParseWarmFile(
      "w", "prefixes:\n- text: " + Words('q') + "\n- token_ids: [999999]\n");
  ASSERT_TRUE(file.ok()) << file.status();
  StartWarmup warmup(&*file, [] {});
  warmup.Begin(*backend_);
  EXPECT_TRUE(Eventually([&] { return warmup.ended(); }));
  testing::internal::CaptureStderr();
  warmup.LogEnd();
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_THAT(line, HasSubstr("refused=1"));
  EXPECT_GT(Ask(Words('q') + " and on").cached_tokens(), 0);
}

}  // namespace
}  // namespace kvasir

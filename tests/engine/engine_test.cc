// The engine with its thread, on the tiny model: what the server relies on.

#include "engine/engine.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/concurrent.h"
#include "tests/support/loop_harness.h"
#include "tests/support/recording_sink.h"
#include "tests/support/temp_path.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Lt;

std::string TinyModelPath(const std::string& name,
                          const TinyModelOptions& options = {}) {
  const std::string path = TempPath(name);
  const absl::Status written = WriteTinyModel(options, path);
  EXPECT_TRUE(written.ok()) << written;
  return path;
}

EngineOptions TinyOptions() {
  EngineOptions options;
  options.model_path = TinyModelPath("tiny.gguf");
  options.cache_blocks = 256;
  options.context_limit = 2048;
  options.thread_count = 1;
  return options;
}

std::unique_ptr<Engine> StartEngine(const EngineOptions& options) {
  auto engine = Engine::Start(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

Request MakeRequest(std::string id, std::vector<TokenId> prompt,
                    int64_t max_tokens) {
  Request request;
  request.id = std::move(id);
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.stopping.max_tokens = max_tokens;
  request.stopping.ignore_eos = true;
  return request;
}

std::shared_ptr<RecordingSink> Submit(Engine& engine, Request request) {
  auto sink = std::make_shared<RecordingSink>();
  const absl::Status status = engine.Submit(std::move(request), sink);
  EXPECT_TRUE(status.ok()) << status;
  return sink;
}

std::shared_ptr<RecordingSink> Generate(Engine& engine, Request request) {
  auto sink = Submit(engine, std::move(request));
  sink->WaitUntilFinished();
  return sink;
}

// The directory keeps it.
const ServedVersion& Active(const Engine& engine) {
  return **engine.Resolve("", "");
}

int64_t UsedBlocks(const Engine& engine) {
  const BlockCounts blocks = engine.Stats().cache.tiers.at(0).blocks;
  return blocks.total() - blocks.free - blocks.leaving;
}

TEST(Engine, AnswersAndDescribesItself) {
  const auto engine = StartEngine(TinyOptions());
  const ModelInfo& model = Active(*engine).info();
  EXPECT_EQ(model.name, "tiny");
  EXPECT_EQ(model.architecture, "llama");
  EXPECT_EQ(Active(*engine).max_context(), 2048);
  EXPECT_EQ(model.layer_count, 2);
  EXPECT_EQ(model.kv_bytes_per_token, 2 * 2 * 2 * 16 * 2);
  EXPECT_EQ(model.thread_count, 1);
  EXPECT_EQ(model.digest.size(), 64u);
  EXPECT_EQ(model.cache_version,
            "tiny@" + model.cache_fingerprint.substr(0, 8));
  EXPECT_GT(model.weight_bytes, 0);
  EXPECT_THAT(model.backend, HasSubstr("cpu"));

  const auto sink = Generate(*engine, MakeRequest("a", RandomPrompt(1, 70), 9));
  ASSERT_TRUE(sink->ok());
  EXPECT_EQ(sink->ids.size(), 9u);
  EXPECT_EQ(sink->accepted->cache_version, model.cache_version);
  EXPECT_EQ(sink->text,
            DecodeText(Active(*engine).tokenizer(), sink->ids, true));
  const auto again =
      Generate(*engine, MakeRequest("a", RandomPrompt(1, 70), 9));
  EXPECT_EQ(again->ids, sink->ids);
  EXPECT_EQ(again->finished->usage.cached_tokens, 64);
}

// Every wrong setting is refused by its name, before the model is read.
TEST(Engine, OptionsOutOfRangeAreNamed) {
  const std::vector<std::pair<std::string, std::function<void(EngineOptions&)>>>
      cases = {
          {"cache_bytes", [](auto& o) { o.cache_bytes = -1; }},
          {"cache_blocks", [](auto& o) { o.cache_blocks = -1; }},
          {"block_tokens", [](auto& o) { o.block_tokens = 0; }},
          {"block_tokens", [](auto& o) { o.block_tokens = 12; }},
          {"block_tokens", [](auto& o) { o.block_tokens = 1 << 20; }},
          {"kv_type", [](auto& o) { o.kv_type = "q3"; }},
          {"eviction_policy", [](auto& o) { o.eviction_policy = "mru"; }},
          {"activations", [](auto& o) { o.activations = ""; }},
          {"context_limit", [](auto& o) { o.context_limit = 1; }},
          {"token_budget", [](auto& o) { o.token_budget = 0; }},
          {"prefill_chunk", [](auto& o) { o.prefill_chunk = 0; }},
          {"max_sequences", [](auto& o) { o.max_sequences = 0; }},
          {"inbox_limit", [](auto& o) { o.inbox_limit = 0; }},
          {"thread_count", [](auto& o) { o.thread_count = -1; }},
          {"cache_bytes",
           [](auto& o) {
             o.cache_blocks = 0;
             o.cache_bytes = 100;
           }},
          {"index_hash_bits", [](auto& o) { o.index_hash_bits = 0; }},
      };
  for (const auto& [name, change] : cases) {
    EngineOptions options = TinyOptions();
    change(options);
    const absl::Status status = Engine::Start(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
}

// The weights' size is known only when they are loaded, and only then can
// somebody say what is left for the cache.
TEST(Engine, WhoKnowsTheLimitSizesTheCacheAfterLoading) {
  EngineOptions options = TinyOptions();
  CacheSizeQuery asked;
  options.size_cache = [&](const CacheSizeQuery& query) {
    asked = query;
    return query.block_bytes * 41 - 1;
  };
  const auto engine = StartEngine(options);
  EXPECT_EQ(asked.wanted_bytes, 256 * asked.block_bytes);
  EXPECT_EQ(asked.weight_bytes, Active(*engine).info().weight_bytes);
  const TierSnapshot device = engine->Stats().cache.tiers.front();
  EXPECT_EQ(device.block_bytes, asked.block_bytes);
  EXPECT_EQ(device.blocks.total(), 40) << "whole blocks";
  options.size_cache = [](const CacheSizeQuery&) {
    return absl::ResourceExhaustedError("no room");
  };
  EXPECT_EQ(Engine::Start(options).status(),
            absl::ResourceExhaustedError("no room"));
  options.cache_blocks = int64_t{1} << 62;
  EXPECT_THAT(std::string(Engine::Start(options).status().message()),
              HasSubstr("cache_blocks: wanted at most"));
}

TEST(Engine, AMissingModelIsNamed) {
  EngineOptions options = TinyOptions();
  options.model_path = "/nowhere/at-all.gguf";
  const absl::Status status = Engine::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("at-all.gguf"));
}

// A daemon that is told to stop while it loads must not load to the end.
TEST(Engine, LoadingReportsProgressAndCanBeAbandoned) {
  EngineOptions options = TinyOptions();
  int64_t last = 0;
  int64_t total = 0;
  options.load_progress = [&](int64_t done, int64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
    return true;
  };
  ASSERT_NE(StartEngine(options), nullptr);
  EXPECT_GT(total, 0);
  EXPECT_EQ(last, total);
  options.load_progress = [](int64_t, int64_t) { return false; };
  EXPECT_EQ(Engine::Start(options).status().code(),
            absl::StatusCode::kCancelled);
}

// FIELD_CASES LOAD-4: output rows without a token must never be sampled, and
// an id without an embedding must be refused by name.
TEST(Engine, IdsWithoutATokenAreNeitherSampledNorTaken) {
  EngineOptions options = TinyOptions();
  options.model_path =
      TinyModelPath("wide.gguf", {.token_count = 300, .embedding_rows = 384});
  auto engine = StartEngine(options);
  ASSERT_EQ(Active(*engine).info().vocab_size, 384);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Request request =
        MakeRequest(absl::StrCat("s", seed), RandomPrompt(seed, 5), 500);
    request.sampling.temperature = 5;
    request.sampling.seed = seed;
    const auto sink = Generate(*engine, std::move(request));
    EXPECT_EQ(sink->ids.size(), 500u);
    EXPECT_THAT(sink->ids, Each(Lt(300)));
    EXPECT_EQ(sink->text,
              DecodeText(Active(*engine).tokenizer(), sink->ids, true));
  }
  const auto refused = [&](TokenId id) {
    return engine->Submit(MakeRequest("x", {5, id}, 1),
                          std::make_shared<RecordingSink>());
  };
  EXPECT_THAT(std::string(refused(300).message()),
              AllOf(HasSubstr("prompt.token_ids[1]"), HasSubstr("300")));

  options.model_path =
      TinyModelPath("narrow.gguf", {.token_count = 300, .embedding_rows = 290});
  auto narrow = Engine::Start(options);
  if (!narrow.ok()) {
    EXPECT_THAT(std::string(narrow.status().message()), HasSubstr("290"));
    return;
  }
  engine = *std::move(narrow);
  EXPECT_EQ(refused(295).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused(295).message()), HasSubstr("295"));
}

// FIELD_CASES CTX-2: what is advertised is what is checked and what ends a
// generation, whichever of the three limits decides.
// The same for places inside of the vocabulary that no token has: a model of
// padded size once streamed "[PAD151703]" at high temperatures.
TEST(Engine, UnusedPlacesAreNeitherSampledNorTaken) {
  GgufWriter writer = MakeTinyModel();
  TinyVocabulary vocabulary = MakeTinyVocabulary(0);
  const auto size = static_cast<TokenId>(vocabulary.tokens.size());
  for (TokenId id = 259; id < size; ++id) vocabulary.kinds[id] = 5;
  writer.SetInts("tokenizer.ggml.token_type", vocabulary.kinds);
  EngineOptions options = TinyOptions();
  options.model_path = TempPath("padded.gguf");
  ASSERT_TRUE(writer.Write(options.model_path).ok());
  const auto engine = StartEngine(options);
  for (const float temperature : {5.0f, 0.0f}) {
    Request request = MakeRequest("hot", {3, 4, 5}, 500);
    request.sampling.temperature = temperature;
    const auto sink = Generate(*engine, std::move(request));
    EXPECT_EQ(sink->ids.size(), 500u);
    EXPECT_THAT(sink->ids, Each(Lt(259)));
  }
  const auto sink = std::make_shared<RecordingSink>();
  const absl::Status status =
      engine->Submit(MakeRequest("pad", {3, 270}, 1), sink);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("prompt.token_ids[1]"), HasSubstr("270")));
}

// A template that is not understood once showed at the first chat.
TEST(Engine, ModelThatCannotChatSaysSoWhenItLoads) {
  EXPECT_EQ(Active(*StartEngine(TinyOptions())).info().chat_refusal, "");
  GgufWriter writer = MakeTinyModel();
  writer.SetString("tokenizer.chat_template", "{{ messages }}\n{% foo %}");
  EngineOptions options = TinyOptions();
  options.model_path = TempPath("mute.gguf");
  ASSERT_TRUE(writer.Write(options.model_path).ok());
  const auto engine = StartEngine(options);
  EXPECT_THAT(Active(*engine).info().chat_refusal,
              HasSubstr("tokenizer.chat_template: chat template, line 2: "
                        "unknown tag \"foo\""));
  EXPECT_TRUE(Generate(*engine, MakeRequest("a", {3, 4}, 5))->ok());
}

TEST(Engine, AVocabularyWithoutATokenIsRefused) {
  GgufWriter writer = MakeTinyModel();
  TinyVocabulary vocabulary = MakeTinyVocabulary(0);
  vocabulary.kinds.assign(vocabulary.kinds.size(), 5);
  writer.SetInts("tokenizer.ggml.token_type", vocabulary.kinds);
  writer.Remove("tokenizer.ggml.eos_token_id");
  EngineOptions options = TinyOptions();
  options.model_path = TempPath("unused.gguf");
  ASSERT_TRUE(writer.Write(options.model_path).ok());
  const absl::Status status = Engine::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("tokens"));
}

TEST(Engine, TheAdvertisedContextIsTheOneThatHolds) {
  for (const auto& [blocks, limit, context] :
       {std::tuple<int64_t, int64_t, int64_t>{4, 0, 64},
        {256, 100, 100},
        {4, 100, 64}}) {
    EngineOptions options = TinyOptions();
    options.cache_blocks = blocks;
    options.context_limit = limit;
    const auto engine = StartEngine(options);
    ASSERT_EQ(Active(*engine).max_context(), context);
    const auto sink = Generate(
        *engine, MakeRequest("fits", RandomPrompt(1, context - 1), 50));
    ASSERT_TRUE(sink->ok());
    EXPECT_EQ(sink->ids.size(), 1u);
    EXPECT_EQ(sink->finished->reason, FinishReason::kContextFull);
    for (const int64_t length : {context, context + 1}) {
      const absl::Status status =
          engine->Submit(MakeRequest("long", RandomPrompt(1, length), 1),
                         std::make_shared<RecordingSink>());
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(absl::StrCat(length)),
                        HasSubstr(absl::StrCat(context - 1))));
    }
    const EngineStats stats = engine->Stats();
    EXPECT_EQ(stats.rejected_invalid + stats.rejected_never_fits, 2);
  }
}

// Contract C4, as an operator would check it.
TEST(Engine, FlushLeavesNothingBehind) {
  const auto engine = StartEngine(TinyOptions());
  Generate(*engine, MakeRequest("a", RandomPrompt(1, 100), 20));
  EXPECT_EQ(UsedBlocks(*engine), 7);
  const auto flushed = engine->FlushCache();
  ASSERT_TRUE(flushed.ok());
  EXPECT_EQ(flushed->freed_blocks, 7);
  EXPECT_EQ(flushed->freed_bytes,
            7 * 16 * Active(*engine).info().kv_bytes_per_token);
  EXPECT_TRUE(engine->WaitIdle(absl::InfiniteDuration()));
}

// A client that had given up left its walk running, ahead of those that had
// not.
TEST(Engine, AWalkThatNobodyWantsIsGivenUp) {
  const auto engine = StartEngine(TinyOptions());
  Generate(*engine, MakeRequest("a", RandomPrompt(1, 100), 20));
  int asked = 0;
  const StillWanted gone = [&asked] { return ++asked < 0; };
  EXPECT_TRUE(absl::IsCancelled(engine->ListPrefixes({}, gone).status()));
  EXPECT_TRUE(
      absl::IsCancelled(engine->EvictPrefixes({}, false, gone).status()));
  EXPECT_TRUE(absl::IsCancelled(engine->FlushPrefixes({}, gone).status()));
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(UsedBlocks(*engine), 7);
  const StillWanted stays = [] { return true; };
  EXPECT_EQ(engine->FlushPrefixes({}, stays)->blocks, 7);
}

TEST(Engine, CancelEndsARequestAndOnlyThatOne) {
  const auto engine = StartEngine(TinyOptions());
  const auto endless =
      Submit(*engine, MakeRequest("endless", RandomPrompt(1, 40), 2000));
  const auto brief =
      Submit(*engine, MakeRequest("brief", RandomPrompt(2, 40), 5));
  EXPECT_EQ(engine
                ->Submit(MakeRequest("endless", RandomPrompt(1, 40), 1),
                         std::make_shared<RecordingSink>())
                .code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(engine->Cancel("endless", CancelSource::kClient, "enough"));
  endless->WaitUntilFinished();
  brief->WaitUntilFinished();
  EXPECT_EQ(endless->code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(brief->ok());
  EXPECT_FALSE(engine->Cancel("endless", CancelSource::kClient, ""));
  EXPECT_EQ(engine->Stats().cancelled_by_client, 1);
}

// Contract C10, the engine's share of it.
TEST(Engine, DrainTakesNothingNewAndEnds) {
  const auto engine = StartEngine(TinyOptions());
  const auto running =
      Submit(*engine, MakeRequest("a", RandomPrompt(1, 40), 2000));
  engine->BeginDrain();
  engine->BeginDrain();
  EXPECT_EQ(engine
                ->Submit(MakeRequest("b", RandomPrompt(1, 40), 1),
                         std::make_shared<RecordingSink>())
                .code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(engine->Stats().rejected_draining, 1);
  engine->CancelAll(CancelSource::kDrain, "grace period over");
  EXPECT_TRUE(engine->WaitIdle(absl::InfiniteDuration()));
  EXPECT_EQ(running->code(), absl::StatusCode::kUnavailable);
}

TEST(Engine, DestructionEndsWhatRuns) {
  auto engine = StartEngine(TinyOptions());
  const auto running =
      Submit(*engine, MakeRequest("a", RandomPrompt(1, 40), 2000));
  const auto queued =
      Submit(*engine, MakeRequest("b", RandomPrompt(1, 40), 2000));
  engine.reset();
  EXPECT_EQ(running->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(queued->code(), absl::StatusCode::kUnavailable);
}

// Clients, an operator and a scraper at once: every request gets the answer of
// its solo run, the numbers add up, nothing is left, and the thread sanitizer
// has nothing to say.
TEST(Engine, ManyThreadsAtOnce) {
  constexpr int kClients = 6;
  constexpr int kCalls = 4;
  EngineOptions options = TinyOptions();
  options.cache_blocks = 40;
  options.thread_count = 2;
  const auto engine = StartEngine(options);
  const auto call = [](int client, int i) {
    std::vector<TokenId> prompt = RandomPrompt(i % 2, 48);
    for (const TokenId id : RandomPrompt(100 + client, 5)) prompt.push_back(id);
    return MakeRequest(absl::StrCat(client, "/", i), std::move(prompt), 12);
  };
  std::vector<std::vector<TokenId>> expected;
  for (int client = 0; client < kClients; ++client) {
    for (int i = 0; i < 2; ++i) {
      expected.push_back(Generate(*engine, call(client, i))->ids);
    }
  }
  std::atomic<int> clients_left = kClients;
  std::vector<std::function<void()>> operations;
  for (int client = 0; client < kClients; ++client) {
    operations.push_back([&, client] {
      for (int i = 0; i < kCalls; ++i) {
        const auto sink = Submit(*engine, call(client, i));
        if (i == 3) {
          engine->Cancel(absl::StrCat(client, "/", i), CancelSource::kClient,
                         "in a hurry");
        }
        sink->WaitUntilFinished();
        if (sink->ok()) {
          EXPECT_EQ(sink->ids, expected[client * 2 + i % 2]);
        }
      }
      --clients_left;
    });
  }
  operations.push_back([&] {
    while (clients_left > 0) {
      EXPECT_TRUE(engine->FlushCache().ok());
      EXPECT_LE(engine->Stats().requests_running, kClients);
    }
  });
  RunConcurrently(std::move(operations));
  EXPECT_TRUE(engine->WaitIdle(absl::InfiniteDuration()));
  EXPECT_TRUE(engine->FlushCache().ok());
  const auto last = Generate(*engine, call(0, 0));
  EXPECT_EQ(last->ids, expected[0]);
  const EngineStats stats = engine->Stats();
  EXPECT_EQ(stats.finished[static_cast<size_t>(FinishReason::kLength)] +
                stats.cancelled_by_client,
            kClients * (2 + kCalls) + 1);
  EXPECT_EQ(stats.requests_running, 0);
  EXPECT_EQ(stats.requests_waiting, 0);
  EXPECT_EQ(stats.cache.tiers.at(0).blocks.pinned, 0);
}

#if KVASIR_TEST_HOOKS
// The hooks that end-to-end tests stand on.
TEST(Engine, HooksScriptTokensAndFailSteps) {
  EngineOptions options = TinyOptions();
  options.test_hooks.script = {10, 11, 12};
  options.test_hooks.first_failing_step = 4;
  options.test_hooks.failing_steps = 1;
  const auto engine = StartEngine(options);
  const auto scripted =
      Generate(*engine, MakeRequest("a", RandomPrompt(1, 40), 3));
  EXPECT_THAT(scripted->ids, ElementsAre(10, 11, 12));
  const auto failed =
      Generate(*engine, MakeRequest("b", RandomPrompt(1, 40), 3));
  EXPECT_EQ(failed->code(), absl::StatusCode::kInternal);
  const auto after =
      Generate(*engine, MakeRequest("c", RandomPrompt(1, 40), 3));
  EXPECT_TRUE(after->ok());
}
#endif

}  // namespace
}  // namespace kvasir

#include "tests/support/loop_harness.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"

#include "cache/base/check.h"
#include "cache/base/status_macros.h"
#include "cache/memory/host_memory.h"
#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

constexpr TokenId kFirstByteToken = 3;

std::unique_ptr<KvCache> MakeCache(const LoopHarness::Options& options) {
  const KvLayout layout = FakeLayout(options.block_tokens);
  auto cache = KvCache::Create(
      {.layout = layout,
       .capacity_blocks = options.blocks,
       .address_space_blocks = options.most_blocks,
       .prefix_caching = options.prefix_caching,
       .resize_slice_bytes = options.resize_slice_blocks * layout.BlockBytes()},
      MakeHostMemory(), MakeLruPolicy());
  KV_CHECK(cache.ok()) << cache.status();
  return *std::move(cache);
}

}  // namespace

const Tokenizer& TinyTokenizer() {
  static const Tokenizer* const tokenizer = [] {
    const TinyVocabulary vocabulary = MakeTinyVocabulary(0);
    TokenizerSpec spec;
    spec.pre_tokenizer = "gpt-2";
    spec.tokens = vocabulary.tokens;
    for (const int32_t kind : vocabulary.kinds) {
      spec.kinds.push_back(kind == 3 ? TokenizerSpec::Kind::kControl
                                     : TokenizerSpec::Kind::kNormal);
    }
    spec.merges = vocabulary.merges;
    spec.bos = 1;
    spec.eos = 2;
    spec.end_tokens = {0, 2};
    auto made = Tokenizer::Create(std::move(spec));
    KV_CHECK(made.ok()) << made.status();
    return made->release();
  }();
  return *tokenizer;
}

std::vector<TokenId> RandomPrompt(uint64_t seed, int64_t length) {
  TestRandom random(seed);
  std::vector<TokenId> prompt(length);
  for (TokenId& id : prompt) {
    id = kFirstByteToken + static_cast<TokenId>(random.Below(256));
  }
  return prompt;
}

LoopHarness::LoopHarness(const Options& options)
    : cache_(MakeCache(options)),
      limits_({.token_limit = TinyTokenizer().size(),
               .model_context = options.model_context,
               .cache_tokens = options.blocks * options.block_tokens}),
      runner_(cache_->layout()),
      hooked_runner_(&runner_, options.hooks),
      inbox_(options.inbox_limit),
      cache_tokens_(limits_.cache_tokens) {
  const EngineLoop::Parts parts{.cache = cache_.get(),
                                .runner = &hooked_runner_,
                                .tokenizer = &TinyTokenizer(),
                                .inbox = &inbox_,
                                .board = &board_,
                                .clock = &clock_,
                                .cache_tokens = &cache_tokens_};
  loop_ = std::make_unique<EngineLoop>(
      parts, EngineLoop::Settings{.limits = options.limits,
                                  .version = cache_->AddVersion("tiny@0", "00"),
                                  .version_label = "tiny@0",
                                  .request_limits = limits_,
                                  .prefix_caching = options.prefix_caching});
}

Request LoopHarness::MakeRequest(std::vector<TokenId> prompt,
                                 int64_t max_tokens) {
  Request request;
  request.id = absl::StrCat(next_id_++);
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.stopping.max_tokens = max_tokens;
  request.stopping.ignore_eos = true;
  return request;
}

absl::Status LoopHarness::TrySubmit(Request request,
                                    std::shared_ptr<TokenSink> sink) {
  RETURN_IF_ERROR(CheckRequest(request, limits()));
  return inbox_.Submit(std::move(request), std::move(sink), clock_.Now());
}

std::shared_ptr<RecordingSink> LoopHarness::Submit(Request request) {
  auto sink = std::make_shared<RecordingSink>();
  const absl::Status status = TrySubmit(std::move(request), sink);
  EXPECT_TRUE(status.ok()) << status;
  return sink;
}

std::shared_ptr<RecordingSink> LoopHarness::Submit(std::vector<TokenId> prompt,
                                                   int64_t max_tokens) {
  return Submit(MakeRequest(std::move(prompt), max_tokens));
}

RequestLimits LoopHarness::limits() const {
  RequestLimits limits = limits_;
  limits.cache_tokens = cache_tokens_;
  return limits;
}

bool LoopHarness::Turn() {
  const bool more = loop_->Turn();
  const std::vector<std::string> violations = cache_->Violations();
  EXPECT_TRUE(violations.empty()) << absl::StrJoin(violations, "\n");
  return more;
}

void LoopHarness::RunUntilIdle(int64_t max_turns) {
  for (int64_t turn = 0; turn < max_turns; ++turn) {
    Turn();
    if (inbox_.in_flight() == 0) return;
  }
  ADD_FAILURE() << inbox_.in_flight() << " requests in flight after "
                << max_turns << " turns";
}

EngineStats LoopHarness::Stats() {
  loop_->Publish();
  return board_.Read();
}

BlockCounts LoopHarness::Blocks() const {
  return cache_->Snapshot().tiers.at(0).blocks;
}

int64_t LoopHarness::UsedBlocks() const {
  const BlockCounts blocks = Blocks();
  return blocks.total() - blocks.free - blocks.leaving;
}

void LoopHarness::Flush() {
  EXPECT_TRUE(inbox_.Post([](KvCache& cache) { cache.Flush(); }).ok());
  Turn();
}

}  // namespace kvasir

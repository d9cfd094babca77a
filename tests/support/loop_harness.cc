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
       .hits_per_sample = options.hits_per_sample,
       .resize_slice_bytes = options.resize_slice_blocks * layout.BlockBytes()},
      MakeHostMemory(), MakeLruPolicy());
  KV_CHECK(cache.ok()) << cache.status();
  return *std::move(cache);
}

}  // namespace

TokenizerSpec TinyTokenizerSpec(const std::string& pre_tokenizer) {
  const TinyVocabulary vocabulary = MakeTinyVocabulary(0);
  TokenizerSpec spec;
  spec.pre_tokenizer = pre_tokenizer;
  spec.tokens = vocabulary.tokens;
  for (const int32_t kind : vocabulary.kinds) {
    spec.kinds.push_back(kind == 3 ? TokenizerSpec::Kind::kControl
                                   : TokenizerSpec::Kind::kNormal);
  }
  spec.merges = vocabulary.merges;
  spec.bos = 1;
  spec.eos = 2;
  spec.end_tokens = {0, 2};
  return spec;
}

const Tokenizer& TinyTokenizer() {
  static const Tokenizer* const tokenizer = [] {
    auto made = Tokenizer::Create(TinyTokenizerSpec("gpt-2"));
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

ServedVersion::Parts FakeVersion(const std::string& label,
                                 std::shared_ptr<StepRunner> runner,
                                 int64_t model_context,
                                 const CachePromise* promise) {
  ServedVersion::Parts parts;
  parts.info.name = "tiny";
  parts.info.cache_version = label;
  parts.info.max_context = model_context;
  parts.tokenizer = std::shared_ptr<const Tokenizer>(
      std::shared_ptr<const Tokenizer>(), &TinyTokenizer());
  parts.runner = std::move(runner);
  parts.limits.token_limit = TinyTokenizer().size();
  parts.limits.model_context = model_context;
  parts.promise = promise;
  return parts;
}

std::shared_ptr<const ServedVersion> IdleVersion(VersionId id) {
  static const CachePromise kPromise{int64_t{1} << 20};
  ServedVersion::Parts parts = FakeVersion(
      absl::StrCat("tiny@", id.value()),
      std::make_shared<FakeRunner>(FakeLayout(4)), 1 << 20, &kPromise);
  parts.id = id;
  return std::make_shared<const ServedVersion>(std::move(parts));
}

LoopHarness::LoopHarness(const Options& options)
    : options_(options),
      cache_(MakeCache(options)),
      inbox_(options.inbox_limit),
      promise_(options.blocks * options.block_tokens),
      versions_(std::make_unique<VersionKeeper>(cache_.get(), &directory_)) {
  AddVersion("tiny@0", 0);
  loop_ = std::make_unique<EngineLoop>(
      EngineLoop::Parts{.cache = cache_.get(),
                        .versions = versions_.get(),
                        .inbox = &inbox_,
                        .board = &board_,
                        .clock = &clock_,
                        .promise = &promise_},
      EngineLoop::Settings{.limits = options.limits,
                           .prefix_caching = options.prefix_caching});
}

VersionInfo LoopHarness::AddVersion(const std::string& label, int32_t weights,
                                    bool activate) {
  const VersionInfo warming = AddWarmingVersion(label, weights);
  absl::StatusOr<VersionInfo> added = versions_->BeginServing(warming.id);
  if (added.ok() && activate) added = versions_->Activate("", label);
  KV_CHECK(added.ok()) << added.status();
  return *added;
}

VersionInfo LoopHarness::AddWarmingVersion(const std::string& label,
                                           int32_t weights) {
  runners_.push_back(std::make_shared<FakeRunner>(cache_->layout(), weights));
  ServedVersion::Parts parts = FakeVersion(
      label, std::make_shared<HookedRunner>(runners_.back(), options_.hooks),
      options_.model_context, &promise_);
  VersionInfo info;
  info.model = parts.info.name;
  info.label = label;
  info.fingerprint = absl::StrCat("weights ", weights);
  absl::StatusOr<VersionInfo> added =
      versions_->Add(std::move(parts), std::move(info));
  KV_CHECK(added.ok()) << added.status();
  return *added;
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
  if (request.version == nullptr) {
    ASSIGN_OR_RETURN(request.version, directory_.Resolve("", ""));
  }
  RETURN_IF_ERROR(CheckRequest(request, request.version->limits()));
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
  return (*directory_.Resolve("", ""))->limits();
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
  EXPECT_TRUE(
      inbox_.Post([](KvCache& cache, VersionKeeper&) { cache.Flush(); }).ok());
  Turn();
}

}  // namespace kvasir

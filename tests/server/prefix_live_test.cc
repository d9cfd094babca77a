// Retention with a real engine on the model TINY and a small cache: what is
// kept, what is not, and what an operator sees of it.

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

using testing::HasSubstr;

constexpr int kBlocks = 64;
constexpr int kBlockTokens = 16;
// Prompts of 4 blocks and a token, so that 30 of them fill the cache twice.
constexpr int kPromptTokens = 4 * kBlockTokens + 1;
constexpr int kFlood = 30;

class PrefixLiveTest : public testing::Test {
 protected:
  void Start(std::vector<TenantShare> quotas = {}) {
    EngineOptions options;
    options.model_name = "tiny";
    options.context_limit = 2048;
    options.cache_blocks = kBlocks;
    options.block_tokens = kBlockTokens;
    options.thread_count = 1;
    options.tenant_quotas = std::move(quotas);
    options.model_path = TempPath("prefix_live_tiny.gguf");
    const absl::Status written = WriteTinyModel({}, options.model_path);
    ASSERT_TRUE(written.ok()) << written;
    absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Start(options);
    ASSERT_TRUE(engine.ok()) << engine.status();
    live_ = std::make_unique<LiveServer>();
    live_->server().Serve(MakeEngineBackend(*std::move(engine)));
  }

  // A prompt that begins like no other one.
  static v1::GenerateRequest Prompt(int number, const std::string& salt = "") {
    v1::GenerateRequest request;
    auto& ids = *request.mutable_token_ids();
    for (int i = 0; i < kPromptTokens; ++i) {
      ids.add_ids(
          static_cast<uint32_t>(3 + (number * 7 + i * (number + 1)) % 250));
    }
    request.mutable_token_ids()->set_ids(0, static_cast<uint32_t>(3 + number));
    request.mutable_stopping()->set_max_tokens(1);
    request.mutable_stopping()->set_ignore_eos(true);
    request.mutable_cache()->set_salt(salt);
    return request;
  }
  // How much of the prompt was found.
  int Run(const v1::GenerateRequest& request) {
    const LiveServer::Result result = live_->Generate(request);
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    return result.finished().usage().cached_tokens();
  }
  void Flood(int first = 100) {
    for (int i = 0; i < kFlood; ++i) Run(Prompt(first + i));
  }

  std::vector<v1::Prefix> List(const v1::PrefixFilter& filter = {}) {
    grpc::ClientContext context;
    v1::ListPrefixesRequest request;
    *request.mutable_filter() = filter;
    v1::ListPrefixesResponse answer;
    const grpc::Status status =
        live_->admin().ListPrefixes(&context, request, &answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return {answer.prefixes().begin(), answer.prefixes().end()};
  }
  std::vector<v1::Prefix> ListOf(const std::string& salt) {
    v1::PrefixFilter filter;
    filter.set_salt(salt);
    return List(filter);
  }
  grpc::Status Pin(const std::string& id) {
    grpc::ClientContext context;
    v1::PinPrefixRequest request;
    request.set_prefix_id(id);
    v1::PinPrefixResponse answer;
    return live_->admin().PinPrefix(&context, request, &answer);
  }
  grpc::Status Unpin(const std::string& id) {
    grpc::ClientContext context;
    v1::UnpinPrefixRequest request;
    request.set_prefix_id(id);
    v1::UnpinPrefixResponse answer;
    return live_->admin().UnpinPrefix(&context, request, &answer);
  }
  v1::EvictPrefixesResponse Evict(const v1::EvictPrefixesRequest& request) {
    grpc::ClientContext context;
    v1::EvictPrefixesResponse answer;
    const grpc::Status status =
        live_->admin().EvictPrefixes(&context, request, &answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return answer;
  }

  std::unique_ptr<LiveServer> live_;
};

// A flood of one-off prompts must not push out what an operator pinned.
TEST_F(PrefixLiveTest, APinnedPrefixSurvivesAFloodAndAnotherDoesNot) {
  Start();
  Run(Prompt(1, "pinned"));
  Run(Prompt(2, "other"));
  const std::vector<v1::Prefix> mine = ListOf("pinned");
  ASSERT_EQ(mine.size(), 1u);
  EXPECT_EQ(mine[0].token_count(), 4 * kBlockTokens);
  EXPECT_EQ(mine[0].salt_hash().size(), 16u);
  EXPECT_THAT(mine[0].salt_hash(), testing::Not(HasSubstr("pinned")));
  EXPECT_EQ(mine[0].model(), "tiny");
  ASSERT_TRUE(Pin(mine[0].prefix_id().substr(0, 8)).ok());
  Flood();
  EXPECT_EQ(Run(Prompt(1, "pinned")), 4 * kBlockTokens);
  EXPECT_EQ(Run(Prompt(2, "other")), 0);
  EXPECT_TRUE(
      Eventually([this] { return live_->Stats().pinned_prefix_count() == 1; }));
  const v1::CacheStats stats = live_->Stats();
  EXPECT_EQ(stats.pinned_prefix_blocks(), 4);
  EXPECT_GT(stats.evicted_capacity_blocks(), 0);
  // Unpinned, it is like any other.
  ASSERT_TRUE(Unpin(mine[0].prefix_id()).ok());
  EXPECT_EQ(Unpin(mine[0].prefix_id()).error_code(), grpc::FAILED_PRECONDITION);
  Flood(200);
  EXPECT_EQ(Pin(mine[0].prefix_id()).error_code(), grpc::NOT_FOUND);
}

TEST_F(PrefixLiveTest, PinsLeaveRoomForRequests) {
  Start();
  grpc::Status status;
  int pinned = 0;
  for (int i = 0; i < kBlocks / 4 && status.ok(); ++i) {
    const std::string salt = absl::StrCat("s", i);
    Run(Prompt(i, salt));
    status = Pin(ListOf(salt).at(0).prefix_id());
    pinned += status.ok() ? 4 : 0;
  }
  EXPECT_EQ(status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("wanted at most 48 blocks"));
  EXPECT_EQ(pinned, 48);
  Flood();
}

// A low priority gives way before others that were used longer ago.
TEST_F(PrefixLiveTest, PriorityDecidesBeforeTime) {
  Start();
  v1::GenerateRequest high = Prompt(1, "high");
  high.mutable_cache()->set_priority(80);
  Run(high);
  Flood();
  EXPECT_EQ(Run(Prompt(1, "high")), 4 * kBlockTokens);
  EXPECT_EQ(ListOf("high").at(0).priority(), 80);
}

// Nothing else runs here, so the engine has to wake up for it by itself.
TEST_F(PrefixLiveTest, ATimeToLiveEndsByItself) {
  Start();
  v1::GenerateRequest brief = Prompt(1, "brief");
  brief.mutable_cache()->mutable_ttl()->set_nanos(200000000);
  brief.mutable_cache()->set_retention(v1::RETENTION_HIGH);
  Run(brief);
  Run(Prompt(2, "lasting"));
  EXPECT_TRUE(Eventually([this] { return ListOf("brief").empty(); }));
  EXPECT_EQ(ListOf("lasting").size(), 1u);
  EXPECT_TRUE(
      Eventually([this] { return live_->Stats().evicted_ttl_blocks() == 4; }));
}

TEST_F(PrefixLiveTest, ANoisyTenantCannotPushAnotherBelowItsFloor) {
  Start({{.salt = "quiet", .floor = {.blocks = 8}},
         {.salt = "capped", .floor = {}, .most = {.blocks = 4}}});
  Run(Prompt(1, "quiet"));
  Run(Prompt(2, "quiet"));
  Run(Prompt(3, "capped"));
  Run(Prompt(4, "capped"));
  int64_t capped = 0;
  for (const v1::Prefix& prefix : ListOf("capped")) {
    capped += prefix.block_count();
  }
  EXPECT_LE(capped, 4);
  Flood();
  EXPECT_EQ(Run(Prompt(1, "quiet")), 4 * kBlockTokens);
  EXPECT_EQ(Run(Prompt(2, "quiet")), 4 * kBlockTokens);
  EXPECT_TRUE(
      Eventually([this] { return live_->Stats().evicted_quota_blocks() > 0; }));
  EXPECT_EQ(live_->Stats().floor_blocks(), 8);
}

// What the floor keeps is promised to nobody: a prompt of that size would wait
// for ever.
TEST_F(PrefixLiveTest, FloorsCountFromTheStart) {
  Start({{.salt = "quiet", .floor = {.ratio = 0.5}}});
  v1::GenerateRequest large = Prompt(1);
  for (int i = kPromptTokens; i < kBlocks / 2 * kBlockTokens; ++i) {
    large.mutable_token_ids()->add_ids(5);
  }
  const LiveServer::Result result = live_->Generate(large);
  EXPECT_EQ(result.status.error_code(), grpc::RESOURCE_EXHAUSTED);
  EXPECT_THAT(result.status.error_message(), HasSubstr("prompt: wanted"));
}

TEST_F(PrefixLiveTest, ADryRunTellsWhatTheEvictionThenDoes) {
  Start();
  for (int i = 0; i < 3; ++i) Run(Prompt(i, "tenant"));
  Run(Prompt(7));
  ASSERT_TRUE(Pin(ListOf("tenant").at(0).prefix_id()).ok());
  v1::EvictPrefixesRequest request;
  request.mutable_filter()->set_salt_hash(ListOf("tenant").at(0).salt_hash());
  request.set_dry_run(true);
  const v1::EvictPrefixesResponse tried = Evict(request);
  EXPECT_EQ(tried.evicted_block_count(), 8);
  EXPECT_EQ(tried.kept_block_count(), 4);
  EXPECT_EQ(ListOf("tenant").size(), 3u);
  request.set_dry_run(false);
  const v1::EvictPrefixesResponse done = Evict(request);
  EXPECT_EQ(done.evicted_block_count(), tried.evicted_block_count());
  EXPECT_EQ(done.freed_bytes(), tried.freed_bytes());
  EXPECT_EQ(done.kept_block_count(), tried.kept_block_count());
  EXPECT_EQ(ListOf("tenant").size(), 1u) << "the pinned one";
  EXPECT_EQ(List().size(), 2u);
  request.mutable_ids()->add_ids(ListOf("tenant").at(0).prefix_id());
  EXPECT_EQ(Evict(request).evicted_block_count(), 4) << "named, it goes";
}

TEST_F(PrefixLiveTest, FlushesByTenantAndVersion) {
  Start();
  Run(Prompt(1, "a"));
  Run(Prompt(2, "b"));
  ASSERT_TRUE(Pin(ListOf("a").at(0).prefix_id()).ok());
  const auto flush = [this](v1::FlushScope scope, const std::string& value) {
    grpc::ClientContext context;
    v1::FlushCacheRequest request;
    request.set_scope(scope);
    request.set_value(value);
    v1::FlushCacheResponse answer;
    const grpc::Status status =
        live_->admin().FlushCache(&context, request, &answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return answer.freed_blocks();
  };
  EXPECT_EQ(flush(v1::FLUSH_SCOPE_SALT, "nobody"), 0);
  EXPECT_EQ(flush(v1::FLUSH_SCOPE_SALT, "a"), 4);
  EXPECT_EQ(List().size(), 1u);
  EXPECT_EQ(flush(v1::FLUSH_SCOPE_VERSION, List().at(0).version()), 4);
  EXPECT_TRUE(List().empty());
}

}  // namespace
}  // namespace kvasir

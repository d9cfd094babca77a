#include "server/warm_codec.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/server_testing.h"

namespace kvasir {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class WarmCodecTest : public testing::Test {
 protected:
  absl::StatusOr<WarmPrefix> Decode(const v1::WarmCacheRequest& wire,
                                    int index = 0) const {
    return DecodeWarmPrompt(wire, index, ModelOf(*version_));
  }
  std::string Refusal(const v1::WarmCacheRequest& wire, int index = 0) const {
    const auto prefix = Decode(wire, index);
    EXPECT_FALSE(prefix.ok());
    return std::string(prefix.status().message());
  }

  FakeBackend backend_;
  std::shared_ptr<const ServedVersion> version_ = *backend_.Resolve("", "");
};

// A prefix that is tokenised in another way than the request would never hit.
TEST_F(WarmCodecTest, PromptsBecomeTheIdsThatGenerateWouldMakeOfThem) {
  v1::WarmCacheRequest wire;
  wire.add_prompts()->set_text("Once upon a time");
  wire.add_prompts()->mutable_token_ids()->add_ids(42);
  auto& message = *wire.add_prompts()->mutable_chat()->add_messages();
  message.set_role("system");
  message.set_content("Be brief.");
  for (int i = 0; i < wire.prompts_size(); ++i) {
    v1::GenerateRequest request;
    if (i == 0) request.set_text(wire.prompts(0).text());
    if (i == 1) *request.mutable_token_ids() = wire.prompts(1).token_ids();
    if (i == 2) *request.mutable_chat() = wire.prompts(2).chat();
    const auto call = DecodeGenerate(request, {}, ModelOf(*version_));
    const auto prefix = Decode(wire, i);
    ASSERT_TRUE(call.ok() && prefix.ok()) << prefix.status();
    EXPECT_EQ(prefix->tokens, call->request.prompt);
    EXPECT_EQ(prefix->retention, Retention{.priority = kWarmedPriority});
    EXPECT_FALSE(prefix->pin);
  }
}

TEST_F(WarmCodecTest, APromptsOwnSettingsGoBeforeThoseOfAll) {
  v1::WarmCacheRequest wire;
  wire.set_salt("all");
  wire.set_priority(70);
  wire.mutable_ttl()->set_seconds(60);
  wire.add_prompts()->set_text("a");
  v1::WarmPrompt& own = *wire.add_prompts();
  own.set_text("b");
  own.set_salt("");
  own.set_priority(0);
  own.mutable_ttl()->set_seconds(5);
  v1::WarmPrompt& pinned = *wire.add_prompts();
  pinned.set_text("c");
  pinned.set_retention(v1::RETENTION_PINNED);
  const auto first = Decode(wire, 0);
  EXPECT_EQ(first->salt, "all");
  EXPECT_EQ(first->retention,
            (Retention{.priority = 70, .ttl = absl::Seconds(60)}));
  const auto second = Decode(wire, 1);
  EXPECT_EQ(second->salt, "") << "an empty salt is one, too";
  EXPECT_EQ(second->retention,
            (Retention{.priority = 0, .ttl = absl::Seconds(5)}));
  const auto third = Decode(wire, 2);
  EXPECT_TRUE(third->pin);
  EXPECT_EQ(third->retention->priority, kMaxRetentionPriority)
      << "a level of its own is not overruled by a number for all";
}

TEST_F(WarmCodecTest, FaultsAreNamedByPromptAndField) {
  v1::WarmCacheRequest wire;
  wire.add_prompts()->set_text("good");
  v1::WarmPrompt& bad = *wire.add_prompts();
  EXPECT_THAT(Refusal(wire, 1), StartsWith("prompts[1].prompt: wanted text"));
  bad.mutable_token_ids()->add_ids(1 << 30);
  EXPECT_THAT(Refusal(wire, 1), StartsWith("prompts[1].token_ids.ids[0]: "));
  bad.mutable_chat()->add_messages()->set_role("user");
  bad.mutable_chat()->add_tools("[");
  EXPECT_THAT(Refusal(wire, 1), StartsWith("prompts[1].chat.tools[0]: "));
  bad.set_text("b");
  bad.set_priority(101);
  EXPECT_THAT(Refusal(wire, 1), HasSubstr("priority: wanted 0 to 100"));
  bad.clear_priority();
  bad.mutable_ttl();
  EXPECT_THAT(Refusal(wire, 1), StartsWith("prompts[1].ttl: wanted a time"));
  bad.clear_ttl();
  bad.set_salt(std::string(kMaxSaltBytes + 1, 's'));
  EXPECT_THAT(Refusal(wire, 1), HasSubstr("salt: wanted at most 1024"));
  bad.clear_salt();
  bad.set_retention(static_cast<v1::Retention>(77));
  EXPECT_THAT(Refusal(wire, 1), HasSubstr("retention: wanted EPHEMERAL"));
}

TEST_F(WarmCodecTest, BoundsOfTheCallAreNamed) {
  v1::WarmCacheRequest wire;
  EXPECT_THAT(
      std::string(DecodeWarmSettings(wire, version_).status().message()),
      HasSubstr("prompts: wanted 1 to 4096, found 0"));
  wire.add_prompts();
  for (const int32_t parallelism : {-1, 65}) {
    wire.set_parallelism(parallelism);
    EXPECT_THAT(
        std::string(DecodeWarmSettings(wire, version_).status().message()),
        HasSubstr("parallelism: wanted 0 to 64"));
  }
  wire.set_parallelism(0);
  const auto order = DecodeWarmSettings(wire, version_);
  ASSERT_TRUE(order.ok());
  EXPECT_EQ(order->parallelism, 1);
  EXPECT_EQ(order->version, version_);
}

// What is missing must show in three places: the phase, the failures and the
// prompt itself.
TEST_F(WarmCodecTest, PartialSuccessDoesNotLookLikeSuccess) {
  std::vector<WarmedPrefix> prefixes(3);
  prefixes[0] = {
      .token_count = 32, .resident_tokens = 32, .computed_tokens = 16};
  prefixes[1] = {.token_count = 64,
                 .resident_tokens = 16,
                 .computed_tokens = 64,
                 .status = absl::ResourceExhaustedError("dropped again")};
  prefixes[2].status = absl::InvalidArgumentError("too short");
  const v1::WarmCacheResponse wire =
      EncodeWarmEnd(prefixes[1].status, prefixes);
  EXPECT_EQ(wire.progress().phase(), "incomplete");
  EXPECT_EQ(wire.progress().done_count(), 1);
  EXPECT_EQ(wire.progress().total_count(), 3);
  ASSERT_EQ(wire.progress().failures_size(), 2);
  EXPECT_EQ(wire.progress().failures(0).item(), "1");
  EXPECT_EQ(wire.computed_tokens(), 80);
  ASSERT_EQ(wire.prefixes_size(), 3);
  EXPECT_EQ(wire.prefixes(0).code(), 0);
  EXPECT_EQ(wire.prefixes(0).resident(0).tier(), v1::CACHE_TIER_DEVICE);
  EXPECT_EQ(wire.prefixes(0).resident(0).token_count(), 32);
  EXPECT_EQ(wire.prefixes(1).code(), 8);
  EXPECT_EQ(wire.prefixes(1).message(), "dropped again");
  EXPECT_EQ(wire.prefixes(1).token_count(), 64);
  EXPECT_EQ(wire.prefixes(2).resident_size(), 0);
  prefixes.resize(1);
  EXPECT_EQ(EncodeWarmEnd(absl::OkStatus(), prefixes).progress().phase(),
            "done");
  EXPECT_EQ(EncodeWarmReport({.prefix_count = 9, .done_count = 4})
                .progress()
                .done_count(),
            4);
}

}  // namespace
}  // namespace kvasir

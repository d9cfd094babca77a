#include "engine/request_check.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/model/token_set.h"
#include "engine/request.h"

namespace kvasir {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr RequestLimits kLimits{
    .token_limit = 290, .model_context = 256, .cache_tokens = 320};

Request WithPrompt(std::vector<TokenId> prompt) {
  Request request;
  request.prompt = std::move(prompt);
  return request;
}

Request WithLength(int64_t length) {
  return WithPrompt(std::vector<TokenId>(length, 5));
}

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

TEST(RequestCheck, TakesWhatFits) {
  EXPECT_TRUE(CheckRequest(WithPrompt({0, 289}), kLimits).ok());
}

// FIELD_CASES SAM-1, LOAD-4: an id without an embedding would read beyond the
// table. The client must learn which one it was.
TEST(RequestCheck, NamesTheIdThatHasNoToken) {
  for (const TokenId id : {-1, 290, 295, std::numeric_limits<TokenId>::max()}) {
    const absl::Status status = CheckRequest(WithPrompt({1, 2, id}), kLimits);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Message(status),
                AllOf(HasSubstr("prompt.token_ids[2]"), HasSubstr("[0, 290)"),
                      HasSubstr(std::to_string(id))));
  }
}

// An id may be in range and still be no token: padding of the vocabulary.
TEST(RequestCheck, NamesTheIdThatTheVocabularyLeavesUnused) {
  TokenSet tokens(290);
  tokens.Remove(7);
  RequestLimits limits = kLimits;
  limits.tokens = &tokens;
  EXPECT_TRUE(CheckRequest(WithPrompt({6, 8}), limits).ok());
  const absl::Status status = CheckRequest(WithPrompt({1, 7}), limits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("prompt.token_ids[1]"), HasSubstr("found 7"),
                    HasSubstr("unused")));
  Request request = WithLength(3);
  request.stopping.token_ids = {7};
  EXPECT_THAT(Message(CheckRequest(request, limits)),
              HasSubstr("stopping.token_ids[0]"));
}

TEST(RequestCheck, NamesTheStopTokenThatCanNeverCome) {
  Request request = WithLength(3);
  request.stopping.token_ids = {4, 290};
  const absl::Status status = CheckRequest(request, kLimits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("stopping.token_ids[1]"));
}

// FIELD_CASES SAM-1: an id of a sampling list indexes the logits. One field
// after the other holds each kind of bad id.
TEST(RequestCheck, NamesTheSamplingIdThatIsNoToken) {
  TokenSet tokens(290);
  tokens.Remove(7);
  RequestLimits limits = kLimits;
  limits.tokens = &tokens;
  const auto refusal = [&](const SamplingParams& sampling) {
    Request request = WithLength(3);
    request.sampling = sampling;
    return Message(CheckRequest(request, limits));
  };
  EXPECT_EQ(refusal({.logit_bias = {{0, 1}, {289, 2}},
                     .allowed_ids = {0, 289},
                     .banned_ids = {5}}),
            "");
  for (const TokenId id : {-1, 7, 290, std::numeric_limits<TokenId>::max()}) {
    const std::string found = "found " + std::to_string(id);
    EXPECT_THAT(refusal({.logit_bias = {{0, 1}, {id, 2}}}),
                AllOf(HasSubstr("sampling.logit_bias[" + std::to_string(id)),
                      HasSubstr(found)));
    EXPECT_THAT(
        refusal({.allowed_ids = {0, id}}),
        AllOf(HasSubstr("sampling.allowed_token_ids[1]"), HasSubstr(found)));
    EXPECT_THAT(
        refusal({.banned_ids = {id}}),
        AllOf(HasSubstr("sampling.banned_token_ids[0]"), HasSubstr(found)));
  }
}

// No token to compute means no logits to sample from.
TEST(RequestCheck, RefusesAnEmptyPrompt) {
  const absl::Status status = CheckRequest(WithLength(0), kLimits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("prompt"));
}

// FIELD_CASES CTX-1, CTX-2: one token of output has to fit, and the message
// carries both numbers.
TEST(RequestCheck, PromptsOverTheContextAreTheClientsError) {
  EXPECT_TRUE(CheckRequest(WithLength(255), kLimits).ok());
  const absl::Status status = CheckRequest(WithLength(256), kLimits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("256"), HasSubstr("255")));
}

// FIELD_CASES SCHED-1: a bigger cache would serve it, so it is not the
// client's error.
TEST(RequestCheck, PromptsOverTheCacheExhaustResources) {
  const RequestLimits small{
      .token_limit = 290, .model_context = 2048, .cache_tokens = 320};
  EXPECT_EQ(small.EffectiveContext(), 320);
  EXPECT_EQ(kLimits.EffectiveContext(), 256);
  EXPECT_TRUE(CheckRequest(WithLength(319), small).ok());
  const absl::Status status = CheckRequest(WithLength(400), small);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("400"), HasSubstr("319")));
  EXPECT_EQ(CheckRequest(WithLength(2048), small).code(),
            absl::StatusCode::kInvalidArgument);
}

// Whether it begins with what is pinned only the engine thread can see.
TEST(RequestCheck, AnythingThatPinsMayMakeRoomForIsLetThrough) {
  const RequestLimits limits{.token_limit = 290,
                             .model_context = 2048,
                             .cache_tokens = 320,
                             .pinned_tokens = 100};
  EXPECT_EQ(limits.EffectiveContext(), 320);
  EXPECT_EQ(limits.LongestContext(), 420);
  EXPECT_TRUE(CheckRequest(WithLength(419), limits).ok());
  const absl::Status status = CheckRequest(WithLength(420), limits);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Message(status), AllOf(HasSubstr("420"), HasSubstr("319")));
}

TEST(RequestCheck, RefusesParametersOutOfRange) {
  Request request = WithLength(3);
  request.stopping.max_tokens = -1;
  EXPECT_THAT(Message(CheckRequest(request, kLimits)),
              HasSubstr("stopping.max_tokens"));
  request = WithLength(3);
  request.sampling.temperature = -1;
  const absl::Status status = CheckRequest(request, kLimits);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Message(status), HasSubstr("temperature"));
}

}  // namespace
}  // namespace kvasir

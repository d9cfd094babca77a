#include "engine/model/drawable_tokens.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int32_t kCount = 8;

// Tokens 0 to 7 but for 3, as of a vocabulary with a hole.
std::shared_ptr<const TokenSet> WithHole() {
  TokenSet tokens(kCount);
  tokens.Remove(3);
  return std::make_shared<const TokenSet>(std::move(tokens));
}

std::vector<TokenId> Left(const SamplingParams& params,
                          std::vector<TokenId> withheld = {}) {
  const absl::StatusOr<std::shared_ptr<const TokenSet>> tokens =
      DrawableTokens(WithHole(), kCount, params, withheld);
  std::vector<TokenId> ids;
  if (tokens.ok()) (*tokens)->AppendTo(kCount, ids);
  return ids;
}

std::string Refusal(const SamplingParams& params,
                    std::vector<TokenId> withheld = {}) {
  return std::string(
      DrawableTokens(WithHole(), kCount, params, withheld).status().message());
}

// Nearly all requests restrict nothing; they share the model's set.
TEST(DrawableTokens, CostsNothingWhereNothingIsRestricted) {
  const std::shared_ptr<const TokenSet> tokens = WithHole();
  EXPECT_EQ(*DrawableTokens(tokens, kCount, {}, {}), tokens);
  EXPECT_EQ(*DrawableTokens(tokens, kCount, {}, {{2}}), tokens);
  EXPECT_EQ(*DrawableTokens(nullptr, kCount, {}, {}), nullptr);
}

// A ban counts even for what is allowed, and no list makes a hole a token.
TEST(DrawableTokens, AreAllowedAndNotBanned) {
  EXPECT_THAT(Left({.allowed_ids = {6, 1, 3, 6}}), ElementsAre(1, 6));
  EXPECT_THAT(Left({.banned_ids = {0, 3, 7, 7}}), ElementsAre(1, 2, 4, 5, 6));
  EXPECT_THAT(Left({.allowed_ids = {1, 5, 6}, .banned_ids = {5}}),
              ElementsAre(1, 6));
  EXPECT_THAT(Left({.allowed_ids = {1}, .banned_ids = {-1, 8, 1000000}}),
              ElementsAre(1));
  const auto tokens =
      DrawableTokens(nullptr, kCount, {.banned_ids = {0, 1, 2, 3, 4}}, {});
  EXPECT_FALSE((*tokens)->Contains(4));
  EXPECT_TRUE((*tokens)->Contains(7));
  EXPECT_FALSE((*tokens)->Contains(8));
}

// Only what is withheld at first may be drawn later.
TEST(DrawableTokens, KeepWhatIsWithheldForLater) {
  EXPECT_THAT(Left({.allowed_ids = {1, 2}}, {2}), ElementsAre(1, 2));
}

// The sampler has to draw something each time: whoever leaves it nothing must
// hear of it before the generation begins.
TEST(DrawableTokens, RefuseToBeNone) {
  EXPECT_THAT(Refusal({.allowed_ids = {3}}),
              AllOf(StartsWith("sampling.allowed_token_ids:"),
                    HasSubstr("none of 1 allowed with 0 banned")));
  EXPECT_THAT(Refusal({.allowed_ids = {1, 2}, .banned_ids = {2, 1}}),
              StartsWith("sampling.allowed_token_ids:"));
  EXPECT_THAT(Refusal({.banned_ids = {0, 1, 2, 4, 5, 6, 7}}),
              StartsWith("sampling.banned_token_ids:"));
}

TEST(DrawableTokens, RefuseToBeWithheldAltogether) {
  EXPECT_THAT(Refusal({.allowed_ids = {2, 4}}, {4, 2}),
              AllOf(StartsWith("sampling.allowed_token_ids:"),
                    HasSubstr("stopping.min_tokens")));
  EXPECT_THAT(Refusal({.banned_ids = {0, 1, 4, 5, 6, 7}}, {2}),
              HasSubstr("stopping.min_tokens"));
  EXPECT_EQ(Refusal({.allowed_ids = {2, 4}}, {4, 5}), "");
}

}  // namespace
}  // namespace kvasir

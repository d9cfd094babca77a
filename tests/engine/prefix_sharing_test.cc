#include "engine/prefix_sharing.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kBlock = 4;
const CacheUse kShared;

// `shared` tokens that all such prompts have, then `own` ones of number `who`.
std::vector<TokenId> Prompt(int64_t shared, int64_t own, TokenId who) {
  std::vector<TokenId> prompt(shared);
  std::iota(prompt.begin(), prompt.end(), 0);
  for (int64_t i = 0; i < own; ++i) {
    prompt.push_back(1000 * who + static_cast<TokenId>(i));
  }
  return prompt;
}

TEST(PrefixSharing, LaterSequencesWaitForTheSameNextBlock) {
  const auto a = Prompt(8, 3, 1);
  const auto b = Prompt(8, 3, 2);
  const auto other = Prompt(0, 11, 3);
  EXPECT_THAT(
      FindPrefixWaiters(
          {{a, 0, &kShared}, {other, 0, &kShared}, {b, 0, &kShared}}, kBlock),
      ElementsAre(false, false, true));
}

// What differs before the block makes it another block, whatever is in it.
TEST(PrefixSharing, EqualTokensAfterAnotherPrefixAreNotShared) {
  auto a = Prompt(12, 1, 1);
  auto b = a;
  b[1] = 77;
  EXPECT_THAT(FindPrefixWaiters({{a, 4, &kShared}, {b, 4, &kShared}}, kBlock),
              ElementsAre(false, false));
}

// Once the earlier one has sealed the block, it is in the cache or gone from
// it; waiting on would be for nothing.
TEST(PrefixSharing, NobodyWaitsForWhatIsComputed) {
  const auto a = Prompt(12, 1, 1);
  for (const auto& [computed, waits] :
       {std::pair<int64_t, bool>{3, true}, {4, false}, {9, false}}) {
    EXPECT_THAT(
        FindPrefixWaiters({{a, computed, &kShared}, {a, 0, &kShared}}, kBlock),
        ElementsAre(false, waits))
        << computed;
  }
}

// A block that holds a sequence's last token is computed in any case.
TEST(PrefixSharing, TheLastTokenIsNeverWaitedFor) {
  const auto a = Prompt(8, 0, 1);
  EXPECT_THAT(FindPrefixWaiters({{a, 0, &kShared}, {a, 0, &kShared}}, kBlock),
              ElementsAre(false, true));
  EXPECT_THAT(FindPrefixWaiters({{a, 0, &kShared}, {a, 4, &kShared}}, kBlock),
              ElementsAre(false, false));
}

// Only whole blocks are looked up, so inside a block there is nothing to gain.
TEST(PrefixSharing, NobodyWaitsAmidABlock) {
  const auto a = Prompt(12, 1, 1);
  EXPECT_THAT(FindPrefixWaiters({{a, 0, &kShared}, {a, 2, &kShared}}, kBlock),
              ElementsAre(false, false));
}

// A shorter prompt never fills the block.
TEST(PrefixSharing, NobodyWaitsForABlockThatStaysOpen) {
  const auto a = Prompt(6, 0, 1);
  const auto b = Prompt(12, 0, 1);
  EXPECT_THAT(FindPrefixWaiters({{a, 4, &kShared}, {b, 4, &kShared}}, kBlock),
              ElementsAre(false, false));
}

// Waiting for a block that the other keeps to itself would be waiting in vain.
TEST(PrefixSharing, CacheOptionsMustAllowIt) {
  const auto a = Prompt(12, 1, 1);
  const CacheUse salted{.salt = "x"};
  const CacheUse reads_only{.write = false};
  const CacheUse writes_only{.read = false};
  const auto second_waits = [&](const CacheUse& first,
                                const CacheUse& second) -> bool {
    return FindPrefixWaiters({{a, 0, &first}, {a, 0, &second}}, kBlock)[1];
  };
  EXPECT_TRUE(second_waits(kShared, kShared));
  EXPECT_TRUE(second_waits(salted, salted));
  EXPECT_FALSE(second_waits(kShared, salted));
  EXPECT_FALSE(second_waits(reads_only, kShared));
  EXPECT_TRUE(second_waits(writes_only, kShared));
  EXPECT_TRUE(second_waits(kShared, reads_only));
  EXPECT_FALSE(second_waits(kShared, writes_only));
}

// Sequences of one request take over from the first of them, wherever that
// stands; if it waited for one of them in turn, none would ever go on.
TEST(PrefixSharing, NobodyWaitsForOneOfItsOwnRequest) {
  const auto a = Prompt(12, 1, 1);
  const int one = 0;
  EXPECT_THAT(FindPrefixWaiters({{a, 0, &kShared, {}, &one},
                                 {a, 0, &kShared, {}, &one},
                                 {a, 0, &kShared}},
                                kBlock),
              ElementsAre(false, false, true));
}

}  // namespace
}  // namespace kvasir

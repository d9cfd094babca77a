#include "engine/model/token_set.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "tests/support/tiny_model.h"

namespace kvasir {
namespace {

TEST(TokenSet, HoldsNothingOutsideOfItsBound) {
  const TokenSet set(65);
  EXPECT_TRUE(set.Contains(0));
  EXPECT_TRUE(set.Contains(64));
  EXPECT_FALSE(set.Contains(65));
  EXPECT_FALSE(set.Contains(-1));
  EXPECT_FALSE(TokenSet().Contains(0));
  EXPECT_TRUE(TokenSet().empty());
}

// Whole words of the bitmap take another way than broken ones.
TEST(TokenSet, EqualsASetOfItsIds) {
  TestRandom random(7);
  for (const int32_t bound : {1, 63, 64, 65, 128, 200, 1000}) {
    TokenSet set(bound);
    std::set<TokenId> twin;
    for (int32_t id = 0; id < bound; ++id) twin.insert(id);
    while (!twin.empty()) {
      EXPECT_FALSE(set.empty());
      for (const int32_t limit : {0, bound / 2, bound - 1, bound, bound + 9}) {
        std::vector<TokenId> ids = {-7};
        set.AppendTo(limit, ids);
        std::vector<TokenId> want = {-7};
        want.insert(want.end(), twin.begin(), twin.lower_bound(limit));
        ASSERT_EQ(ids, want) << "seed 7, bound " << bound << ", " << limit;
      }
      const auto id = static_cast<TokenId>(random.Below(bound));
      set.Remove(id);
      twin.erase(id);
      EXPECT_FALSE(set.Contains(id));
    }
    EXPECT_TRUE(set.empty());
    set.Add(bound - 1);
    TokenSet last = TokenSet::None(bound);
    EXPECT_TRUE(last.empty());
    last.Add(bound - 1);
    for (const TokenSet& one : {set, last}) {
      std::vector<TokenId> ids;
      one.AppendTo(bound, ids);
      EXPECT_EQ(ids, std::vector<TokenId>{bound - 1});
    }
  }
}

}  // namespace
}  // namespace kvasir

#include "cache/lookup_hash.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(LookupHashTest, IsAFunctionOfWhatCameBeforeAndOfEveryToken) {
  // A place that the hash leaves out is one by which a stranger makes all
  // blocks collide.
  constexpr int32_t kBlockTokens = 16;
  const LookupHash hash(kBlockTokens);
  const std::vector<TokenId> tokens(kBlockTokens, 3);
  std::set<uint64_t> hashes = {hash.Next(1, tokens)};
  EXPECT_EQ(*hashes.begin(), hash.Next(1, tokens));
  hashes.insert(hash.Next(2, tokens));
  hashes.insert(hash.Next(1 | uint64_t{1} << 32, tokens));
  for (int32_t i = 0; i < kBlockTokens; ++i) {
    std::vector<TokenId> other = tokens;
    other[i] = 4;
    hashes.insert(hash.Next(1, other));
  }
  std::vector<TokenId> swapped = tokens;
  swapped[0] = 5;
  hashes.insert(hash.Next(1, swapped));
  std::swap(swapped[0], swapped[1]);
  hashes.insert(hash.Next(1, swapped));
  EXPECT_EQ(hashes.size(), 3u + kBlockTokens + 2u);
}

TEST(LookupHashTest, ScopesStartApart) {
  BlockKey a{};
  BlockKey b{};
  b[3] = 1;
  EXPECT_NE(LookupHash::Start(a), LookupHash::Start(b));
}

TEST(LookupHashTest, NoTwoObjectsHashAlike) {
  // What collides in one process must not in another: the multipliers are
  // random, so that nobody can prepare prompts that do.
  const std::vector<TokenId> tokens = {1, 2};
  EXPECT_NE(LookupHash(2).Next(0, tokens), LookupHash(2).Next(0, tokens));
}

}  // namespace
}  // namespace kvasir

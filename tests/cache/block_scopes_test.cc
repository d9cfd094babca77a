#include "cache/block_scopes.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(BlockScopesTest, EqualScopesAreOneObject) {
  // Two objects of one content make every block of a look-up compare strings.
  BlockScopes scopes;
  const auto a = scopes.Share({.fingerprint = "aa", .salt = "x"});
  EXPECT_EQ(scopes.Share({.fingerprint = "aa", .salt = "x"}), a);
  EXPECT_EQ(*a, (BlockScope{.fingerprint = "aa", .salt = "x"}));
  const auto b = scopes.Share({.fingerprint = "aa", .salt = "y"});
  const auto c = scopes.Share({.fingerprint = "aa", .version = "x"});
  EXPECT_NE(a, b);
  EXPECT_NE(a, c);
  EXPECT_EQ(scopes.size(), 3);
}

TEST(BlockScopesTest, AScopeGoesWithTheLastThatRefersToIt) {
  // Salts are chosen by strangers: what nobody uses any more must not stay.
  BlockScopes scopes;
  auto a = scopes.Share({.salt = "x"});
  auto also_a = scopes.Share({.salt = "x"});
  a.reset();
  EXPECT_EQ(scopes.size(), 1);
  also_a.reset();
  EXPECT_EQ(scopes.size(), 0);
  a = scopes.Share({.salt = "x"});
  EXPECT_EQ(a->salt, "x");
}

}  // namespace
}  // namespace kvasir

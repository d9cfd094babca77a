#include "cache/prefix_index.h"

#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int32_t kBlockTokens = 2;
using TokenVector = std::vector<TokenId>;
using ScopePtr = std::shared_ptr<const BlockScope>;

ScopePtr Scope(std::string fingerprint, std::string salt) {
  return std::make_shared<const BlockScope>(
      BlockScope{.fingerprint = fingerprint, .salt = salt});
}

BlockIdentity Identity(BlockId parent, const ScopePtr& scope,
                       const TokenVector& tokens) {
  return {.parent = parent, .scope = scope, .tokens = tokens};
}

class PrefixIndexTest : public testing::Test {
 protected:
  const ScopePtr scope_ = Scope("aa", "");
  const TokenVector ones_ = {1, 1};
  const TokenVector twos_ = {2, 2};
};

TEST_F(PrefixIndexTest, FindsABlockThroughItsParentOnly) {
  // The same tokens after other tokens have other keys and values.
  PrefixIndex index(kBlockTokens, 64);
  index.Insert(Identity(BlockId(), scope_, ones_), BlockId(5));
  index.Insert(Identity(BlockId(5), scope_, twos_), BlockId(3));
  EXPECT_EQ(index.Find(Identity(BlockId(), scope_, ones_)), BlockId(5));
  EXPECT_EQ(index.Find(Identity(BlockId(5), scope_, twos_)), BlockId(3));
  EXPECT_FALSE(index.Find(Identity(BlockId(), scope_, twos_)).valid());
  EXPECT_FALSE(index.Find(Identity(BlockId(3), scope_, twos_)).valid());
  EXPECT_EQ(index.At(BlockId(3)).depth, 1);
  EXPECT_EQ(index.At(BlockId(5)).child_count, 1);
  EXPECT_THAT(index.Tokens(BlockId(3)), ElementsAre(2, 2));
  EXPECT_THAT(index.Blocks(), ElementsAre(BlockId(3), BlockId(5)));
  EXPECT_THAT(index.Violations(), IsEmpty());
}

TEST_F(PrefixIndexTest, EqualHashesAreToldApartByEveryField) {
  // PFX-4: without any hash bit everything collides. Each candidate that is
  // passed over must be counted and none believed.
  PrefixIndex index(kBlockTokens, 0);
  const std::vector<std::pair<ScopePtr, TokenVector>> fields = {
      {Scope("aa", ""), {1, 2}},  {Scope("bb", ""), {1, 2}},
      {Scope("aa", "x"), {1, 2}}, {Scope("aa", ""), {2, 1}},
      {Scope("ab", "c"), {1, 2}}, {Scope("a", "bc"), {1, 2}}};
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto& [scope, tokens] = fields[i];
    const BlockIdentity identity = Identity(BlockId(), scope, tokens);
    ASSERT_FALSE(index.Find(identity).valid()) << i;
    index.Insert(identity, BlockId(i));
  }
  EXPECT_EQ(index.rejected_collisions(), 0 + 1 + 2 + 3 + 4 + 5);
  for (size_t i = 0; i < fields.size(); ++i) {
    const auto& [scope, tokens] = fields[i];
    // A scope of equal content in another object is the same scope.
    EXPECT_EQ(index.Find(Identity(
                  BlockId(), std::make_shared<BlockScope>(*scope), tokens)),
              BlockId(i));
  }
  EXPECT_THAT(index.Violations(), IsEmpty());
}

TEST_F(PrefixIndexTest, AnOnlyChildIsComparedLikeAnyOther) {
  // It is reached without a hash, so nothing but the comparison is between it
  // and whoever asks for something else.
  PrefixIndex index(kBlockTokens, 64);
  const BlockIdentity root = Identity(BlockId(), scope_, ones_);
  index.Insert(root, BlockId(0));
  EXPECT_FALSE(index.Find(Identity(BlockId(0), scope_, ones_)).valid());
  const BlockIdentity child = Identity(BlockId(0), scope_, twos_);
  index.Insert(child, BlockId(1));
  EXPECT_EQ(index.Find(child), BlockId(1));
  EXPECT_FALSE(index.Find(Identity(BlockId(0), scope_, ones_)).valid());
  EXPECT_FALSE(
      index.Find(Identity(BlockId(0), Scope("aa", "other tenant"), twos_))
          .valid());
  index.Insert(Identity(BlockId(0), scope_, ones_), BlockId(2));
  EXPECT_EQ(index.Find(child), BlockId(1)) << "one of two by its hash";
  index.Remove(BlockId(1));
  EXPECT_FALSE(index.Find(child).valid());
  EXPECT_EQ(index.Find(Identity(BlockId(0), scope_, ones_)), BlockId(2));
  EXPECT_EQ(index.rejected_collisions(), 0);
}

TEST_F(PrefixIndexTest, NamesBlocksByTheKeyOfTheirWholePrefix) {
  // Operators, the canary and tiers call a block what every other process
  // would call it.
  PrefixIndex index(kBlockTokens, 64);
  index.Insert(Identity(BlockId(), scope_, ones_), BlockId(5));
  index.Insert(Identity(BlockId(5), scope_, twos_), BlockId(3));
  BlockHasher hasher;
  const BlockKey first = hasher.Key(nullptr, *scope_, ones_);
  const BlockKey second = hasher.Key(&first, *scope_, twos_);
  EXPECT_EQ(index.Key(BlockId(5)), first);
  EXPECT_EQ(index.keys().Find(second), BlockId(3));
  index.Relocate(BlockId(5), BlockId(8));
  EXPECT_EQ(index.keys().Find(first), BlockId(8));
  EXPECT_EQ(index.Find(Identity(BlockId(8), scope_, twos_)), BlockId(3));
  EXPECT_THAT(index.Violations(), IsEmpty());
  index.Remove(BlockId(3));
  EXPECT_FALSE(index.keys().Find(second).valid());
}

TEST_F(PrefixIndexTest, RemoveUnlinksFromAnyPlaceInAHashChain) {
  // A chain cut in the wrong place loses every block behind it.
  const std::vector<TokenVector> tokens = {{1, 0}, {2, 0}, {3, 0}, {4, 0},
                                           {5, 0}, {6, 0}, {7, 0}};
  for (size_t removed = 0; removed < tokens.size(); ++removed) {
    PrefixIndex index(kBlockTokens, 1);
    for (size_t i = 0; i < tokens.size(); ++i) {
      index.Insert(Identity(BlockId(), scope_, tokens[i]), BlockId(i));
    }
    index.Remove(BlockId(removed));
    for (size_t i = 0; i < tokens.size(); ++i) {
      const BlockId found = index.Find(Identity(BlockId(), scope_, tokens[i]));
      EXPECT_EQ(found, i == removed ? BlockId() : BlockId(i));
    }
    EXPECT_THAT(index.Violations(), IsEmpty());
  }
}

TEST_F(PrefixIndexTest, KeepsNotesForThePolicyUntilTheBlockGoes) {
  // A block id is used again; the notes of its last life must not survive.
  PrefixIndex index(kBlockTokens, 64);
  const BlockIdentity identity = Identity(BlockId(), scope_, ones_);
  index.Insert(identity, BlockId(0));
  index.RecordHit(BlockId(0));
  index.RecordHit(BlockId(0));
  index.RecordUse(BlockId(0), 17);
  EXPECT_EQ(index.At(BlockId(0)).hit_count, 2);
  EXPECT_EQ(index.At(BlockId(0)).last_use, 17);
  index.Remove(BlockId(0));
  index.Insert(identity, BlockId(0));
  EXPECT_EQ(index.At(BlockId(0)).hit_count, 0);
  EXPECT_EQ(index.At(BlockId(0)).last_use, 0);
  index.Clear();
  EXPECT_EQ(index.size(), 0);
  EXPECT_FALSE(index.Contains(BlockId(0)));
  EXPECT_FALSE(index.Find(identity).valid());
}

TEST_F(PrefixIndexTest, AgreesWithAMapOfWholePrefixes) {
  // Random insertions and removals of leaves in a small forest, under hashes
  // cut so far that chains are long, against a map that hashes nothing.
  using Prefix = std::pair<std::string, TokenVector>;  // salt, all tokens
  for (const auto& [seed, bits] :
       std::vector<std::pair<unsigned, int>>{{1, 64}, {2, 3}, {3, 0}}) {
    std::cout << "seed " << seed << ", " << bits << " hash bits\n";
    std::mt19937 random(seed);
    PrefixIndex index(kBlockTokens, bits);
    std::map<Prefix, BlockId> twin;
    const std::vector<ScopePtr> scopes = {Scope("aa", ""), Scope("aa", "x")};
    for (int i = 0; i < 3000; ++i) {
      const ScopePtr& scope = scopes[random() % 2];
      Prefix prefix = {scope->salt, {}};
      BlockId parent;
      BlockId found;
      BlockIdentity identity;
      TokenVector tokens;
      // Down the forest until a block is missing or the depth is reached.
      for (size_t depth = 1 + random() % 4; depth > 0; --depth) {
        tokens = {static_cast<TokenId>(random() % 2),
                  static_cast<TokenId>(random() % 2)};
        prefix.second.insert(prefix.second.end(), tokens.begin(), tokens.end());
        parent = found;
        identity = Identity(parent, scope, tokens);
        found = index.Find(identity);
        const auto expected = twin.find(prefix);
        ASSERT_EQ(found, expected == twin.end() ? BlockId() : expected->second);
        if (!found.valid()) break;
      }
      if (!found.valid()) {
        BlockId::Value id = 0;
        while (index.Contains(BlockId(id))) ++id;
        index.Insert(identity, BlockId(id));
        twin[prefix] = BlockId(id);
      } else if (index.At(found).child_count == 0 && random() % 2 == 0) {
        index.Remove(found);
        twin.erase(prefix);
      } else if (random() % 4 == 0) {
        BlockId::Value id = 0;
        while (index.Contains(BlockId(id))) ++id;
        index.Relocate(found, BlockId(id));
        twin[prefix] = BlockId(id);
      }
      ASSERT_EQ(index.size(), static_cast<int64_t>(twin.size()));
      if (i % 16 == 0) {
        ASSERT_THAT(index.Violations(), IsEmpty());
      }
    }
  }
}

TEST_F(PrefixIndexTest, StopsWhatWouldLoseOrDoubleABlock) {
  // A parent that goes before its child leaves a block that nobody can find
  // and that is still kept.
  PrefixIndex index(kBlockTokens, 64);
  const BlockIdentity root = Identity(BlockId(), scope_, ones_);
  index.Insert(root, BlockId(0));
  index.Insert(Identity(BlockId(0), scope_, twos_), BlockId(1));
  EXPECT_DEATH(index.Remove(BlockId(0)), "block 0 has 1 children");
  EXPECT_DEATH(index.Insert(root, BlockId(0)), "block 0");
  EXPECT_DEATH(index.Remove(BlockId(9)), "block 9 is not indexed");
  EXPECT_DEATH((void)index.At(BlockId()), "block -1 is not indexed");
  BlockIdentity half = root;
  half.tokens = half.tokens.subspan(1);
  EXPECT_DEATH(index.Insert(half, BlockId(2)), "1 tokens in a block of 2");
}

}  // namespace
}  // namespace kvasir

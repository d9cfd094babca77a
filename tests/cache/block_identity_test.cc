#include "cache/block_identity.h"

#include <set>
#include <vector>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

std::string Hex(const BlockKey& key) {
  return absl::BytesToHexString(std::string(key.begin(), key.end()));
}

TEST(BlockIdentityTest, KeysAreWhatTheHeaderSaysByteByByte) {
  // Computed once with another SHA-256: lengths as <Q, tokens as <I, over
  // parent | "00ff" | "salt" | tokens. Keys outlive the process in tiers, so
  // their recipe must not change unnoticed.
  BlockHasher hasher;
  const BlockScope scope{
      .fingerprint = "00ff", .version = "m@1", .salt = "salt"};
  const std::vector<TokenId> tokens = {1, 2, 65536, 2147483647};
  const BlockKey first = hasher.Key(nullptr, scope, tokens);
  EXPECT_EQ(Hex(first),
            "42235ec2e8317e9b4463572dcf55edaefadcf7ab50edfa70a2f7f070c2b16341");
  EXPECT_EQ(Hex(hasher.Key(&first, scope, tokens)),
            "e53749490701706a07311dcfcf3331d17161b67f73e134692faf7b0a69b156f7");
}

TEST(BlockIdentityTest, EveryFieldIsPartOfTheKey) {
  // A field left out would share blocks across what it tells apart.
  BlockHasher hasher;
  const BlockScope scope{.fingerprint = "aa", .salt = "s"};
  const std::vector<TokenId> tokens = {1, 2, 3, 4};
  const BlockKey parent = hasher.Key(nullptr, scope, {9, 9, 9, 9});
  const std::set<BlockKey> keys = {
      hasher.Key(nullptr, scope, tokens),
      hasher.Key(&parent, scope, tokens),
      hasher.Key(nullptr, {.fingerprint = "ab", .salt = "s"}, tokens),
      hasher.Key(nullptr, {.fingerprint = "aa", .salt = "t"}, tokens),
      hasher.Key(nullptr, {.fingerprint = "aa", .version = "s"}, tokens),
      hasher.Key(nullptr, {.fingerprint = "aa", .version = "v", .salt = "s"},
                 tokens),
      hasher.Key(nullptr, {.fingerprint = "aa", .salt = ""}, tokens),
      hasher.Key(nullptr, scope, {1, 2, 3, 5}),
      hasher.Key(nullptr, scope, {2, 1, 3, 4}),
      hasher.Key(nullptr, scope, {1, 2, 3}),
  };
  EXPECT_EQ(keys.size(), 10u);
}

TEST(BlockIdentityTest, FieldsWithEqualConcatenationsStayApart) {
  // PFX-2: `ab` + `c` and `a` + `bc` are different tenants, and so is a salt
  // that looks like a length, a parent's key or tokens.
  BlockHasher hasher;
  const std::vector<TokenId> tokens = {0x61616161, 0x62626262};
  const BlockKey parent = hasher.Key(nullptr, {}, tokens);
  const std::string parent_bytes(parent.begin(), parent.end());
  const std::set<BlockKey> keys = {
      hasher.Key(nullptr, {.fingerprint = "ab", .salt = "c"}, tokens),
      hasher.Key(nullptr, {.fingerprint = "a", .salt = "bc"}, tokens),
      hasher.Key(nullptr, {.fingerprint = "abc", .salt = ""}, tokens),
      hasher.Key(nullptr, {.fingerprint = "a", .version = "bc"}, tokens),
      hasher.Key(nullptr, {.fingerprint = "a", .version = "b", .salt = "c"},
                 tokens),
      hasher.Key(nullptr, {.fingerprint = "", .salt = "abc"}, tokens),
      hasher.Key(nullptr, {.fingerprint = "", .salt = "abcaaaa"}, {tokens[1]}),
      hasher.Key(nullptr, {.fingerprint = parent_bytes, .salt = ""}, tokens),
      hasher.Key(&parent, {.fingerprint = "", .salt = ""}, tokens),
  };
  EXPECT_EQ(keys.size(), 9u);
}

TEST(BlockIdentityTest, AKeyDoesNotDependOnWhatWasHashedBefore) {
  // The digest's state and the message buffer are reused between calls.
  const BlockScope scope{.fingerprint = "aa", .salt = ""};
  BlockHasher fresh;
  const BlockKey expected = fresh.Key(nullptr, scope, {1, 2, 3});
  BlockHasher used;
  const BlockKey parent = used.Key(
      nullptr, {.fingerprint = std::string(500, 'x'), .salt = "y"}, {7});
  (void)used.Key(&parent, scope, {8, 8, 8, 8, 8, 8});
  EXPECT_EQ(used.Key(nullptr, scope, {1, 2, 3}), expected);
}

}  // namespace
}  // namespace kvasir

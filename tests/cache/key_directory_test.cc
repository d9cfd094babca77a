#include "cache/key_directory.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAreArray;

// Begins with the bytes and is zero otherwise.
BlockKey Key(std::vector<uint8_t> bytes) {
  BlockKey key{};
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

std::string Hex(const BlockKey& key) {
  return absl::BytesToHexString(std::string(key.begin(), key.end()));
}

TEST(KeyDirectoryTest, TellsKeysApartThatBeginAlike) {
  // Four equal bytes are a coincidence that comes once in four thousand blocks
  // of a million; the wrong prefix must not be pinned or dropped for it.
  KeyDirectory directory;
  directory.Insert(BlockId(7), Key({1, 2, 3, 4, 5}));
  directory.Insert(BlockId(2), Key({1, 2, 3, 4, 6}));
  directory.Insert(BlockId(4), Key({1, 2, 3, 5}));
  EXPECT_EQ(directory.Find(Key({1, 2, 3, 4, 5})), BlockId(7));
  EXPECT_EQ(directory.Find(Key({1, 2, 3, 4, 6})), BlockId(2));
  EXPECT_FALSE(directory.Find(Key({1, 2, 3, 4})).valid());
  EXPECT_EQ(directory.StartingWith("01020304").size(), 2u);
  EXPECT_THAT(directory.StartingWith("0102030406"), ElementsAre(BlockId(2)));
  EXPECT_THAT(directory.StartingWith("010203040"), testing::SizeIs(2));
  EXPECT_THAT(directory.StartingWith("01020305"), ElementsAre(BlockId(4)));
  EXPECT_THAT(directory.StartingWith("01020306"), IsEmpty());
  directory.Remove(BlockId(2));
  EXPECT_THAT(directory.StartingWith("01020304"), ElementsAre(BlockId(7)));
  EXPECT_DEATH(directory.Remove(BlockId(2)), "block 2 has no key");
  EXPECT_DEATH((void)directory.StartingWith("0102030"), "0102030");
}

TEST(KeyDirectoryTest, AgreesWithAMapOfAllKeys) {
  // A chain that is cut in the wrong place loses a prefix that is there.
  const unsigned seed = 5;
  std::cout << "seed " << seed << "\n";
  std::mt19937 random(seed);
  KeyDirectory directory;
  std::map<BlockKey, BlockId> twin;
  std::vector<BlockId> blocks;
  for (int i = 0; i < 4000; ++i) {
    const auto byte = [&random] { return static_cast<uint8_t>(random() % 3); };
    const BlockKey key = Key({0, 0, byte(), byte(), byte(), byte()});
    const BlockId unused(i);
    const auto known = twin.find(key);
    if (known == twin.end()) {
      directory.Insert(unused, key);
      twin.emplace(key, unused);
    } else if (random() % 2 == 0) {
      directory.Remove(known->second);
      twin.erase(known);
    } else {
      directory.Relocate(known->second, unused);
      known->second = unused;
    }
    const auto now = twin.find(key);
    ASSERT_EQ(directory.Find(key), now == twin.end() ? BlockId() : now->second);
    const std::string digits = Hex(key).substr(0, 8 + random() % 5);
    std::vector<BlockId> expected;
    blocks.clear();
    for (const auto& [other, block] : twin) {
      blocks.push_back(block);
      if (absl::StartsWith(Hex(other), digits)) expected.push_back(block);
    }
    ASSERT_THAT(directory.StartingWith(digits),
                UnorderedElementsAreArray(expected));
    ASSERT_THAT(directory.Violations(blocks), IsEmpty());
  }
  directory.Clear();
  EXPECT_THAT(directory.Violations({}), IsEmpty());
}

}  // namespace
}  // namespace kvasir

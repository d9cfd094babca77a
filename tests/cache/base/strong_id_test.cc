#include "cache/base/strong_id.h"

#include <sstream>
#include <type_traits>

#include "absl/hash/hash_testing.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

TEST(StrongIdTest, IdsOfDifferentThingsDoNotMix) {
  // A block's id passed for a version's compiles with plain integers.
  static_assert(!std::is_convertible_v<BlockId, VersionId>);
  static_assert(!std::is_constructible_v<VersionId, BlockId>);
  static_assert(!std::is_convertible_v<int, BlockId>);
  static_assert(!std::is_convertible_v<BlockId, int>);
  static_assert(std::is_same_v<SequenceId::Value, int64_t>);
  EXPECT_EQ(sizeof(BlockId), sizeof(int32_t));  // kernels read arrays of them
}

TEST(StrongIdTest, ADefaultIdIsInvalid) {
  // Zero is a real block; the absence of one needs a value of its own.
  EXPECT_FALSE(BlockId().valid());
  EXPECT_TRUE(BlockId(0).valid());
  EXPECT_NE(BlockId(), BlockId(0));
}

TEST(StrongIdTest, OrdersAndPrintsAsItsNumber) {
  // Lowest id first is how pools grant.
  EXPECT_LT(BlockId(2), BlockId(10));
  std::ostringstream out;
  out << BlockId(42);
  EXPECT_EQ(out.str(), "42");
}

TEST(StrongIdTest, HashesAsItCompares) {
  // Ids are keys of hash maps.
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {BlockId(), BlockId(0), BlockId(1), BlockId(1 << 20)}));
}

}  // namespace
}  // namespace kvasir

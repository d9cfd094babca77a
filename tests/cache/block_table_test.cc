#include "cache/block_table.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using testing::ElementsAre;

constexpr VersionId kVersion(0);

class BlockTableTest : public testing::Test {
 protected:
  BlockTableTest() : pool_(4) { pool_.Grow(8); }

  BlockPool pool_;
};

TEST_F(BlockTableTest, KeepsIdsInTokenOrderBesideTheirPins) {
  // Kernels read the ids alone; they must be the pinned ones in this order.
  BlockTable table;
  BlockRef high = pool_.Grant(kVersion);
  high = pool_.Grant(kVersion);
  table.Append(std::move(high));
  table.Append(pool_.Grant(kVersion));
  EXPECT_THAT(table.ids(), ElementsAre(BlockId(1), BlockId(0)));
  EXPECT_EQ(table.ref(0).block(), BlockId(1));
  EXPECT_EQ(table.size(), 2);
}

TEST_F(BlockTableTest, ReplaceGivesTheOldBlockBack) {
  // A deduplicated copy that stayed pinned would be a leak per shared block.
  BlockTable table;
  table.Append(pool_.Grant(kVersion));
  table.Append(pool_.Grant(kVersion));
  table.Replace(0, pool_.Grant(kVersion));
  EXPECT_THAT(table.ids(), ElementsAre(BlockId(2), BlockId(1)));
  EXPECT_EQ(pool_.state(BlockId(0)), BlockState::kFree);
}

TEST_F(BlockTableTest, TruncateGivesBackFromTheEnd) {
  // How a dropped reservation leaves a table.
  BlockTable table;
  for (int i = 0; i < 4; ++i) table.Append(pool_.Grant(kVersion));
  table.Truncate(1);
  EXPECT_THAT(table.ids(), ElementsAre(BlockId(0)));
  EXPECT_EQ(pool_.tally().blocks.reserved, 1);
  table.Truncate(1);
  EXPECT_EQ(table.size(), 1);
}

TEST_F(BlockTableTest, GivesEverythingBackWhenItGoes) {
  // A sequence's end has no other clean-up than this.
  {
    BlockTable table;
    for (int i = 0; i < 5; ++i) table.Append(pool_.Grant(kVersion));
    BlockTable moved = std::move(table);
    EXPECT_EQ(pool_.tally().blocks.reserved, 5);
  }
  EXPECT_EQ(pool_.tally().blocks.free, 8);
}

TEST_F(BlockTableTest, StopsPlacesThatAreNotThere) {
  // An index beyond the end would pin a block that no kernel ever reads.
  BlockTable table;
  EXPECT_DEATH(table.Append(BlockRef()), "held");
  table.Append(pool_.Grant(kVersion));
  EXPECT_DEATH(table.Replace(1, pool_.Grant(kVersion)), "index 1 of 1");
  EXPECT_DEATH(table.Truncate(2), "2 of 1");
}

}  // namespace
}  // namespace kvasir

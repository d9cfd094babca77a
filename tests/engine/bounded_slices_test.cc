// What an operator asks for does not stop the streams: long work on the cache
// goes in slices between steps.

#include <memory>
#include <vector>

#include "absl/algorithm/container.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "cache/prefix_walk.h"
#include "engine/prefix_desk.h"
#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

// More blocks than two slices of a drop.
constexpr int64_t kPrompts = 4;
constexpr int64_t kPromptBlocks = 200;
static_assert(kPrompts * kPromptBlocks * PrefixWalk::kDropCost >
              2 * PrefixWalk::kMaxBlocksPerSlice);

class BoundedSlicesTest : public testing::Test {
 protected:
  BoundedSlicesTest() {
    for (int64_t i = 0; i < kPrompts; ++i) {
      engine_.Submit(RandomPrompt(i, kPromptBlocks * 16), 1);
      engine_.RunUntilIdle();
    }
  }

  int64_t BlocksOf(VersionId id) {
    for (const VersionSnapshot& version : engine_.Stats().cache.versions) {
      if (version.id == id) return version.blocks.total();
    }
    return 0;
  }

  // C3: a scrape that names versions must find those of all blocks.
  void ExpectAllBlocksHaveAVersion() {
    engine_.loop().Publish();
    const EngineStats told = engine_.published();
    for (const VersionSnapshot& version : told.cache.versions) {
      if (version.blocks.total() == 0) continue;
      EXPECT_TRUE(absl::c_any_of(told.versions, [&](const VersionInfo& info) {
        return info.id == version.id;
      })) << version.label;
    }
  }

  LoopHarness engine_{{.blocks = 1024}};
};

TEST_F(BoundedSlicesTest, ARequestGetsItsTokensWhileAVersionRetires) {
  const VersionId old(0);
  engine_.AddVersion("next", 1);
  const auto stream = engine_.Submit(RandomPrompt(99, 20), 64);
  engine_.Turn();
  const int64_t before = BlocksOf(old);
  ASSERT_GE(before, kPrompts * kPromptBlocks);
  ASSERT_TRUE(engine_.versions().Delete("", "tiny@0").ok());
  int slices = 0;
  int64_t tokens = engine_.Stats().generation_tokens;
  for (int64_t blocks = before; blocks > 0; ++slices) {
    engine_.Turn();
    ExpectAllBlocksHaveAVersion();
    const int64_t left = BlocksOf(old);
    ASSERT_LT(left, blocks);
    ASSERT_GE(
        left,
        blocks - PrefixWalk::kMaxBlocksPerSlice / PrefixWalk::kDropCost - 1);
    blocks = left;
    ASSERT_GT(engine_.Stats().generation_tokens, tokens)
        << "a step at every turn";
    tokens = engine_.Stats().generation_tokens;
  }
  EXPECT_GT(slices, 2);
  engine_.RunUntilIdle();
  EXPECT_EQ(engine_.versions().Find(old), nullptr);
}

TEST_F(BoundedSlicesTest, AnEvictionByFilterIsDoneInSlices) {
  PrefixDesk desk(&engine_.cache(), engine_.directory().List(), {});
  PrefixSweepOrder order{.selection = {}};
  int slices = 1;
  for (;; ++slices) {
    const int64_t before = engine_.Blocks().cached;
    const auto done = desk.Continue(order);
    ASSERT_TRUE(done.ok()) << done.status();
    ASSERT_LE(before - engine_.Blocks().cached,
              PrefixWalk::kMaxBlocksPerSlice / PrefixWalk::kDropCost + 1);
    if (*done) break;
  }
  EXPECT_GT(slices, 2);
  EXPECT_EQ(engine_.Blocks().cached, 0);
  EXPECT_GE(order.evicted.blocks, kPrompts * kPromptBlocks);
}

}  // namespace
}  // namespace kvasir

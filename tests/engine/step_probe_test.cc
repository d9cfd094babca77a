#include "engine/step_probe.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

absl::Status Probe(LoopHarness& engine) {
  return ProbeStep(engine.cache(), **engine.directory().Resolve("", ""));
}

// Nobody asked for it: it is in nobody's account and leaves nothing behind.
TEST(StepProbe, LeavesNothingBehind) {
  LoopHarness engine({});
  const CacheCounters before = engine.Stats().cache.counters;
  EXPECT_TRUE(Probe(engine).ok());
  ASSERT_EQ(engine.runner().steps().size(), 1u) << "it was computed";
  EXPECT_EQ(engine.runner().computed_rows(), 1);
  EXPECT_EQ(engine.UsedBlocks(), 0);
  EXPECT_EQ(engine.Stats().cache.counters.lookup_tokens, before.lookup_tokens);
  EXPECT_EQ(engine.Stats().cache.counters.recomputed_tokens, 0);
  EXPECT_EQ(engine.cache().LeaseCount(VersionId(0)), 0);
}

TEST(StepProbe, SaysWhatIsWrong) {
  LoopHarness engine({});
  engine.runner().FailNextStep(absl::InternalError("the device is gone"));
  const absl::Status broken = Probe(engine);
  EXPECT_EQ(broken.message(), "the device is gone");
  EXPECT_EQ(engine.UsedBlocks(), 0);
  EXPECT_TRUE(Probe(engine).ok());
}

// A version that drains or warms can fail a warm-up, too.
TEST(StepProbe, AnyVersionThatComputesCanBeProbed) {
  LoopHarness engine({});
  const VersionInfo warming = engine.AddWarmingVersion("new", 1);
  engine.AddVersion("other", 2);
  engine.runner(0).FailNextStep(absl::InternalError("draining"));
  engine.runner(1).FailNextStep(absl::InternalError("warming"));
  EXPECT_EQ(ProbeStep(engine.cache(), *engine.versions().Find(VersionId(0)))
                .message(),
            "draining");
  EXPECT_EQ(
      ProbeStep(engine.cache(), *engine.versions().Find(warming.id)).message(),
      "warming");
}

// Reserve() checks that there is room; a probe must not be what breaks it.
TEST(StepProbe, WithoutRoomItSaysNothing) {
  LoopHarness engine({.blocks = 1});
  const std::vector<TokenId> tokens = RandomPrompt(1, 16);
  auto lease =
      engine.cache().OpenLease({.version = VersionId(0), .tokens = tokens});
  ASSERT_TRUE(lease.ok());
  const LeaseGrowth growth{&*lease, tokens};
  engine.cache().Reserve({&growth, 1}).Commit();
  engine.runner().FailNextStep(absl::InternalError("the device is gone"));
  EXPECT_TRUE(Probe(engine).ok());
  EXPECT_TRUE(engine.runner().steps().empty());
}

}  // namespace
}  // namespace kvasir

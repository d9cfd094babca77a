#include "cache/reuse_model.h"

#include "gtest/gtest.h"

namespace kvasir {
namespace {

constexpr double kNoScale = 1;

void LearnAll(ReuseModel& model, double price = 0) {
  for (int i = 0; i < 2 * ReuseModel::kKinds; ++i) {
    model.LearnNext(kNoScale, price);
  }
}

TEST(ReuseModelTest, KnowsNothingAtFirstButThatAgeMakesWorthless) {
  // Until it has learned, a younger block must be worth more than an older.
  const ReuseModel model;
  EXPECT_GT(model.Worth(0, 10), model.Worth(0, 100));
  EXPECT_EQ(model.Worth(0, 10), model.Worth(5, 10));
}

TEST(ReuseModelTest, KindsGrowWithUsesAndEndSomewhere) {
  // A kind beyond the last would be read out of bounds.
  EXPECT_EQ(ReuseModel::KindOf(0, false), ReuseModel::KindOf(1, false));
  int last = -1;
  for (const int64_t uses : {1, 2, 3, 8, 16, 40, 1 << 20}) {
    EXPECT_GE(ReuseModel::KindOf(uses, false), last);
    last = ReuseModel::KindOf(uses, false);
    EXPECT_EQ(ReuseModel::KindOf(uses, true), last + 1);
    EXPECT_LT(last + 1, ReuseModel::kKinds);
  }
}

TEST(ReuseModelTest, KindsThatComeBackAreWorthMoreThanThoseThatDoNot) {
  // The point of it.
  ReuseModel model;
  const int returning = ReuseModel::KindOf(2, false);
  const int lonely = ReuseModel::KindOf(1, false);
  for (int i = 0; i < 1000; ++i) {
    model.CountReuse(returning, 100);
    if (i % 20 == 0) model.CountReuse(lonely, 100);
    model.CountLoss(lonely, 10'000);
  }
  LearnAll(model);
  EXPECT_GT(model.Worth(returning, 10), 5 * model.Worth(lonely, 10));
}

TEST(ReuseModelTest, WaitingBlocksCountAsNotBackYet) {
  // Without them all blocks that are known to be back look sure to come.
  const int kind = ReuseModel::KindOf(1, false);
  ReuseModel sure;
  ReuseModel doubtful;
  for (int i = 0; i < 100; ++i) {
    sure.CountReuse(kind, 100);
    doubtful.CountReuse(kind, 100);
  }
  for (int turn = 0; turn < 2 * ReuseModel::kKinds; ++turn) {
    if (turn % ReuseModel::kKinds == 0) {
      for (int i = 0; i < 900; ++i) doubtful.CountWaiting(kind, 5000);
    }
    sure.LearnNext(kNoScale, 0);
    doubtful.LearnNext(kNoScale, 0);
  }
  EXPECT_GT(sure.Worth(kind, 10), 4 * doubtful.Worth(kind, 10));
}

TEST(ReuseModelTest, ALoopIsWorthMoreTheLongerItWaited) {
  // Where everything comes back after 1000 references, the block that waited
  // longest comes next; age alone would say the opposite.
  ReuseModel model;
  const int kind = ReuseModel::KindOf(4, false);
  for (int i = 0; i < 1000; ++i) model.CountReuse(kind, 1000);
  LearnAll(model);
  EXPECT_GT(model.Worth(kind, 700), model.Worth(kind, 10));
}

TEST(ReuseModelTest, WhatFadesGivesWayToWhatIsNew) {
  // A cache runs for months; the habits of the first day must not rule it.
  ReuseModel model;
  const int kind = ReuseModel::KindOf(1, false);
  for (int i = 0; i < 1000; ++i) model.CountReuse(kind, 100);
  LearnAll(model);
  const double before = model.Worth(kind, 10);
  for (int i = 0; i < 8; ++i) model.Fade();
  for (int i = 0; i < 1000; ++i) model.CountLoss(kind, 100'000);
  LearnAll(model);
  EXPECT_LT(model.Worth(kind, 10), before / 20);
}

}  // namespace
}  // namespace kvasir

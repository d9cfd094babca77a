#include "cache/base/histogram.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {
namespace {

using testing::ElementsAre;

TEST(HistogramTest, ABoundBelongsToItsBucket) {
  // As Prometheus's label `le` says; off by one, a quantile is one bucket off.
  Histogram histogram({1, 2.5, 10});
  for (const double value : {0.0, 1.0, 1.1, 2.5, 10.0, 10.5, 1e9}) {
    histogram.Add(value);
  }
  EXPECT_THAT(histogram.counts, ElementsAre(2, 2, 1, 2));
  EXPECT_DOUBLE_EQ(histogram.sum, 1e9 + 25.1);
}

TEST(HistogramTest, WithoutBoundsThereIsOneBucket) {
  Histogram histogram;
  histogram.Add(3);
  EXPECT_THAT(histogram.counts, ElementsAre(1));
}

TEST(HistogramDeathTest, BoundsAreInOrder) {
  EXPECT_DEATH(Histogram({2, 1}), "is_sorted");
}

}  // namespace
}  // namespace kvasir

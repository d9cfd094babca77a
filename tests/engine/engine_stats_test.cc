#include "engine/engine_stats.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "engine/stats_recorder.h"
#include "tests/support/concurrent.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;

uint64_t Total(const Histogram& histogram) {
  return std::accumulate(histogram.counts.begin(), histogram.counts.end(),
                         uint64_t{0});
}

// A dashboard that is built once must find its buckets in every release.
TEST(EngineStats, BucketsAreThoseThatDashboardsExpect) {
  const EngineStats stats;
  EXPECT_EQ(stats.ttft_hit.bounds, stats.ttft_miss.bounds);
  EXPECT_EQ(stats.ttft_hit.bounds.front(), .001);
  EXPECT_EQ(stats.ttft_hit.bounds.back(), 2560);
  EXPECT_EQ(stats.inter_token.bounds, stats.time_per_output_token.bounds);
  EXPECT_EQ(stats.inter_token.bounds.front(), .001);
  EXPECT_EQ(stats.inter_token.bounds.back(), 80);
  EXPECT_EQ(stats.request_duration.bounds.front(), .01);
  EXPECT_EQ(stats.request_duration.bounds[13], 81.92);
  EXPECT_EQ(stats.step_tokens.bounds.back(), 8192);
  EXPECT_EQ(stats.prompt_tokens.bounds[3], 10);
  for (const Histogram* histogram :
       {&stats.ttft_hit, &stats.inter_token, &stats.request_duration,
        &stats.queue_time, &stats.step_decode_seconds, &stats.step_tokens,
        &stats.step_sequences, &stats.prompt_tokens}) {
    EXPECT_TRUE(
        std::is_sorted(histogram->bounds.begin(), histogram->bounds.end()));
    EXPECT_EQ(histogram->counts.size(), histogram->bounds.size() + 1);
  }
}

// One ending must move one counter, and only a full answer says anything about
// durations and lengths.
TEST(StatsRecorder, EachEndingHasItsCounter) {
  StatsRecorder recorder;
  FinishedEvent event;
  event.reason = FinishReason::kContextFull;
  event.usage.prompt_tokens = 30;
  event.usage.completion_tokens = 11;
  event.timings.decode = absl::Seconds(1);
  for (const Ending ending :
       {Ending::kFinished, Ending::kClient, Ending::kAdmin, Ending::kDrain,
        Ending::kDeadline, Ending::kFailed}) {
    recorder.CountRequest(event, ending, /*completion_tokens=*/22);
  }
  recorder.CountSequence(event);
  const EngineStats& stats = recorder.stats();
  EXPECT_THAT(stats.finished, ElementsAre(0, 0, 0, 1, 0, 0));
  EXPECT_EQ(stats.cancelled_by_client, 1);
  EXPECT_EQ(stats.cancelled_by_admin, 1);
  EXPECT_EQ(stats.cancelled_by_drain, 1);
  EXPECT_EQ(stats.cancelled_by_deadline, 1);
  EXPECT_EQ(stats.failed, 1);
  EXPECT_EQ(Total(stats.request_duration), 1u);
  EXPECT_DOUBLE_EQ(stats.time_per_output_token.sum, 0.1);
  EXPECT_DOUBLE_EQ(stats.prompt_tokens.sum, 30);
  EXPECT_DOUBLE_EQ(stats.completion_tokens.sum, 22) << "of all sequences";
}

// A single token has no gap to the next; counting it as zero would flatter.
TEST(StatsRecorder, OneTokenHasNoTimePerToken) {
  StatsRecorder recorder;
  FinishedEvent event;
  event.usage.completion_tokens = 1;
  recorder.CountSequence(event);
  EXPECT_EQ(Total(recorder.stats().time_per_output_token), 0u);
}

TEST(StatsRecorder, StepsAreSortedByPhase) {
  StatsRecorder recorder;
  const absl::Duration end = absl::Seconds(7);
  recorder.CountStep(StepPhase::kPrefill, 100, 1, absl::Seconds(2), end);
  recorder.CountStep(StepPhase::kDecode, 4, 4, absl::Seconds(1), end);
  recorder.CountStep(StepPhase::kMixed, 50, 3, absl::Seconds(3), end);
  const EngineStats& stats = recorder.stats();
  EXPECT_EQ(stats.steps, 3);
  EXPECT_EQ(stats.last_step, end);
  EXPECT_DOUBLE_EQ(stats.step_prefill_seconds.sum, 2);
  EXPECT_DOUBLE_EQ(stats.step_decode_seconds.sum, 1);
  EXPECT_DOUBLE_EQ(stats.step_mixed_seconds.sum, 3);
  EXPECT_DOUBLE_EQ(stats.step_tokens.sum, 154);
  EXPECT_DOUBLE_EQ(stats.step_sequences.sum, 8);
}

// A scrape amid a publication must see one state, not two halves.
TEST(StatsBoard, ReadersNeverSeeHalfAPublication) {
  StatsBoard board;
  bool torn = false;
  RunConcurrently({[&] {
                     EngineStats stats;
                     for (int i = 0; i < 2000; ++i) {
                       ++stats.steps;
                       ++stats.generation_tokens;
                       stats.step_tokens.Add(1);
                       board.Publish(stats);
                     }
                   },
                   [&] {
                     for (int i = 0; i < 2000; ++i) {
                       const EngineStats seen = board.Read();
                       torn = torn || seen.steps != seen.generation_tokens ||
                              static_cast<double>(seen.steps) !=
                                  seen.step_tokens.sum;
                     }
                   }});
  EXPECT_FALSE(torn);
  EXPECT_EQ(board.Read().steps, 2000);
}

}  // namespace
}  // namespace kvasir

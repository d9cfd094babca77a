#include "engine/sequence.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

#include "cache/kv_cache.h"
#include "cache/memory/host_memory.h"
#include "tests/support/fake_runner.h"
#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

constexpr int32_t kBlock = 4;

// A sequence with a prompt of 10 tokens over a cache of its own.
class SequenceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made =
        KvCache::Create({.layout = FakeLayout(kBlock), .capacity_blocks = 32},
                        MakeHostMemory(), MakeLruPolicy());
    ASSERT_TRUE(made.ok());
    cache_ = *std::move(made);
    version_ = cache_->AddVersion("v", "00");
  }

  std::unique_ptr<Sequence> Make(StoppingParams stopping = {}) {
    Submission submission;
    submission.request.prompt = RandomPrompt(1, 10);
    submission.request.stopping = std::move(stopping);
    submission.sink = sink_;
    submission.cancel = std::make_shared<CancelFlag>();
    submission.submitted = absl::Seconds(100);
    submission.request.version = IdleVersion(version_);
    return std::make_unique<Sequence>(
        SequenceId(0), std::make_shared<RequestGroup>(std::move(submission)), 0,
        16);
  }

  int64_t Start(Sequence& sequence) {
    auto lease = cache_->OpenLease({.version = version_,
                                    .tokens = sequence.known_tokens(),
                                    .salt = "",
                                    .resumed = sequence.preempted()});
    EXPECT_TRUE(lease.ok());
    return sequence.Start(*std::move(lease));
  }

  std::unique_ptr<Sequence> MakeStarted(StoppingParams stopping = {}) {
    auto sequence = Make(std::move(stopping));
    Start(*sequence);
    return sequence;
  }

  ComputedTokens Compute(Sequence& sequence, int64_t count) {
    const LeaseGrowth growth{
        &sequence.lease(),
        sequence.known_tokens().subspan(sequence.computed_count(), count)};
    cache_->Reserve({&growth, 1}).Commit();
    return sequence.NoteComputed(count);
  }

  std::shared_ptr<RecordingSink> sink_ = std::make_shared<RecordingSink>();
  std::unique_ptr<KvCache> cache_;
  VersionId version_;
};

// Each prompt token is either computed or cached, once, whatever happened in
// between; each token computed again is recomputed.
TEST_F(SequenceTest, AccountsSurviveAPreemption) {
  auto sequence = Make();
  EXPECT_EQ(Start(*sequence), 0);
  ComputedTokens computed = Compute(*sequence, 7);
  EXPECT_EQ(computed.prompt, 7);
  EXPECT_EQ(computed.recomputed, 0);
  sequence->Preempt();
  EXPECT_FALSE(sequence->running());
  EXPECT_EQ(sequence->high_water(), 7);

  // One sealed block of 4 is found again: no hit, since it was its own.
  EXPECT_EQ(Start(*sequence), 0);
  EXPECT_EQ(sequence->computed_count(), 4);
  computed = Compute(*sequence, 6);
  EXPECT_EQ(computed.prompt, 3);
  EXPECT_EQ(computed.recomputed, 3);
  EXPECT_EQ(sequence->usage().cached_tokens, 0);
  EXPECT_EQ(sequence->usage().recomputed_tokens, 3);
  EXPECT_EQ(sequence->usage().preemption_count, 1);
}

// What others have computed while this one was out is spared, but only from
// where it had been.
TEST_F(SequenceTest, FindingMoreThanItHadComputedIsAHit) {
  auto sequence = Make();
  Start(*sequence);
  Compute(*sequence, 2);
  sequence->Preempt();
  auto other = Make();
  Start(*other);
  Compute(*other, 9);
  EXPECT_EQ(Start(*sequence), 6) << "8 tokens found, 2 of them its own";
  EXPECT_EQ(sequence->usage().cached_tokens, 6);
}

TEST_F(SequenceTest, ExtendingCountsOnce) {
  auto sequence = Make();
  Start(*sequence);
  auto other = Make();
  Start(*other);
  Compute(*other, 4);
  cache_->ExtendLease(sequence->lease(), sequence->known_tokens());
  EXPECT_EQ(sequence->NoteExtended(), 4);
  EXPECT_EQ(sequence->NoteExtended(), 0);
  EXPECT_EQ(sequence->usage().cached_tokens, 4);
}

// The most specific reason is told: an end token that is also the last one
// allowed still is the model's own end.
TEST_F(SequenceTest, ReasonsHaveAnOrder) {
  auto sequence = MakeStarted({.max_tokens = 1, .token_ids = {2}});
  EXPECT_EQ(sequence->Append(2, std::nullopt, absl::ZeroDuration()).reason,
            FinishReason::kEos);
  sequence =
      MakeStarted({.max_tokens = 1, .ignore_eos = true, .token_ids = {2}});
  EXPECT_EQ(sequence->Append(2, std::nullopt, absl::ZeroDuration()).reason,
            FinishReason::kStopToken);
  sequence = MakeStarted({.max_tokens = 1, .ignore_eos = true});
  EXPECT_EQ(sequence->Append(2, std::nullopt, absl::ZeroDuration()).reason,
            FinishReason::kLength);
  sequence = MakeStarted({.max_tokens = 6});
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(sequence->Append(9, std::nullopt, absl::ZeroDuration())
                     .reason.has_value());
  }
  // 16 tokens: both limits at once.
  EXPECT_EQ(sequence->Append(9, std::nullopt, absl::ZeroDuration()).reason,
            FinishReason::kLength);
  sequence = MakeStarted();
  for (int i = 0; i < 5; ++i)
    sequence->Append(9, std::nullopt, absl::ZeroDuration());
  EXPECT_EQ(sequence->Append(9, std::nullopt, absl::ZeroDuration()).reason,
            FinishReason::kContextFull);
}

// Timings of a request must add up, also when it ended early.
TEST_F(SequenceTest, TimingsCoverWhatHappened) {
  auto sequence = Make();
  Timings timings =
      sequence->Fail(absl::CancelledError(), absl::Seconds(103)).timings;
  EXPECT_EQ(timings.queue, absl::Seconds(3));
  EXPECT_EQ(timings.total, absl::Seconds(3));

  sequence = MakeStarted();
  EXPECT_TRUE(sequence->NoteScheduled(absl::Seconds(102)));
  EXPECT_FALSE(sequence->NoteScheduled(absl::Seconds(109)));
  sequence->Append(9, std::nullopt, absl::Seconds(105));
  sequence->Append(9, std::nullopt, absl::Seconds(106));
  sequence->Append(9, std::nullopt, absl::Seconds(110));
  timings = sequence->Finish(FinishReason::kLength, absl::Seconds(111)).timings;
  EXPECT_EQ(timings.queue, absl::Seconds(2));
  EXPECT_EQ(timings.prefill, absl::Seconds(3));
  EXPECT_EQ(timings.first_token, absl::Seconds(5));
  EXPECT_EQ(timings.decode, absl::Seconds(5));
  EXPECT_EQ(timings.total, absl::Seconds(11));
}

// Bytes of an unfinished character must not be lost when the stream ends.
TEST_F(SequenceTest, TheTailHoldsAnUnfinishedCharacter) {
  auto sequence = MakeStarted();
  EXPECT_EQ(
      sequence->Append(3 + 'a', std::nullopt, absl::ZeroDuration()).delta.text,
      "a");
  EXPECT_EQ(
      sequence->Append(3 + 0xc3, std::nullopt, absl::ZeroDuration()).delta.text,
      "");
  EXPECT_EQ(
      sequence->Finish(FinishReason::kLength, absl::ZeroDuration()).tail_text,
      "\xef\xbf\xbd");
}

// A sink that takes nothing more is the same as a client that cancelled.
TEST_F(SequenceTest, ARefusedPushRaisesTheFlag) {
  auto sequence = Make();
  sink_->reads = 2;
  sequence->Push(AcceptedEvent{});
  sequence->Push(DeltaEvent{});
  EXPECT_FALSE(sequence->cancel().requested());
  sequence->Push(DeltaEvent{});
  ASSERT_TRUE(sequence->cancel().requested());
  EXPECT_EQ(sequence->cancel().source(), CancelSource::kClient);
}

}  // namespace
}  // namespace kvasir

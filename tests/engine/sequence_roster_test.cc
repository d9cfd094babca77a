#include "engine/sequence_roster.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "cache/kv_cache.h"
#include "cache/memory/host_memory.h"
#include "tests/support/fake_runner.h"
#include "tests/support/loop_harness.h"

namespace kvasir {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kBlock = 4;

template <typename Container>
std::vector<int64_t> Ids(const Container& sequences) {
  std::vector<int64_t> ids;
  for (const auto& sequence : sequences) ids.push_back(sequence->id().value());
  return ids;
}

class SequenceRosterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made =
        KvCache::Create({.layout = FakeLayout(kBlock), .capacity_blocks = 64},
                        MakeHostMemory(), MakeLruPolicy());
    ASSERT_TRUE(made.ok());
    cache_ = *std::move(made);
    version_ = cache_->AddVersion("v", "00");
  }

  std::shared_ptr<RecordingSink> Enqueue(int64_t id,
                                         std::vector<TokenId> prompt) {
    Submission submission;
    submission.request.prompt = std::move(prompt);
    const auto sink = std::make_shared<RecordingSink>();
    submission.sink = sink;
    submission.cancel = std::make_shared<CancelFlag>();
    submission.request.version = IdleVersion(version_);
    roster_.Enqueue(std::make_unique<Sequence>(
        SequenceId(id), std::make_shared<RequestGroup>(std::move(submission)),
        0, 100));
    return sink;
  }

  // Gives the first waiting sequence a lease and lets it run.
  Sequence& Promote() {
    Sequence& first = *roster_.waiting().front();
    auto lease = cache_->OpenLease(
        {.version = version_, .tokens = first.known_tokens(), .salt = ""});
    EXPECT_TRUE(lease.ok());
    first.Start(*std::move(lease));
    roster_.PromoteFirst();
    return *roster_.running().back();
  }

  void Compute(Sequence& sequence, int64_t count) {
    const LeaseGrowth growth{
        &sequence.lease(),
        sequence.known_tokens().subspan(sequence.computed_count(), count)};
    cache_->Reserve({&growth, 1}).Commit();
    sequence.NoteComputed(count);
  }

  std::unique_ptr<KvCache> cache_;
  VersionId version_;
  SequenceRoster roster_;  // before the cache it leases from
};

// The scheduler relies on it: lists in order of arrival, and no waiting
// sequence older than a running one.
TEST_F(SequenceRosterTest, PreemptionKeepsTheOrderOfArrival) {
  for (int64_t id = 0; id < 5; ++id) Enqueue(id, RandomPrompt(id, 6));
  for (int i = 0; i < 3; ++i) Promote();
  EXPECT_EQ(roster_.PreemptLast().id(), SequenceId(2));
  EXPECT_EQ(roster_.PreemptLast().id(), SequenceId(1));
  EXPECT_THAT(Ids(roster_.running()), ElementsAre(0));
  EXPECT_THAT(Ids(roster_.waiting()), ElementsAre(1, 2, 3, 4));
  EXPECT_TRUE(roster_.waiting()[0]->preempted());
  EXPECT_FALSE(roster_.waiting()[0]->running());
  Promote();
  EXPECT_THAT(Ids(roster_.running()), ElementsAre(0, 1));
}

// Those set aside hold no memory: one that waits for some must be refused in
// the end, and not wait until the others' clients read.
TEST_F(SequenceRosterTest, OnlyWhoHoldsSomethingIsWaitedFor) {
  const auto sink = Enqueue(0, RandomPrompt(0, 6));
  Promote();
  EXPECT_FALSE(roster_.WaitsForReaders());
  sink->full = true;
  roster_.NotePauses();
  EXPECT_TRUE(roster_.WaitsForReaders());
  ASSERT_TRUE(roster_.SetAsideLastPaused());
  EXPECT_TRUE(roster_.WaitsForReaders()) << "there is nothing else";
  Enqueue(1, RandomPrompt(1, 6));
  EXPECT_FALSE(roster_.WaitsForReaders());
  Promote();
  EXPECT_FALSE(roster_.WaitsForReaders());
}

TEST_F(SequenceRosterTest, RemovesFromBothLists) {
  for (int64_t id = 0; id < 6; ++id) Enqueue(id, RandomPrompt(id, 6));
  for (int i = 0; i < 3; ++i) Promote();
  const auto removed = roster_.RemoveIf(
      [](const Sequence& sequence) { return sequence.id().value() % 2 == 1; });
  EXPECT_THAT(Ids(removed), ElementsAre(1, 3, 5));
  EXPECT_THAT(Ids(roster_.running()), ElementsAre(0, 2));
  EXPECT_THAT(Ids(roster_.waiting()), ElementsAre(4));
  EXPECT_EQ(roster_.Remove(SequenceId(4))->id(), SequenceId(4));
  EXPECT_THAT(roster_.waiting(), IsEmpty());
  EXPECT_FALSE(roster_.empty());
}

// The view is all that the scheduler knows, so it has to be true.
TEST_F(SequenceRosterTest, TheViewSaysWhatThereIs) {
  Enqueue(0, RandomPrompt(0, 10));
  Enqueue(1, RandomPrompt(1, 9));
  Compute(Promote(), 5);
  const SchedulerView view = roster_.View(cache_->Capacity(), true, version_);
  ASSERT_EQ(view.running.size(), 1u);
  EXPECT_EQ(view.running[0].id, SequenceId(0));
  EXPECT_EQ(view.running[0].known_tokens, 10);
  EXPECT_EQ(view.running[0].computed_tokens, 5);
  EXPECT_EQ(view.running[0].piece_count, 2);
  EXPECT_FALSE(view.running[0].waits_for_prefix);
  ASSERT_EQ(view.waiting.size(), 1u);
  EXPECT_EQ(view.waiting[0].known_tokens, 9);
  EXPECT_EQ(view.capacity.total_blocks, 64);
  EXPECT_EQ(view.capacity.available_blocks(), 62);
}

// Sequences that decode take no part in the search for leaders; those between
// them must get the flag that is theirs.
TEST_F(SequenceRosterTest, PrefixWaitersAreMarkedInPlace) {
  const std::vector<TokenId> shared = RandomPrompt(7, 20);
  Enqueue(0, shared);
  Enqueue(1, RandomPrompt(1, 6));
  Enqueue(2, shared);
  Promote();
  Compute(Promote(), 5);  // decodes: one token to go
  Promote();
  const auto waits = [&](bool share_prefixes) {
    std::vector<bool> flags;
    for (const RunningView& running :
         roster_.View(cache_->Capacity(), share_prefixes, version_).running) {
      flags.push_back(running.waits_for_prefix);
    }
    return flags;
  };
  EXPECT_THAT(waits(true), ElementsAre(false, false, true));
  EXPECT_THAT(waits(false), ElementsAre(false, false, false));
}

// Versions take turns in the order of their ids, whoever comes and goes.
TEST_F(SequenceRosterTest, VersionsTakeTurnsInTheOrderOfTheirIds) {
  EXPECT_FALSE(roster_.VersionAfter(VersionId()).valid());
  const VersionId first = version_;
  const VersionId second = cache_->AddVersion("w", "11");
  const VersionId third = cache_->AddVersion("x", "22");
  int64_t id = 0;
  for (const VersionId version : {third, first, third, second}) {
    version_ = version;
    Enqueue(id, RandomPrompt(id, 10));
    Promote();
    ++id;
  }
  VersionId turn;
  for (const VersionId expected : {first, second, third, first, second}) {
    turn = roster_.VersionAfter(turn);
    EXPECT_EQ(turn, expected);
  }
  roster_.Remove(SequenceId(3));
  EXPECT_EQ(roster_.VersionAfter(first), third);
  const SchedulerView view = roster_.View(cache_->Capacity(), true, third);
  EXPECT_TRUE(view.running[0].in_turn);
  EXPECT_FALSE(view.running[1].in_turn);
}

}  // namespace
}  // namespace kvasir

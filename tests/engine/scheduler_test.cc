#include "engine/scheduler.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvasir {

// How a failing expectation prints a plan's rows.
void PrintTo(const PlannedRows& rows, std::ostream* out) {
  *out << "{" << rows.id << ", " << rows.token_count << ", "
       << (rows.wants_logits ? "logits" : "-") << "}";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kBlock = 16;

CapacityView Free(int64_t free_blocks, int64_t cached_blocks = 0,
                  int64_t total_blocks = 1000) {
  return {.block_tokens = kBlock,
          .total_blocks = total_blocks,
          .free_pieces = free_blocks,
          .cached_pieces = cached_blocks};
}

RunningView Running(int64_t id, int64_t known, int64_t computed) {
  return {.id = SequenceId(id),
          .known_tokens = known,
          .computed_tokens = computed,
          .piece_count = (computed + kBlock - 1) / kBlock};
}

WaitingView Waiting(int64_t id, int64_t known, int64_t shared = 0) {
  return {.id = SequenceId(id), .known_tokens = known, .shared_blocks = shared};
}

PlannedRows Rows(int64_t id, int64_t count, bool logits) {
  return {SequenceId(id), count, logits};
}

// An empty engine must not be given made-up work.
// A step computes in one version. What the others hold counts all the same.
TEST(SchedulerPlan, OnlySequencesInTurnGetRows) {
  SchedulerView view{.capacity = Free(1)};
  view.running = {Running(1, 17, 16), Running(2, 17, 16), Running(3, 40, 0)};
  view.running[0].in_turn = false;
  view.running[2].in_turn = false;
  const StepPlan plan = Scheduler({}).Plan(view);
  EXPECT_THAT(plan.rows, ElementsAre(PlannedRows{SequenceId(2), 1, true}));
}

// Memory is one for all versions: the youngest gives way, be it out of turn.
TEST(SchedulerPlan, TheYoungestOfAnotherVersionIsPreempted) {
  SchedulerView view{.capacity = Free(0)};
  view.running = {Running(1, 17, 16), Running(2, 20, 16)};
  view.running[1].in_turn = false;
  const StepPlan plan = Scheduler({}).Plan(view);
  EXPECT_EQ(plan.preempt, SequenceId(2));
  EXPECT_THAT(plan.rows, IsEmpty());
}

TEST(SchedulerPlan, NothingRunningMeansAnEmptyPlan) {
  const StepPlan plan = Scheduler({}).Plan(
      {.capacity = Free(10), .running = {}, .waiting = {Waiting(0, 5)}});
  EXPECT_FALSE(plan.preempt.valid());
  EXPECT_THAT(plan.rows, IsEmpty());
  EXPECT_EQ(plan.total_tokens, 0);
}

// Streams would stall behind a long prompt that arrived before them.
TEST(SchedulerPlan, DecodesTakeTheBudgetBeforeAnOlderPrefill) {
  const Scheduler scheduler({.token_budget = 10});
  const StepPlan plan = scheduler.Plan(
      {.capacity = Free(100),
       .running = {Running(0, 300, 32), Running(1, 21, 20), Running(2, 9, 8)},
       .waiting = {}});
  EXPECT_THAT(plan.rows, ElementsAre(Rows(0, 8, false), Rows(1, 1, true),
                                     Rows(2, 1, true)));
  EXPECT_EQ(plan.total_tokens, 10);
}

// A chunk that does not reach the last known token has no use for logits.
TEST(SchedulerPlan, PrefillIsCutIntoChunksAndOnlyTheLastWantsLogits) {
  const Scheduler scheduler({.token_budget = 256, .prefill_chunk = 64});
  for (const auto& [computed, rows] :
       {std::pair<int64_t, PlannedRows>{0, Rows(7, 64, false)},
        {64, Rows(7, 64, false)},
        {128, Rows(7, 22, true)}}) {
    const StepPlan plan =
        scheduler.Plan({.capacity = Free(100),
                        .running = {Running(7, 150, computed)},
                        .waiting = {}});
    EXPECT_THAT(plan.rows, ElementsAre(rows)) << computed;
  }
}

// First come, first served: what is left of the budget goes on to the next.
TEST(SchedulerPlan, PrefillsShareTheBudgetInOrderOfArrival) {
  const Scheduler scheduler({.token_budget = 100, .prefill_chunk = 80});
  const StepPlan plan = scheduler.Plan(
      {.capacity = Free(100),
       .running = {Running(1, 60, 0), Running(2, 200, 0), Running(3, 50, 0)},
       .waiting = {}});
  EXPECT_THAT(plan.rows, ElementsAre(Rows(1, 60, true), Rows(2, 40, false)));
}

// Computing a prefix that an older sequence computes in the same step would be
// work done twice.
TEST(SchedulerPlan, SequencesThatWaitForAPrefixGetNoRows) {
  RunningView follower = Running(2, 200, 0);
  follower.waits_for_prefix = true;
  const StepPlan plan = Scheduler({}).Plan(
      {.capacity = Free(100),
       .running = {Running(1, 200, 0), follower, Running(3, 20, 0)},
       .waiting = {}});
  EXPECT_THAT(plan.rows, ElementsAre(Rows(1, 200, true), Rows(3, 20, true)));
}

// A chunk is cut to the blocks there are instead of taking them from others.
TEST(SchedulerPlan, PrefillShrinksToTheBlocksThatAreLeft) {
  const StepPlan plan = Scheduler({}).Plan({.capacity = Free(1, 2),
                                            .running = {Running(1, 200, 10)},
                                            .waiting = {}});
  // 6 places in the open block and 3 blocks.
  EXPECT_THAT(plan.rows, ElementsAre(Rows(1, 54, false)));
}

// The open block's own room costs no new block.
TEST(SchedulerPlan, ADecodeInsideItsBlockNeedsNoRoom) {
  const StepPlan plan = Scheduler({}).Plan(
      {.capacity = Free(0), .running = {Running(1, 20, 19)}, .waiting = {}});
  EXPECT_THAT(plan.rows, ElementsAre(Rows(1, 1, true)));
}

// The first to arrive has to finish first, or nobody ever may.
TEST(SchedulerPlan, WithoutRoomTheYoungestIsPreempted) {
  const StepPlan plan = Scheduler({}).Plan(
      {.capacity = Free(0),
       .running = {Running(1, 33, 32), Running(2, 20, 19), Running(3, 20, 19)},
       .waiting = {}});
  EXPECT_EQ(plan.preempt, SequenceId(3));
  EXPECT_THAT(plan.rows, IsEmpty());
}

// A younger decode would otherwise take the last block in front of an older
// prefill and keep it from ever going on.
TEST(SchedulerPlan, BlocksAreClaimedInOrderOfArrival) {
  const StepPlan plan =
      Scheduler({}).Plan({.capacity = Free(1),
                          .running = {Running(1, 100, 32), Running(2, 33, 32)},
                          .waiting = {}});
  EXPECT_EQ(plan.preempt, SequenceId(2));
}

// Preempting itself would make a young prefill start all over.
TEST(SchedulerPlan, TheYoungestPrefillWaitsForRoomWhileOthersWork) {
  const StepPlan plan =
      Scheduler({}).Plan({.capacity = Free(0),
                          .running = {Running(1, 20, 19), Running(2, 100, 32)},
                          .waiting = {}});
  EXPECT_FALSE(plan.preempt.valid());
  EXPECT_THAT(plan.rows, ElementsAre(Rows(1, 1, true)));
}

// More decodes than budget would leave the same ones out in every step.
TEST(SchedulerAdmission, NoMoreSequencesThanRowsInAStep) {
  const Scheduler scheduler({.token_budget = 3, .max_sequences = 64});
  const SchedulerView view{
      .capacity = Free(1000),
      .running = {Running(0, 9, 8)},
      .waiting = {Waiting(1, 5), Waiting(2, 5), Waiting(3, 5)}};
  EXPECT_EQ(scheduler.CountAdmissible(view), 2);
}

TEST(SchedulerAdmission, NoMoreSequencesThanMaxSequences) {
  const Scheduler scheduler({.token_budget = 256, .max_sequences = 2});
  EXPECT_EQ(scheduler.CountAdmissible(
                {.capacity = Free(1000),
                 .running = {},
                 .waiting = {Waiting(1, 5), Waiting(2, 5), Waiting(3, 5)}}),
            2);
}

// A sequence that can run only alone must still run.
TEST(SchedulerAdmission, ALoneSequenceOnlyHasToFit) {
  const Scheduler scheduler({});
  const auto admissible = [&](int64_t blocks) {
    return scheduler.CountAdmissible({.capacity = Free(0, blocks),
                                      .running = {},
                                      .waiting = {Waiting(1, 160)}});
  };
  EXPECT_EQ(admissible(10), 1);
  EXPECT_EQ(admissible(9), 0);
}

// Admitted with room for its prompt only, a sequence would be preempted at its
// first new block.
TEST(SchedulerAdmission, EverySequenceKeepsABlockToGrowBy) {
  const Scheduler scheduler({});
  const auto admissible = [&](int64_t blocks) {
    return scheduler.CountAdmissible(
        {.capacity = Free(blocks),
         .running = {Running(0, 33,
                             32)},  // 2 blocks, wants a third and one more
         .waiting = {Waiting(1, 40), Waiting(2, 16)}});
  };
  EXPECT_EQ(admissible(2 + 4 + 2), 2);
  EXPECT_EQ(admissible(2 + 4 + 1), 1);
  EXPECT_EQ(admissible(2 + 4), 1);
  EXPECT_EQ(admissible(2 + 3), 0);
}

// What a running prefill has yet to compute is as good as taken.
TEST(SchedulerAdmission, OutstandingPrefillCountsAsTaken) {
  const Scheduler scheduler({});
  const SchedulerView view{.capacity = Free(20),
                           .running = {Running(0, 256, 16)},  // 15 + 1 to come
                           .waiting = {Waiting(1, 64)}};      // 4 + 1
  EXPECT_EQ(scheduler.CountAdmissible(view), 0);
}

// A long shared system prompt would otherwise be counted once per request, and
// a cache that holds all of them would serve one at a time.
TEST(SchedulerAdmission, SharedBlocksTakeNoRoom) {
  const Scheduler scheduler({});
  const auto admissible = [&](int64_t shared) {
    return scheduler.CountAdmissible(
        {.capacity = Free(8),
         .running = {Running(0, 513, 512)},
         .waiting = {Waiting(1, 530, shared), Waiting(2, 530, shared)}});
  };
  EXPECT_EQ(admissible(32), 2);
  EXPECT_EQ(admissible(0), 0);
}

// If small requests could pass a big one, it would wait for ever.
TEST(SchedulerAdmission, NobodyOvertakes) {
  const Scheduler scheduler({});
  EXPECT_EQ(
      scheduler.CountAdmissible({.capacity = Free(10),
                                 .running = {Running(0, 33, 32)},
                                 .waiting = {Waiting(1, 400), Waiting(2, 5)}}),
      0);
}

// A made-up engine around the scheduler: no cache, no tokens, only counts.
class Simulation {
 public:
  struct Job {
    int64_t prompt = 0;
    int64_t total = 0;  // prompt and output
    int64_t known = 0;
    int64_t computed = -1;  // -1: waits
    int64_t preemptions = 0;
    bool done() const { return known == total; }
  };

  Simulation(const Scheduler::Limits& limits, int64_t pool_blocks,
             std::vector<Job> jobs, int32_t pieces_per_block = 1)
      : scheduler_(limits),
        pool_(pool_blocks),
        pieces_per_block_(pieces_per_block),
        jobs_(std::move(jobs)) {
    for (Job& job : jobs_) job.known = job.prompt;
  }

  // Returns the order in which jobs ended. What preempted jobs leave in the
  // prefix cache is taken as lost, which is the worst case.
  std::vector<int64_t> Run() {
    for (int64_t step = 0; ended_.size() < jobs_.size(); ++step) {
      if (step == kMaxSteps) {
        ADD_FAILURE() << "no end after " << step << " steps";
        break;
      }
      Step();
    }
    return ended_;
  }

  int64_t steps() const { return steps_; }
  int64_t computed_rows() const { return rows_; }
  const std::vector<Job>& jobs() const { return jobs_; }

 private:
  static constexpr int64_t kMaxSteps = 100000;

  int64_t Pieces(int64_t tokens) const {
    const int64_t piece = kBlock / pieces_per_block_;
    return (tokens + piece - 1) / piece;
  }

  SchedulerView View() const {
    SchedulerView view;
    int64_t used = 0;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      const Job& job = jobs_[i];
      const SequenceId id(static_cast<int64_t>(i));
      if (job.done()) continue;
      if (job.computed < 0) {
        view.waiting.push_back({.id = id, .known_tokens = job.known});
      } else {
        view.running.push_back(
            {id, job.known, job.computed, Pieces(job.computed), false});
        used += Pieces(job.computed);
      }
    }
    view.capacity = Free(pool_ * pieces_per_block_ - used, 0, pool_);
    view.capacity.pieces_per_block = pieces_per_block_;
    return view;
  }

  void Step() {
    SchedulerView view = View();
    const int64_t admissible = scheduler_.CountAdmissible(view);
    for (int64_t i = 0; i < admissible; ++i)
      Of(view.waiting[i].id).computed = 0;
    StepPlan plan = scheduler_.Plan(View());
    while (plan.preempt.valid()) {
      ASSERT_EQ(plan.preempt, View().running.back().id);
      Of(plan.preempt).computed = -1;
      ++Of(plan.preempt).preemptions;
      plan = scheduler_.Plan(View());
    }
    ASSERT_FALSE(plan.rows.empty()) << "the engine would spin";
    view = View();
    int64_t wanted = 0;
    for (const PlannedRows& rows : plan.rows) {
      Job& job = Of(rows.id);
      wanted += Pieces(job.computed + rows.token_count) - Pieces(job.computed);
      job.computed += rows.token_count;
      rows_ += rows.token_count;
      ASSERT_EQ(rows.wants_logits, job.computed == job.known);
      if (rows.wants_logits) ++job.known;
      if (job.done()) ended_.push_back(rows.id.value());
    }
    ASSERT_LE(wanted, view.capacity.available_pieces());
    ++steps_;
  }

  Job& Of(SequenceId id) { return jobs_[id.value()]; }

  const Scheduler scheduler_;
  const int64_t pool_;  // blocks
  const int32_t pieces_per_block_;
  std::vector<Job> jobs_;
  std::vector<int64_t> ended_;
  int64_t steps_ = 0;
  int64_t rows_ = 0;
};

// Memory is counted in pieces, or short requests get no more room than if each
// held a whole block at its end.
TEST(SchedulerPressure, PiecesAdmitMoreShortRequestsThanBlocks) {
  SchedulerView view;
  for (int64_t i = 0; i < 20; ++i) view.waiting.push_back(Waiting(i, 17));
  const Scheduler scheduler({});
  view.capacity = Free(36);
  EXPECT_EQ(scheduler.CountAdmissible(view), 12) << "two blocks and one more";
  view.capacity = Free(36 * 4);
  view.capacity.pieces_per_block = 4;
  EXPECT_EQ(scheduler.CountAdmissible(view), 16) << "five pieces and a block";

  view = {.capacity = view.capacity, .running = {}, .waiting = {}};
  view.capacity.free_pieces = 3;
  view.running = {{SequenceId(0), 17, 16, 4, false},
                  {SequenceId(1), 40, 20, 5, false}};
  const StepPlan plan = scheduler.Plan(view);
  EXPECT_THAT(plan.rows, ElementsAre(Rows(0, 1, true), Rows(1, 8, false)));
}

// FIELD_CASES SCHED-3, its arithmetic: a pool of one and a half requests must
// serve six, without throwing each other out over and over.
TEST(SchedulerPressure, SixRequestsInOneAndAHalfPlacesAllFinish) {
  const int64_t pool = (190 + kBlock - 1) / kBlock * 3 / 2;
  Simulation simulation({}, pool, std::vector<Simulation::Job>(6, {40, 190}));
  const std::vector<int64_t> ended = simulation.Run();
  EXPECT_LT(std::find(ended.begin(), ended.end(), 0) - ended.begin(), 2);
  for (const Simulation::Job& job : simulation.jobs()) {
    EXPECT_TRUE(job.done());
    EXPECT_LE(job.preemptions, 5);
  }
}

// Random loads: no plan asks for more than there is, all jobs end, nobody is
// preempted without bound, and the oldest is never the victim.
TEST(SchedulerPressure, RandomLoadsAllFinish) {
  const uint32_t first_seed = std::random_device()();
  for (uint32_t seed = first_seed; seed < first_seed + 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    std::mt19937 random(seed);
    const auto pick = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    const int64_t pool = pick(1, 40);
    std::vector<Simulation::Job> jobs;
    for (int64_t i = pick(1, 20); i > 0; --i) {
      Simulation::Job job;
      job.prompt = pick(1, pool * kBlock - 1);
      job.total = pick(job.prompt + 1, pool * kBlock);
      jobs.push_back(job);
    }
    Scheduler::Limits limits;
    limits.token_budget = pick(1, 64);
    limits.prefill_chunk = pick(1, 64);
    limits.max_sequences = static_cast<int32_t>(pick(1, 24));
    Simulation simulation(limits, pool, jobs, pick(0, 1) == 0 ? 1 : 4);
    simulation.Run();
    EXPECT_EQ(simulation.jobs()[0].preemptions, 0);
    if (::testing::Test::HasFailure()) break;
  }
}

}  // namespace
}  // namespace kvasir

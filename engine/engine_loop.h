#ifndef KVASIR_ENGINE_ENGINE_LOOP_H_
#define KVASIR_ENGINE_ENGINE_LOOP_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "cache/base/clock.h"
#include "cache/kv_cache.h"
#include "engine/canary.h"
#include "engine/departures.h"
#include "engine/inbox.h"
#include "engine/resize_task.h"
#include "engine/scheduler.h"
#include "engine/sequence_roster.h"
#include "engine/stats_recorder.h"
#include "engine/step_compute.h"
#include "engine/step_runner.h"
#include "engine/version_keeper.h"
#include "engine/warmup.h"

namespace kvasir {

// Steps in a row that may fail before the engine counts as unhealthy.
inline constexpr int32_t kMaxFailedSteps = 3;

// How old the published table of hot prefixes may get.
inline constexpr absl::Duration kHotTableInterval = absl::Seconds(1);

// How old the published numbers may get while steps follow each other.
inline constexpr absl::Duration kPublishInterval = absl::Milliseconds(20);

// After so many steps without it a warm-up gets one, whoever waits: a new
// version has to be filled under full load, too.
inline constexpr int64_t kWarmPatience = 64;

// How often a sleeping engine looks whether a deleted version is still held.
inline constexpr absl::Duration kRetireInterval = absl::Milliseconds(20);

// How long it sleeps while all that runs is paused: deadlines are looked at
// that late. And if a resize waits for them to give way.
inline constexpr absl::Duration kPausedNap = absl::Milliseconds(20);
inline constexpr absl::Duration kPausedResizeNap = absl::Milliseconds(1);

// The engine's turn: read the mail, end what nobody wants any more, admit,
// plan, reserve, run, commit, tell. A step computes in one version; versions
// with work take turns. Everything that the engine thread owns
// hangs on this object, and every member function runs on that thread.
//
// A step that fails has not happened: its reservation is dropped, its requests
// end with INTERNAL, and the engine goes on. After kMaxFailedSteps in a row it
// is unhealthy: all requests end with UNAVAILABLE and no new ones are taken.
//
// The rows of a warm-up are nobody's request, and may be all that is wrong with
// a step. So one that failed with them does not count: its requests get it
// again without them, and if it had none, a probe tells whether steps work.
class EngineLoop {
 public:
  // All of these outlive the loop.
  struct Parts {
    KvCache* cache = nullptr;
    VersionKeeper* versions = nullptr;
    Inbox* inbox = nullptr;
    StatsBoard* board = nullptr;
    const Clock* clock = nullptr;
    CachePromise* promise = nullptr;  // the loop writes it
  };
  struct Settings {
    Scheduler::Limits limits;
    bool prefix_caching = true;
    std::string eviction_policy = {};  // its name, to be told
  };
  EngineLoop(const Parts& parts, Settings settings);

  // Turns until the inbox says stop, sleeping while there is nothing to do;
  // then ends what is left with UNAVAILABLE.
  void Run();

  // One turn, without sleeping. False if no sequence, resize or warm-up is
  // left, so that only new mail can bring work: whoever waits for a lease gets
  // one as soon as nothing runs, or is refused. False, too, if all that could
  // run is paused.
  bool Turn();

  // Copies the numbers to the board. Turns do so at least every
  // kPublishInterval, before the first step after an idle time, and always
  // before a request is told of its end.
  void Publish();

 private:
  absl::Duration IdleTime() const;

  // Top of a turn.
  void ReadMail();
  void Enqueue(Submission submission);
  void ContinueResize();
  void EndUnwanted();
  void AdmitWaiting();
  void AdmitFirst();
  int64_t SharedBlocksOf(const Sequence& sequence) const;
  RequestLimits LimitsOf(const Sequence& sequence) const;
  int64_t PromisedToPreempted() const;
  LeaseRequest LeaseRequestOf(const Sequence& sequence) const;
  void TakeOver(Sequence& sequence);
  void ExtendPrefixes();

  void ContinueWarmup();
  bool MayWarm() const;
  void TellWarmupEnds();

  StepWork MakePlan();
  std::vector<WarmRows> PlanWarmup();
  void ExecuteStep(const StepWork& work);
  void TakeResult(const PlannedRows& rows, StepResult result,
                  Sequence& sequence, absl::Duration now);
  void FailStep(const StepWork& work, absl::Span<Sequence* const> sequences,
                const absl::Status& why);

  // Ends.
  void Depart(SequenceId id, absl::Status status, Ending ending);
  void Fail(std::unique_ptr<Sequence> sequence, absl::Status status,
            Ending ending);
  void RefuseFirst();
  void EndEverything(const absl::Status& status, Ending ending);
  void EndAll(const absl::Status& status, Ending ending);
  void SendDepartures();

  bool Busy() const;
  bool NumbersAreOld() const;

  // Fixed after construction.
  const Parts parts_;
  const Settings settings_;
  const Scheduler scheduler_;

  // Progress.
  SequenceRoster roster_;
  ResizeTask resize_;
  Warmup warmup_;
  int64_t steps_without_warmup_ = 0;
  // Of which the next step with requests goes without the warm-up: the last one
  // failed with it.
  VersionId warmup_rests_in_;
  Canary canary_;
  StatsRecorder recorder_;
  Departures departures_;
  int64_t next_sequence_ = 0;
  VersionId last_turn_;       // the version of the last step
  int32_t failed_steps_ = 0;  // in a row
  absl::Duration last_publish_;
  absl::Duration last_hot_table_ = -absl::InfiniteDuration();
  bool stopping_ = false;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_ENGINE_LOOP_H_

#include "engine/engine_loop.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

#include "cache/base/check.h"
#include "engine/hot_table.h"
#include "engine/step_compute.h"
#include "engine/step_probe.h"
#include "engine/verdict.h"

namespace kvasir {
EngineLoop::EngineLoop(const Parts& parts, Settings settings)
    : parts_(parts),
      settings_(std::move(settings)),
      scheduler_(settings_.limits),
      resize_(parts.cache, &roster_),
      warmup_(parts.cache, parts.versions, parts.clock),
      canary_(parts.cache, parts.versions, settings_.limits.prefill_chunk),
      departures_(parts.inbox, &recorder_) {
  recorder_.stats().eviction_policy = settings_.eviction_policy;
  Publish();
}

void EngineLoop::Run() {
  while (!stopping_) {
    if (Turn()) continue;
    if (stopping_) break;
    Publish();
    parts_.inbox->WaitForMail(IdleTime());
  }
  const absl::Status ended =
      absl::UnavailableError("the engine is shutting down");
  resize_.CallOff(ended);
  resize_.TellEnd();
  canary_.GiveWay();
  EndEverything(ended, Ending::kDrain);
}

// How long nothing has to be done unless mail comes.
absl::Duration EngineLoop::IdleTime() const {
  if (resize_.active()) return kPausedResizeNap;
  if (!roster_.empty()) return kPausedNap;
  if (parts_.versions->dropping()) return absl::ZeroDuration();
  if (parts_.versions->retiring()) return kRetireInterval;
  const absl::Duration left =
      parts_.cache->NextDeadline() - parts_.clock->Now();
  return std::max(left, absl::ZeroDuration());
}

bool EngineLoop::Turn() {
  ReadMail();
  if (stopping_) return false;
  if (Busy()) canary_.GiveWay();
  EndUnwanted();
  // A resize takes what a warm-up holds before it takes from requests.
  while (resize_.active() && warmup_.GiveWay()) {
  }
  parts_.versions->RetireUnheld();
  parts_.cache->Advance(parts_.clock->Now());
  ContinueResize();
  roster_.NotePauses();
  AdmitWaiting();
  SendDepartures();
  ExtendPrefixes();
  ContinueWarmup();
  const StepWork work = MakePlan();
  if (NumbersAreOld()) Publish();
  const bool stands = work.empty() && roster_.WaitsForReaders();
  if (std::exchange(recorder_.stats().waits_for_readers, stands) != stands) {
    Publish();
  }
  if (!work.empty()) {
    ExecuteStep(work);
  } else if (!roster_.empty()) {
    // The paused ones hold what the others wait for.
    if (!stands) RefuseFirst();
  } else if (!resize_.active()) {
    warmup_.Unblock();
  }
  SendDepartures();
  if (NumbersAreOld()) Publish();
  if (stands) return false;
  return Busy() || canary_.Step();
}

// Whether somebody waits for what the engine does. What it does on its own
// account gives way then.
bool EngineLoop::Busy() const {
  return !roster_.empty() || resize_.active() || warmup_.active();
}

bool EngineLoop::NumbersAreOld() const {
  // Who reads "idle" while the first step hangs would take it for health.
  const EngineStats& told = recorder_.stats();
  const bool told_idle = told.requests_running + told.requests_waiting == 0;
  return (told_idle && !roster_.empty()) ||
         parts_.clock->Now() - last_publish_ >= kPublishInterval;
}

void EngineLoop::ReadMail() {
  Mail mail = parts_.inbox->Take();
  // Who may pin is an operator, or a warm-up.
  if (!mail.commands.empty() || warmup_.active()) {
    parts_.cache->SetPromisedBlocks(PromisedToPreempted());
  }
  // What an operator does may take its room, or its blocks.
  if (!mail.commands.empty()) canary_.GiveWay();
  for (EngineCommand& command : mail.commands) {
    command(*parts_.cache, *parts_.versions);
  }
  if (!mail.commands.empty()) {
    // Whoever waits for them is told when they go: with the numbers out.
    Publish();
    mail.commands.clear();
  }
  for (Submission& submission : mail.submissions) {
    Enqueue(std::move(submission));
  }
  for (ResizeOrder& order : mail.resizes) resize_.Begin(std::move(order));
  for (WarmOrder& order : mail.warm_orders) warmup_.Begin(std::move(order));
  if (!mail.closed.ok()) warmup_.CallOff(mail.closed);
  stopping_ = mail.stop;
  if (!recorder_.stats().healthy) {
    EndEverything(absl::UnavailableError("the engine is unhealthy"),
                  Ending::kFailed);
  }
}

void EngineLoop::Enqueue(Submission submission) {
  const int64_t context = submission.request.version->longest_context();
  const auto group = std::make_shared<RequestGroup>(std::move(submission));
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (int32_t i = 0; i < group->request().sequence_count; ++i) {
    sequences.push_back(std::make_unique<Sequence>(SequenceId(next_sequence_++),
                                                   group, i, context));
  }
  const Sequence& first = *sequences.front();
  const absl::Status fits =
      CheckPromptLength(first.known_count(), LimitsOf(first));
  if (!fits.ok()) parts_.inbox->CountNeverFits();
  for (std::unique_ptr<Sequence>& sequence : sequences) {
    if (fits.ok()) {
      roster_.Enqueue(std::move(sequence));
    } else {
      Fail(std::move(sequence), fits, Ending::kFailed);
    }
  }
}

// What is advertised, what is admitted and where sequences end is one number,
// also while the cache changes its size (FIELD_CASES CTX-2, MEM-2).
void EngineLoop::ContinueResize() {
  recorder_.stats().preemptions += resize_.Continue();
  const int64_t promised = resize_.PromisedBlocks();
  const int64_t kept = parts_.cache->KeptBlocks(promised);
  const int32_t block_tokens = parts_.cache->layout().block_tokens;
  CachePromise& promise = *parts_.promise;
  promise.tokens.store(std::max<int64_t>(promised - kept, 0) * block_tokens,
                       std::memory_order_relaxed);
  promise.pinned_tokens.store(parts_.cache->PinnedPrefixBlocks() * block_tokens,
                              std::memory_order_relaxed);
  if (!resize_.ended()) return;
  Publish();
  resize_.TellEnd();
}

// It goes on where requests leave it something: not while one of them prefills
// or waits, but for a step in kWarmPatience, and not while the pool changes its
// size.
void EngineLoop::ContinueWarmup() {
  std::optional<WarmRoom> room;
  if (resize_.active()) {
    while (warmup_.GiveWay()) {
    }
  } else if (warmup_.active() && MayWarm()) {
    const CapacityView capacity = parts_.cache->Capacity();
    room = {.spare_pieces = scheduler_.SparePieces(
                roster_.View(capacity, /*share_prefixes=*/false, {})),
            .total_blocks = capacity.total_blocks -
                            parts_.cache->KeptBlocks(capacity.total_blocks),
            .alone = roster_.empty()};
  }
  warmup_.Continue(room);
  TellWarmupEnds();
}

bool EngineLoop::MayWarm() const {
  return !roster_.AnyPrefill() || steps_without_warmup_ >= kWarmPatience;
}

void EngineLoop::TellWarmupEnds() {
  if (!warmup_.ended()) return;
  Publish();
  warmup_.TellEnd();
}

void EngineLoop::EndUnwanted() {
  const absl::Duration now = parts_.clock->Now();
  auto unwanted = roster_.RemoveIf([now](const Sequence& sequence) {
    return Judge(sequence, now).has_value();
  });
  for (std::unique_ptr<Sequence>& sequence : unwanted) {
    Verdict verdict = *Judge(*sequence, now);
    if (!verdict.status.ok()) {
      Fail(std::move(sequence), std::move(verdict.status), verdict.ending);
      continue;
    }
    FinishedEvent event = sequence->Finish(FinishReason::kTimeLimit, now);
    departures_.Add(std::move(sequence), std::move(event), verdict.ending);
  }
}

void EngineLoop::AdmitWaiting() {
  while (!roster_.waiting().empty()) {
    SchedulerView view =
        roster_.View(resize_.ForAdmission(), settings_.prefix_caching, {});
    int64_t count = scheduler_.CountAdmissible(view);
    if (count == 0) {
      // Too big as a whole, but perhaps not without what it shares.
      view.waiting.front().shared_blocks =
          SharedBlocksOf(*roster_.waiting().front());
      count = scheduler_.CountAdmissible(view) > 0 ? 1 : 0;
    }
    if (count == 0) {
      // Not before a warm-up has given back what is in the way.
      view.capacity.free_pieces += warmup_.HeldPieces();
      if (scheduler_.CountAdmissible(view) > 0 && warmup_.GiveWay()) continue;
      // Nor before those that stand still have given up their places.
      if (!roster_.SetAsideLastPaused()) return;
      ++recorder_.stats().preemptions;
      continue;
    }
    for (; count > 0; --count) AdmitFirst();
  }
}

// Those that others hold, and that it is going to find or to take over.
int64_t EngineLoop::SharedBlocksOf(const Sequence& sequence) const {
  const int64_t found =
      parts_.cache->CountSharedBlocks(LeaseRequestOf(sequence));
  const Sequence* const donor = sequence.donor();
  if (donor == nullptr || !donor->running()) return found;
  const int32_t block_tokens = parts_.cache->layout().block_tokens;
  return std::max(found, std::min(donor->computed_count(),
                                  sequence.SharedTokens(block_tokens)) /
                             block_tokens);
}

void EngineLoop::AdmitFirst() {
  Sequence& sequence = *roster_.waiting().front();
  // The cache may have become smaller while it waited.
  if (!sequence.preempted()) {
    sequence.LimitContext(LimitsOf(sequence).EffectiveContext());
  }
  absl::StatusOr<Lease> lease =
      parts_.cache->OpenLease(LeaseRequestOf(sequence));
  if (!lease.ok()) {
    return Depart(sequence.id(), std::move(lease).status(), Ending::kFailed);
  }
  recorder_.CountCached(sequence.Start(*std::move(lease)));
  TakeOver(sequence);
  parts_.inbox->Admit(sequence.request().id);
  roster_.PromoteFirst();
}

// What is pinned counts for those who begin with it.
RequestLimits EngineLoop::LimitsOf(const Sequence& sequence) const {
  RequestLimits limits = sequence.version().limits();
  if (limits.EffectiveContext() < limits.LongestContext()) {
    limits.cache_tokens +=
        parts_.cache->PinnedPrefixBlocks(LeaseRequestOf(sequence)) *
        parts_.cache->layout().block_tokens;
  }
  return limits;
}

// Their streams have begun, and their room must still be there when it is their
// turn again.
int64_t EngineLoop::PromisedToPreempted() const {
  int64_t most = 0;
  const auto promise = [&](const std::unique_ptr<Sequence>& sequence) {
    if (!sequence->preempted()) return;
    most = std::max(
        most, parts_.cache->layout().BlocksFor(sequence->most_tokens()) -
                  parts_.cache->PinnedPrefixBlocks(LeaseRequestOf(*sequence)));
  };
  for (const auto& sequence : roster_.waiting()) promise(sequence);
  for (const auto& sequence : roster_.aside()) promise(sequence);
  return most;
}

LeaseRequest EngineLoop::LeaseRequestOf(const Sequence& sequence) const {
  const CacheUse& use = sequence.request().cache;
  // It chose the version when it was tokenised; to name one that drains is
  // refused there.
  return {.version = sequence.version().id(),
          .purpose = LeasePurpose::kHeld,
          .most_tokens = sequence.most_tokens(),
          .tokens = sequence.findable_tokens(),
          .salt = use.salt,
          .read_cache = use.read,
          .write_cache = use.write,
          // The first sequence of a request has looked up for all.
          .resumed = sequence.preempted() || sequence.index() > 0,
          .recompute_tokens = sequence.high_water(),
          .retention = use.retention};
}

// The others begin with the prompt that the first sequence of the request has
// computed, whatever the request may leave in the cache for others.
void EngineLoop::TakeOver(Sequence& sequence) {
  const Sequence* const donor = sequence.donor();
  if (donor == nullptr || !donor->running()) return;
  const int64_t shared =
      sequence.SharedTokens(parts_.cache->layout().block_tokens);
  if (sequence.computed_count() >= shared) return;
  parts_.cache->ShareBlocks(sequence.lease(), donor->lease(), shared);
  recorder_.CountCached(sequence.NoteExtended());
}

void EngineLoop::ExtendPrefixes() {
  if (!settings_.prefix_caching) return;
  const int32_t block_tokens = parts_.cache->layout().block_tokens;
  for (const std::unique_ptr<Sequence>& sequence : roster_.running()) {
    if (!sequence->prefills() || !sequence->request().cache.read ||
        sequence->paused() || sequence->scores() ||
        sequence->computed_count() % block_tokens != 0) {
      continue;
    }
    parts_.cache->ExtendLease(sequence->lease(), sequence->known_tokens());
    recorder_.CountCached(sequence->NoteExtended());
  }
}

StepWork EngineLoop::MakePlan() {
  while (true) {
    StepWork work = {.plan = {}, .warm = PlanWarmup()};
    const VersionId guest =
        work.warm.empty() ? VersionId() : warmup_.version().id();
    const VersionId turn = roster_.VersionAfter(last_turn_, guest);
    if (turn != guest) work.warm.clear();
    SchedulerView view =
        roster_.View(parts_.cache->Capacity(), settings_.prefix_caching, turn);
    work.plan = scheduler_.Plan(view);
    if (const int64_t held = warmup_.HeldPieces(); held > 0) {
      // What a warm-up holds is as good as free to a request.
      view.capacity.free_pieces += held;
      const bool in_the_way =
          work.plan.preempt.valid() || work.plan != scheduler_.Plan(view);
      if (in_the_way && warmup_.GiveWay()) continue;
    }
    if (!work.plan.preempt.valid()) return work;
    // Alone and still without room: RefuseFirst() says so.
    if (roster_.running().size() == 1) return StepWork{};
    KV_CHECK(roster_.PreemptLast().id() == work.plan.preempt);
    ++recorder_.stats().preemptions;
  }
}

// What the decodes of its version leave of a step, and all running ones of the
// cache. A stream waits for one prefill chunk more per token, no longer.
std::vector<WarmRows> EngineLoop::PlanWarmup() {
  if (!warmup_.active() || resize_.active() || !MayWarm()) return {};
  const VersionId version = warmup_.version().id();
  const int64_t running = roster_.CountRunning(version);
  if (warmup_rests_in_ == version && running > 0) return {};
  const int64_t budget = settings_.limits.token_budget - running;
  return warmup_.Plan(
      std::min<int64_t>(budget, settings_.limits.prefill_chunk),
      scheduler_.SparePieces(roster_.View(parts_.cache->Capacity(),
                                          /*share_prefixes=*/false, {})));
}

void EngineLoop::ExecuteStep(const StepWork& work) {
  const StepPlan& plan = work.plan;
  steps_without_warmup_ = work.warm.empty() ? steps_without_warmup_ + 1 : 0;
  const std::vector<Sequence*> sequences = SequencesOf(plan, roster_);
  const absl::Duration begin = parts_.clock->Now();
  for (Sequence* sequence : sequences) {
    if (!sequence->NoteScheduled(begin)) continue;
    if (!sequence->group().accepted) recorder_.CountScheduled(*sequence);
    sequence->PushAccepted();
  }
  const StepPhase phase = PhaseOf(work, sequences);
  const ServedVersion& version =
      sequences.empty() ? warmup_.version() : sequences.front()->version();
  last_turn_ = version.id();
  absl::StatusOr<std::vector<StepResult>> results =
      ComputeStep(work, sequences, version, *parts_.cache);
  if (warmup_rests_in_ == last_turn_) warmup_rests_in_ = VersionId();
  if (!results.ok()) return FailStep(work, sequences, results.status());
  failed_steps_ = 0;
  const absl::Duration end = parts_.clock->Now();
  recorder_.CountStep(phase, plan.total_tokens + work.warm_tokens(),
                      static_cast<int64_t>(sequences.size() + work.warm.size()),
                      end - begin, end);
  recorder_.stats().warmed_tokens += work.warm_tokens();
  warmup_.NoteComputed(work.warm);
  for (size_t i = 0; i < sequences.size(); ++i) {
    recorder_.CountComputed(
        sequences[i]->NoteComputed(plan.rows[i].token_count));
  }
  // Before one of them ends and drops its blocks.
  for (const std::unique_ptr<Sequence>& sequence : roster_.running()) {
    TakeOver(*sequence);
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    TakeResult(plan.rows[i], std::move((*results)[i]), *sequences[i], end);
  }
}

void EngineLoop::TakeResult(const PlannedRows& rows, StepResult result,
                            Sequence& sequence, absl::Duration now) {
  if (sequence.group().failed) return;  // it ends with the next turn
  if (result.token == kLogitsNotFinite) {
    // This sequence's alone; its neighbours' rows are their own.
    return Depart(sequence.id(),
                  absl::InternalError(absl::StrCat(
                      "the logits of token ", sequence.known_count(),
                      " are not all finite: the weights are damaged, or a "
                      "number grew beyond its type")),
                  Ending::kFailed);
  }
  sequence.PushScores(std::move(result.scores));
  if (!rows.wants_logits) return sequence.PushProgress(now);
  const absl::Duration previous = sequence.times().last_token;
  Sequence::Appended appended =
      sequence.Append(result.token, std::move(result.logprobs), now);
  recorder_.CountToken(sequence, previous);
  sequence.Push(std::move(appended.delta));
  if (!appended.reason.has_value()) return;
  FinishedEvent event = sequence.Finish(*appended.reason, now);
  departures_.Add(roster_.Remove(sequence.id()), std::move(event),
                  Ending::kFinished);
}

void EngineLoop::FailStep(const StepWork& work,
                          absl::Span<Sequence* const> sequences,
                          const absl::Status& why) {
  const absl::Status status = absl::InternalError(
      absl::StrCat("the step failed and was rolled back: ", why.message()));
  if (!work.warm.empty()) {
    warmup_.NoteFailed(work.warm, status);
    warmup_rests_in_ = warmup_.version().id();
    if (!sequences.empty()) return;
    if (ProbeStep(*parts_.cache, warmup_.version()).ok()) {
      failed_steps_ = 0;
      return;
    }
  }
  ++failed_steps_;
  for (Sequence* sequence : sequences) {
    Depart(sequence->id(), status, Ending::kFailed);
  }
  if (failed_steps_ < kMaxFailedSteps) return;
  recorder_.stats().healthy = false;
  const absl::Status unhealthy = absl::UnavailableError(
      absl::StrCat("the engine is unhealthy: ", failed_steps_,
                   " steps in a row failed, the last with: ", why.message()));
  parts_.inbox->Close(unhealthy);
  EndEverything(unhealthy, Ending::kFailed);
}

void EngineLoop::Depart(SequenceId id, absl::Status status, Ending ending) {
  Fail(roster_.Remove(id), std::move(status), ending);
}

void EngineLoop::Fail(std::unique_ptr<Sequence> sequence, absl::Status status,
                      Ending ending) {
  FinishedEvent event = sequence->Fail(std::move(status), parts_.clock->Now());
  departures_.Add(std::move(sequence), std::move(event), ending);
}

// Nothing can run although somebody wants to. Refusing one request instead of
// turning for ever lets the others have their turn.
void EngineLoop::RefuseFirst() {
  const Sequence& first = roster_.running().empty()
                              ? *roster_.waiting().front()
                              : *roster_.running().front();
  const CapacityView capacity = parts_.cache->Capacity();
  Depart(first.id(),
         absl::ResourceExhaustedError(absl::StrCat(
             "the KV cache has no room: ", first.known_count(),
             " tokens of prompt and output, ", capacity.available_blocks(),
             " of ", capacity.total_blocks, " blocks of ",
             capacity.block_tokens, " tokens available")),
         Ending::kFailed);
}

void EngineLoop::EndEverything(const absl::Status& status, Ending ending) {
  warmup_.CallOff(status);
  EndAll(status, ending);
  TellWarmupEnds();
}

void EngineLoop::EndAll(const absl::Status& status, Ending ending) {
  auto all = roster_.RemoveIf([](const Sequence&) { return true; });
  for (std::unique_ptr<Sequence>& sequence : all) {
    Fail(std::move(sequence), status, ending);
  }
  SendDepartures();
}

void EngineLoop::SendDepartures() {
  if (departures_.empty()) return;
  Publish();
  departures_.Send();
}

void EngineLoop::Publish() {
  EngineStats& stats = recorder_.stats();
  const SequenceRoster::RequestCounts requests = roster_.CountRequests();
  stats.requests_running = requests.running;
  stats.requests_paused = requests.paused;
  stats.requests_waiting = requests.waiting;
  stats.canary = canary_.counts();
  stats.cache = parts_.cache->Snapshot();
  stats.versions = parts_.versions->List();
  const absl::Duration now = parts_.clock->Now();
  if (now - last_hot_table_ >= kHotTableInterval) {
    stats.hot_prefixes = MakeHotTable(*parts_.cache, stats.cache.versions);
    last_hot_table_ = now;
  }
  parts_.board->Publish(stats);
  last_publish_ = now;
}

}  // namespace kvasir

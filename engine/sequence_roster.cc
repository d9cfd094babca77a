#include "engine/sequence_roster.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"

#include "cache/base/check.h"
#include "engine/prefix_sharing.h"

namespace kvasir {
namespace {

bool Precedes(const std::unique_ptr<Sequence>& a,
              const std::unique_ptr<Sequence>& b) {
  return std::pair(a->precedence(), a->id()) <
         std::pair(b->precedence(), b->id());
}

// Whether the first sequence of its request is going to compute what this one
// can then take over.
bool WaitsForDonor(const Sequence& sequence, int32_t block_tokens) {
  const Sequence* const donor = sequence.donor();
  if (donor == nullptr || !donor->running() || donor->paused()) return false;
  const int64_t shared = sequence.SharedTokens(block_tokens);
  return sequence.computed_count() % block_tokens == 0 &&
         sequence.computed_count() < shared && donor->computed_count() < shared;
}

// Sets the flag of the running sequences that should wait for a prefix.
void MarkPrefixWaiters(const std::vector<std::unique_ptr<Sequence>>& running,
                       SchedulerView& view) {
  std::vector<PrefillView> prefilling;
  std::vector<size_t> positions;
  for (size_t i = 0; i < running.size(); ++i) {
    const Sequence& sequence = *running[i];
    // Nobody waits for one that stands still.
    if (!sequence.prefills() || sequence.paused()) continue;
    prefilling.push_back({sequence.known_tokens(), sequence.computed_count(),
                          &sequence.request().cache, sequence.version().id(),
                          &sequence.group()});
    positions.push_back(i);
  }
  const std::vector<bool> waits =
      FindPrefixWaiters(prefilling, view.capacity.block_tokens);
  for (size_t i = 0; i < positions.size(); ++i) {
    // One that scores its prompt has to compute it.
    view.running[positions[i]].waits_for_prefix =
        waits[i] && !running[positions[i]]->scores();
  }
}

void MarkDonorWaiters(const std::vector<std::unique_ptr<Sequence>>& running,
                      SchedulerView& view) {
  for (size_t i = 0; i < running.size(); ++i) {
    view.running[i].waits_for_prefix |=
        WaitsForDonor(*running[i], view.capacity.block_tokens);
  }
}

// One scores; the others come as far as where they would.
void LimitScoring(const std::vector<std::unique_ptr<Sequence>>& running,
                  SchedulerView& view) {
  bool taken = false;
  for (size_t i = 0; i < running.size(); ++i) {
    RunningView& row = view.running[i];
    if (!running[i]->scores() || row.rests || !row.in_turn) continue;
    row.most_rows = running[i]->RowsBeforeScores();
    if (!taken) row.most_rows += kMaxScoredRows;
    row.rests = row.most_rows == 0;
    taken = true;
  }
}

template <typename Container>
void MoveOut(Container& from, absl::FunctionRef<bool(const Sequence&)> ended,
             std::vector<std::unique_ptr<Sequence>>& to) {
  const auto first = std::stable_partition(
      from.begin(), from.end(),
      [&](const std::unique_ptr<Sequence>& s) { return !ended(*s); });
  std::move(first, from.end(), std::back_inserter(to));
  from.erase(first, from.end());
}

}  // namespace

void SequenceRoster::Enqueue(std::unique_ptr<Sequence> sequence) {
  KV_CHECK(!sequence->running());
  bool starved = false;
  auto place = waiting_.end();
  while (place != waiting_.begin() && Precedes(sequence, *std::prev(place))) {
    --place;
    (*place)->NoteOvertaken();
    starved |= Precedes(*place, sequence);
  }
  waiting_.insert(place, std::move(sequence));
  if (starved) std::sort(waiting_.begin(), waiting_.end(), Precedes);
}

void SequenceRoster::PromoteFirst() {
  KV_CHECK(!waiting_.empty() && waiting_.front()->running());
  std::unique_ptr<Sequence> first = std::move(waiting_.front());
  waiting_.pop_front();
  const auto place = running_.insert(
      std::upper_bound(running_.begin(), running_.end(), first, Precedes),
      std::move(first));
  // Its prompt is computed before those of all that follow.
  for (auto passed = place + 1; passed != running_.end(); ++passed) {
    if ((*passed)->prefills()) (*passed)->NoteOvertaken();
  }
  std::sort(running_.begin(), running_.end(), Precedes);
}

Sequence& SequenceRoster::PreemptLast() {
  KV_CHECK(!running_.empty());
  std::unique_ptr<Sequence> last = std::move(running_.back());
  running_.pop_back();
  last->Preempt();
  return Wait(std::move(last));
}

std::unique_ptr<Sequence> SequenceRoster::Remove(SequenceId id) {
  std::vector<std::unique_ptr<Sequence>> removed =
      RemoveIf([id](const Sequence& sequence) { return sequence.id() == id; });
  KV_CHECK(removed.size() == 1) << "sequence " << id;
  return std::move(removed.front());
}

std::vector<std::unique_ptr<Sequence>> SequenceRoster::RemoveIf(
    absl::FunctionRef<bool(const Sequence&)> ended) {
  std::vector<std::unique_ptr<Sequence>> removed;
  MoveOut(running_, ended, removed);
  MoveOut(waiting_, ended, removed);
  MoveOut(aside_, ended, removed);
  return removed;
}

VersionId SequenceRoster::VersionAfter(VersionId last, VersionId guest) const {
  VersionId first, next;
  const auto consider = [&](VersionId id) {
    if (!first.valid() || id < first) first = id;
    if (last < id && (!next.valid() || id < next)) next = id;
  };
  if (guest.valid()) consider(guest);
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    if (!sequence->paused()) consider(sequence->version().id());
  }
  return next.valid() ? next : first;
}

void SequenceRoster::NotePauses() {
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    sequence->NotePaused();
  }
  const auto note_paused = [](const Sequence& sequence) {
    return sequence.paused();
  };
  for (const std::unique_ptr<Sequence>& sequence : waiting_) {
    sequence->NotePaused();
  }
  std::vector<std::unique_ptr<Sequence>> held = std::move(aside_);
  aside_.clear();
  MoveOut(waiting_, note_paused, aside_);
  for (std::unique_ptr<Sequence>& sequence : held) {
    sequence->NotePaused();
    if (sequence->paused()) {
      aside_.push_back(std::move(sequence));
    } else {
      Wait(std::move(sequence));
    }
  }
}

bool SequenceRoster::WaitsForReaders() const {
  if (running_.empty() && waiting_.empty()) return !aside_.empty();
  return absl::c_any_of(
      running_, [](const std::unique_ptr<Sequence>& s) { return s->paused(); });
}

bool SequenceRoster::SetAsideLastPaused() {
  for (auto at = running_.rbegin(); at != running_.rend(); ++at) {
    if (!(*at)->paused()) continue;
    aside_.push_back(std::move(*at));
    running_.erase(std::next(at).base());
    aside_.back()->Preempt();
    return true;
  }
  return false;
}

// Where its precedence puts it.
Sequence& SequenceRoster::Wait(std::unique_ptr<Sequence> sequence) {
  const auto place =
      std::upper_bound(waiting_.begin(), waiting_.end(), sequence, Precedes);
  return **waiting_.insert(place, std::move(sequence));
}

bool SequenceRoster::AnyPrefill() const {
  return !waiting_.empty() ||
         absl::c_any_of(running_, [](const std::unique_ptr<Sequence>& s) {
           return s->prefills() && !s->paused();
         });
}

SequenceRoster::RequestCounts SequenceRoster::CountRequests() const {
  absl::flat_hash_set<const RequestGroup*> seen;
  RequestCounts counts;
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    const bool is_new = seen.insert(&sequence->group()).second;
    counts.running += is_new;
    // Sequences of one request have one reader.
    counts.paused += is_new && sequence->paused();
  }
  for (const std::unique_ptr<Sequence>& sequence : waiting_) {
    counts.waiting += seen.insert(&sequence->group()).second;
  }
  for (const std::unique_ptr<Sequence>& sequence : aside_) {
    const bool is_new = seen.insert(&sequence->group()).second;
    counts.waiting += is_new;
    counts.paused += is_new;
  }
  return counts;
}

int64_t SequenceRoster::CountRunning(VersionId version) const {
  return absl::c_count_if(running_, [&](const std::unique_ptr<Sequence>& s) {
    return s->version().id() == version;
  });
}

SchedulerView SequenceRoster::View(const CapacityView& capacity,
                                   bool share_prefixes,
                                   VersionId in_turn) const {
  SchedulerView view;
  view.capacity = capacity;
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    view.running.push_back({.id = sequence->id(),
                            .known_tokens = sequence->known_count(),
                            .computed_tokens = sequence->computed_count(),
                            .piece_count = sequence->lease().piece_count(),
                            .rests = sequence->paused(),
                            .in_turn = sequence->version().id() == in_turn});
  }
  for (const std::unique_ptr<Sequence>& sequence : waiting_) {
    view.waiting.push_back(
        {.id = sequence->id(), .known_tokens = sequence->known_count()});
  }
  if (share_prefixes) MarkPrefixWaiters(running_, view);
  MarkDonorWaiters(running_, view);
  LimitScoring(running_, view);
  return view;
}

}  // namespace kvasir

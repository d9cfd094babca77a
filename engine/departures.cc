#include "engine/departures.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/inbox.h"

namespace kvasir {

Departures::Departures(Inbox* inbox, StatsRecorder* recorder)
    : inbox_(inbox), recorder_(recorder) {}

void Departures::Add(std::unique_ptr<Sequence> sequence, FinishedEvent event,
                     Ending ending) {
  sequence->DropLease();
  RequestGroup& group = sequence->group();
  group.completion_tokens += event.usage.completion_tokens;
  const bool last = --group.open_sequences == 0;
  const bool told =
      std::exchange(group.failed, !event.status.ok() || group.failed);
  const bool fails = group.failed && !told;
  if (!group.failed) recorder_->CountSequence(event);
  if (fails || (last && !group.failed)) {
    recorder_->CountRequest(event, ending, group.completion_tokens);
  }
  if (last) inbox_->Retire(sequence->request().id);
  departures_.push_back({.sequence = std::move(sequence),
                         .event = std::move(event),
                         .is_told = !told,
                         .is_last = last});
}

void Departures::Send() {
  if (departures_.empty()) return;
  std::vector<Departure> leaving = std::move(departures_);
  departures_.clear();
  int64_t requests = 0;
  for (Departure& departure : leaving) {
    requests += departure.is_last;
    if (departure.is_told) departure.sequence->Push(std::move(departure.event));
  }
  leaving.clear();  // sinks are let go before the caller may count on it
  inbox_->NoteDelivered(requests);
}

}  // namespace kvasir

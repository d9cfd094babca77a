#include "engine/departures.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace kvasir {

Departures::Departures(Inbox* inbox, StatsRecorder* recorder)
    : inbox_(inbox), recorder_(recorder) {}

void Departures::Add(std::unique_ptr<Sequence> sequence, FinishedEvent event,
                     Ending ending) {
  sequence->DropLease();
  recorder_->CountEnd(event, ending);
  inbox_->Retire(sequence->request().id);
  departures_.push_back({std::move(sequence), std::move(event)});
}

void Departures::Send() {
  if (departures_.empty()) return;
  std::vector<Departure> leaving = std::move(departures_);
  departures_.clear();
  const int64_t count = static_cast<int64_t>(leaving.size());
  for (Departure& departure : leaving) {
    departure.sequence->Push(std::move(departure.event));
  }
  leaving.clear();  // sinks are let go before the caller may count on it
  inbox_->NoteDelivered(count);
}

}  // namespace kvasir

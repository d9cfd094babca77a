#ifndef KVASIR_ENGINE_DEPARTURES_H_
#define KVASIR_ENGINE_DEPARTURES_H_

#include <memory>
#include <vector>

#include "engine/sequence.h"
#include "engine/stats_recorder.h"
#include "engine/token_sink.h"

namespace kvasir {

class Inbox;

// The sequences that ended in this turn of the engine and still have to be told
// so. Between Add() and Send() the engine publishes its numbers: who sees the
// last event of a request finds it counted and its blocks given back.
//
// Engine thread only.
class Departures {
 public:
  // `inbox` and `recorder` outlive this object.
  Departures(Inbox* inbox, StatsRecorder* recorder);

  // Takes a sequence that is in no roster any more and drops its lease. Counts
  // it and, if it is the last of its request, that, whose id is free again. The
  // first that fails, fails its request: the others are told nothing.
  void Add(std::unique_ptr<Sequence> sequence, FinishedEvent event,
           Ending ending);

  bool empty() const { return departures_.empty(); }

  // Pushes the last events and forgets the sequences.
  void Send();

 private:
  struct Departure {
    std::unique_ptr<Sequence> sequence;
    FinishedEvent event;
    bool is_told = false;
    bool is_last = false;  // of its request
  };

  Inbox* const inbox_;
  StatsRecorder* const recorder_;
  std::vector<Departure> departures_;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_DEPARTURES_H_

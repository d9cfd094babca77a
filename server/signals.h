#ifndef KVASIR_SERVER_SIGNALS_H_
#define KVASIR_SERVER_SIGNALS_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace kvasir {

// What the main thread waits for: a signal, or a word from another thread.
//
// Signals come through a descriptor, so that no code runs inside a handler and
// they work for process 1, too. To be made before any other thread, which
// inherit that SIGINT, SIGTERM and SIGHUP are blocked. SIGPIPE is ignored from
// then on.
class Signals {
 public:
  struct Event {
    int signal = 0;      // SIGINT, SIGTERM or SIGHUP, 0 if none
    bool woken = false;  // Wake() was called
  };

  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

  // Main thread: waits for one or both, at most `timeout`; none of them after
  // that.
  Event Wait(absl::Duration timeout);

  // Any thread.
  void Wake();

 private:
  int signal_fd_;
  int wake_fd_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_SIGNALS_H_

#ifndef KVASIR_SERVER_START_WARMUP_H_
#define KVASIR_SERVER_START_WARMUP_H_

#include <functional>
#include <memory>
#include <thread>

#include "absl/time/time.h"

#include "server/generation_backend.h"
#include "server/warm_file.h"

namespace kvasir {

// The prefixes that a daemon computes before it calls itself ready. One order
// to the engine, whose prompts are the file's; those that the model cannot
// take, and those above kMaxWarmTokens, are told in the log and left out.
//
// Main thread, which never waits: the prompts are tokenised on a thread of
// their own.
class StartWarmup {
 public:
  // `file` outlives it. `on_end` is called on the engine thread or this one's.
  StartWarmup(const WarmFile* file, std::function<void()> on_end);
  // Calls off, and waits for the prompt that is being tokenised.
  ~StartWarmup();

  // Hands the order over as soon as there is one; ended then if there is
  // nothing left to warm or the engine refuses it. Once; `backend` outlives
  // this.
  void Begin(GenerationBackend& backend);

  // What is computed stays. It ends soon, with CANCELLED.
  void CallOff();

  bool ended() const;

  // One line: what is resident, and what is not. Before the end, of what is
  // known then.
  void LogEnd() const;
  void LogDeadline(absl::Duration deadline) const;

 private:
  class Sink;
  void HandOver(GenerationBackend& backend);

  const WarmFile* const file_;
  const std::shared_ptr<Sink> sink_;
  std::thread thread_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_START_WARMUP_H_

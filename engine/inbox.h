#ifndef KVASIR_ENGINE_INBOX_H_
#define KVASIR_ENGINE_INBOX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "engine/cache_resize.h"
#include "engine/cancel_flag.h"
#include "engine/submission.h"
#include "engine/warm_order.h"

namespace kvasir {

class KvCache;
class VersionKeeper;

// Work on the cache and its versions that another thread wants done between two
// steps.
using EngineCommand = absl::AnyInvocable<void(KvCache&, VersionKeeper&)>;

// What has arrived since the engine looked last.
struct Mail {
  std::vector<Submission> submissions;  // in order of arrival
  std::vector<EngineCommand> commands;  // likewise
  std::vector<ResizeOrder> resizes;     // likewise
  std::vector<WarmOrder> warm_orders;   // likewise
  absl::Status closed;                  // why nothing new is taken, if so
  bool stop = false;                    // the engine is to end
};

// Requests that were turned away, by cause.
struct Rejections {
  int64_t invalid = 0;
  int64_t never_fits = 0;
  int64_t inbox_full = 0;
  int64_t draining = 0;
};

// The bounded way from any thread to the engine thread, and the register of the
// requests in flight. One of the four objects that cross threads; one lock, and
// nothing is called under it.
//
// A request is in flight from Submit() until NoteDelivered(), and takes one of
// `limit` places until Admit() says that it has got its first lease (or
// Retire() that it ended without one), wherever it waits meanwhile.
class Inbox {
 public:
  explicit Inbox(int32_t limit);

  // --- Any thread; none of these waits for the engine. ---

  // RESOURCE_EXHAUSTED if all places are taken, ALREADY_EXISTS if the id is in
  // flight, and after Close() the status that was given there.
  absl::Status Submit(Request request, std::shared_ptr<TokenSink> sink,
                      absl::Duration now) ABSL_LOCKS_EXCLUDED(mu_);

  // UNAVAILABLE once the engine has been told to stop.
  absl::Status Post(EngineCommand command) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status Post(ResizeOrder order) ABSL_LOCKS_EXCLUDED(mu_);
  // After Close() the status that was given there. RESOURCE_EXHAUSTED if
  // kMaxWarmOrders have come since the engine looked last.
  absl::Status Post(WarmOrder order) ABSL_LOCKS_EXCLUDED(mu_);

  // Raises the request's flag and wakes the engine. False: not in flight.
  bool Cancel(std::string_view id, CancelSource source, std::string_view reason)
      ABSL_LOCKS_EXCLUDED(mu_);
  void CancelAll(CancelSource source, std::string_view reason)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The engine has something to look at, if it sleeps.
  void Wake() ABSL_LOCKS_EXCLUDED(mu_);

  // No submission and no warm order from now on; `status` says why, also to
  // the engine. The last call wins.
  void Close(absl::Status status) ABSL_LOCKS_EXCLUDED(mu_);

  // Closes, and asks the engine thread to end.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

  // Waits until nothing is in flight; false on timeout.
  bool WaitIdle(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

  void CountInvalid() ABSL_LOCKS_EXCLUDED(mu_);
  void CountNeverFits() ABSL_LOCKS_EXCLUDED(mu_);
  Rejections rejections() const ABSL_LOCKS_EXCLUDED(mu_);
  int64_t in_flight() const ABSL_LOCKS_EXCLUDED(mu_);
  // Submitted and not yet taken by the engine.
  int64_t untaken() const ABSL_LOCKS_EXCLUDED(mu_);

  // --- Engine thread. ---

  // Everything that has arrived; never waits.
  Mail Take() ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for mail or a raised flag since the last Take(), at most `timeout`;
  // false if there is none.
  bool WaitForMail(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_);

  // The request has got its first lease: its place is free.
  void Admit(std::string_view id) ABSL_LOCKS_EXCLUDED(mu_);
  // The request has ended: its id may be used again, its place is free.
  void Retire(std::string_view id) ABSL_LOCKS_EXCLUDED(mu_);
  // `count` retired requests have got their last event.
  void NoteDelivered(int64_t count) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Flight {
    std::shared_ptr<CancelFlag> cancel;
    bool admitted = false;
  };

  bool HasMail() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return news_; }
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return in_flight_ == 0;
  }

  const int32_t limit_;

  mutable absl::Mutex mu_;
  Mail mail_ ABSL_GUARDED_BY(mu_);
  bool news_ ABSL_GUARDED_BY(mu_) = false;  // mail_ or a flag has changed
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, Flight> flights_ ABSL_GUARDED_BY(mu_);
  int64_t places_taken_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t in_flight_ ABSL_GUARDED_BY(mu_) = 0;
  Rejections rejections_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_INBOX_H_

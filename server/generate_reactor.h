#ifndef KVASIR_SERVER_GENERATE_REACTOR_H_
#define KVASIR_SERVER_GENERATE_REACTOR_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

#include "engine/token_sink.h"
#include "kvasir/v1/inference.pb.h"
#include "server/call_stats.h"
#include "server/generate_stream.h"
#include "server/generation_backend.h"
#include "server/id_owners.h"
#include "server/request_log.h"
#include "server/stream_gate.h"
#include "server/tenant_gate.h"
#include "server/write_queue.h"

namespace kvasir {

// How long a client that has stopped reading may keep its last write open after
// the call was given up; then the call is reset without a word.
inline constexpr absl::Duration kStalledClientGrace = absl::Seconds(10);

// What a Generate call holds of the server's limits, and what the log will say
// of it.
struct GenerateTicket {
  explicit GenerateTicket(absl::Duration now) : record(now) {}

  StreamGate::Slot slot;
  TenantGate::Pass pass;
  RequestRecord record;
};

// One Generate call on the wire. The engine thread pushes events in, gRPC's
// threads carry them out with at most one write in flight.
//
// A client that reads more slowly than the engine computes has the engine pause
// its request (Full()); one that keeps it waiting for too long loses the call
// with RESOURCE_EXHAUSTED; see WriteQueue.
//
// Alive until both sides let go: the engine drops its shared_ptr after the last
// event, gRPC's share (`self_`) goes in OnDone().
class GenerateReactor final
    : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
      public TokenSink,
      public std::enable_shared_from_this<GenerateReactor> {
 public:
  // `context`, `stats` and `ids` outlive the call.
  static std::shared_ptr<GenerateReactor> Make(
      grpc::CallbackServerContext* context, CallStats* stats, IdOwners* ids,
      const WriteQueue::Limits& limits);

  // Keeps what the call holds until it is done. Once, before Submit() and
  // Refuse(); before another thread has this.
  void Hold(GenerateTicket ticket) ABSL_LOCKS_EXCLUDED(mu_);

  // Counts the prompt against the tenant's tokens; errors as of TenantGate.
  absl::Status TakePrompt(int64_t tokens) { return pass_.TakePrompt(tokens); }

  // Hands the call to the engine, which knows it as `engine_id`; the client
  // knows it by the request's id. The engine's refusal ends the call. At most
  // once, and not after Refuse(). `backend` outlives the call.
  void Submit(GenerationBackend* backend, GenerateCall call,
              std::string engine_id) ABSL_LOCKS_EXCLUDED(mu_);

  // Whether the call has ended, so that work for it is in vain.
  bool ended() const ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the call before it reached the engine; nothing if it has ended.
  void Refuse(const absl::Status& status, const std::string& request_id)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Any thread, never blocks. False: the client left or read too slowly, and
  // the engine should cancel the request.
  bool Push(TokenEvent event) override ABSL_LOCKS_EXCLUDED(mu_);
  bool Full() const override { return full_; }

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // What is to be done outside the lock; at most one of the first two.
  struct Action {
    std::optional<grpc::ByteBuffer> write;
    std::optional<grpc::Status> finish;
    GenerationBackend* wake = nullptr;
  };

  GenerateReactor(grpc::CallbackServerContext* context, CallStats* stats,
                  IdOwners* ids, const WriteQueue::Limits& limits);

  // Asks the engine to end this call's request, unless its id for it is
  // another's.
  void Cancel(GenerationBackend* backend, const std::string& engine_id,
              std::string_view reason) ABSL_LOCKS_EXCLUDED(mu_);

  void Queue(GenerateStream::Outgoing due, absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Looks after the client again in `delay`.
  void Watch(absl::Duration delay) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnWatch() ABSL_LOCKS_EXCLUDED(mu_);
  void GiveUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Action Next(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(Action action) ABSL_LOCKS_EXCLUDED(mu_);
  void AddTrailers(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Fixed after construction.
  grpc::CallbackServerContext* const context_;
  CallStats* const stats_;
  IdOwners* const ids_;
  const WriteQueue::Limits limits_;

  // gRPC's share; reset in OnDone(), the last reaction.
  std::shared_ptr<GenerateReactor> self_;
  CallMeter meter_;
  StreamGate::Slot slot_;
  TenantGate::Pass pass_;  // locks itself

  std::atomic<bool> full_{false};  // what the queue is, for the engine to read
  mutable absl::Mutex mu_;
  RequestRecord record_ ABSL_GUARDED_BY(mu_);
  std::optional<GenerateStream> stream_ ABSL_GUARDED_BY(mu_);
  std::string request_id_ ABSL_GUARDED_BY(mu_);
  std::string engine_id_ ABSL_GUARDED_BY(mu_);
  // While the engine has the request: to cancel it, and to tell of room.
  GenerationBackend* backend_ ABSL_GUARDED_BY(mu_) = nullptr;
  GenerationBackend* waker_ ABSL_GUARDED_BY(mu_) = nullptr;
  WriteQueue queue_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool given_up_ ABSL_GUARDED_BY(mu_) = false;   // on a slow reader
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;  // by the client's side
  bool finished_ ABSL_GUARDED_BY(mu_) = false;   // Finish() was called
  // How the call ends once what is queued has been written.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  // Set while the client keeps something waiting; another one each time, since
  // an alarm must not be set anew from its own function.
  std::unique_ptr<grpc::Alarm> watch_ ABSL_GUARDED_BY(mu_);
  // The message in flight; whoever starts the write owns it.
  grpc::ByteBuffer current_;
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_GENERATE_REACTOR_H_

#ifndef KVASIR_SERVER_GENERATE_REACTOR_H_
#define KVASIR_SERVER_GENERATE_REACTOR_H_

#include <cstdint>
#include <deque>
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

namespace kvasir {

// How long a client that has stopped reading may keep its last write open after
// the call was given up; then the call is reset without a word.
inline constexpr absl::Duration kStalledClientGrace = absl::Seconds(10);

// One Generate call on the wire. The engine thread pushes events in, gRPC's
// threads carry them out with at most one write in flight.
//
// Alive until both sides let go: the engine drops its shared_ptr after the last
// event, gRPC's share (`self_`) goes in OnDone().
class GenerateReactor final
    : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
      public TokenSink,
      public std::enable_shared_from_this<GenerateReactor> {
 public:
  struct Limits {
    // Messages that may wait for the client; one more ends the call with
    // RESOURCE_EXHAUSTED.
    int32_t stream_queue = 0;
  };

  // `context`, `stats` and `ids` outlive the call.
  static std::shared_ptr<GenerateReactor> Make(
      grpc::CallbackServerContext* context, CallStats* stats, IdOwners* ids,
      Limits limits);

  // Hands the call to the engine. Its refusal ends the call. At most once, and
  // not after Refuse(). `backend` outlives the call.
  void Submit(GenerationBackend* backend, GenerateCall call)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Whether the call has ended, so that work for it is in vain.
  bool ended() const ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the call before it reached the engine; nothing if it has ended.
  void Refuse(const absl::Status& status, const std::string& request_id)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Any thread, never blocks. False: the client left or reads too slowly, and
  // the engine should cancel the request.
  bool Push(TokenEvent event) override ABSL_LOCKS_EXCLUDED(mu_);

  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override;

 private:
  // What is to be done outside the lock; at most one of the two.
  struct Action {
    std::optional<v1::GenerateResponse> write;
    std::optional<grpc::Status> finish;
  };

  GenerateReactor(grpc::CallbackServerContext* context, CallStats* stats,
                  IdOwners* ids, Limits limits);

  // Asks the engine to end this call's request, unless the id is another's.
  void Cancel(GenerationBackend* backend, const std::string& id,
              std::string_view reason) ABSL_LOCKS_EXCLUDED(mu_);

  void GiveUp(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Action Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Perform(Action action) ABSL_LOCKS_EXCLUDED(mu_);
  void AddTrailers(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Fixed after construction.
  grpc::CallbackServerContext* const context_;
  IdOwners* const ids_;
  const Limits limits_;

  // gRPC's share; reset in OnDone(), the last reaction.
  std::shared_ptr<GenerateReactor> self_;
  CallMeter meter_;

  mutable absl::Mutex mu_;
  std::optional<GenerateStream> stream_ ABSL_GUARDED_BY(mu_);
  std::string request_id_ ABSL_GUARDED_BY(mu_);
  GenerationBackend* backend_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::deque<v1::GenerateResponse> queue_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;  // by the client's side
  bool finished_ ABSL_GUARDED_BY(mu_) = false;   // Finish() was called
  // How the call ends once what is queued has been written.
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  // The message in flight; whoever starts the write owns it.
  grpc::ByteBuffer current_;
  grpc::Alarm stalled_;  // set when the call is given up with a write open
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_GENERATE_REACTOR_H_

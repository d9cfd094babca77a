#ifndef KVASIR_SERVER_PROGRESS_REACTOR_H_
#define KVASIR_SERVER_PROGRESS_REACTOR_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

#include "server/admin_log.h"
#include "server/call_stats.h"

namespace kvasir {

// A call on the wire that tells how far a long operation is. The operation
// tells it more often than anybody wants to hear; the client gets the newest
// report when it has read the one before, and at most one in kReportInterval.
//
// Alive until both sides let go, as a GenerateReactor is.
class ProgressReactor final
    : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  static constexpr absl::Duration kReportInterval = absl::Milliseconds(200);

  // `context` and `stats` outlive the call.
  static std::shared_ptr<ProgressReactor> Make(
      grpc::CallbackServerContext* context, CallStats* stats,
      std::string_view method);

  // What an operator asks for, for the log. Before another thread has this.
  void Note(const google::protobuf::Message& request) {
    change_ = ChangeIn(request);
  }

  // Any thread, never blocks. `encode` is called only if a report is due. False
  // once the client has gone: the operation had better be called off.
  bool Report(absl::FunctionRef<grpc::ByteBuffer()> encode)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the call, after `last` if there is one. Nothing if it has ended.
  void End(const absl::Status& status,
           const google::protobuf::Message* last = nullptr)
      ABSL_LOCKS_EXCLUDED(mu_);

  // gRPC's threads.
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override ABSL_LOCKS_EXCLUDED(mu_);

 private:
  ProgressReactor(grpc::CallbackServerContext* context, CallStats* stats,
                  std::string_view method);

  void Go() ABSL_LOCKS_EXCLUDED(mu_);

  grpc::CallbackServerContext* const context_;
  std::string change_;                     // see Note()
  std::shared_ptr<ProgressReactor> self_;  // gRPC's share; goes in OnDone()
  CallMeter meter_;

  absl::Mutex mu_;
  std::optional<grpc::ByteBuffer> newest_ ABSL_GUARDED_BY(mu_);  // unsent
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  absl::Duration last_report_ ABSL_GUARDED_BY(mu_) = -absl::InfiniteDuration();
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ByteBuffer current_;  // in flight; whoever starts the write owns it
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_PROGRESS_REACTOR_H_

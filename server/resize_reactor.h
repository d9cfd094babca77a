#ifndef KVASIR_SERVER_RESIZE_REACTOR_H_
#define KVASIR_SERVER_RESIZE_REACTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

#include "engine/cache_resize.h"
#include "server/call_stats.h"
#include "server/generation_backend.h"

namespace kvasir {

// One ResizeCache call on the wire. The engine tells how far it is more often
// than anybody wants to hear; the client gets the newest report when it has
// read the one before, and at most one in kReportInterval.
//
// Alive until both sides let go, as a GenerateReactor is.
class ResizeReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                            public ResizeSink,
                            public std::enable_shared_from_this<ResizeReactor> {
 public:
  static constexpr absl::Duration kReportInterval = absl::Milliseconds(200);

  // `stats` outlives the call.
  static std::shared_ptr<ResizeReactor> Make(CallStats* stats);

  // Hands the order to the engine, or ends the call if that refuses it.
  // `on_resized` is told the new size in bytes, on the engine thread, unless it
  // was a dry run.
  void Start(GenerationBackend& backend, ResizeOrder order,
             std::function<void(int64_t)> on_resized);

  // Ends the call before it reached the engine.
  void Refuse(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  // Engine thread.
  bool OnProgress(const ResizeReport& report) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnEnd(const absl::Status& status, const ResizeReport& report) override
      ABSL_LOCKS_EXCLUDED(mu_);

  // gRPC's threads.
  void OnWriteDone(bool ok) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnCancel() override ABSL_LOCKS_EXCLUDED(mu_);
  void OnDone() override;

 private:
  explicit ResizeReactor(CallStats* stats);

  void Go() ABSL_LOCKS_EXCLUDED(mu_);

  std::shared_ptr<ResizeReactor> self_;  // gRPC's share; goes in OnDone()
  CallMeter meter_;
  std::function<void(int64_t)> on_resized_;  // fixed by Start()

  absl::Mutex mu_;
  std::optional<ResizeReport> newest_ ABSL_GUARDED_BY(mu_);  // unsent
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  int64_t start_blocks_ ABSL_GUARDED_BY(mu_) = -1;
  absl::Duration last_report_ ABSL_GUARDED_BY(mu_) = -absl::InfiniteDuration();
  bool dry_run_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  grpc::ByteBuffer current_;  // in flight; whoever starts the write owns it
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_RESIZE_REACTOR_H_

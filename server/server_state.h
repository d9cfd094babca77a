#ifndef KVASIR_SERVER_SERVER_STATE_H_
#define KVASIR_SERVER_SERVER_STATE_H_

#include <atomic>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

#include "cache/base/status_macros.h"
#include "server/generation_backend.h"

namespace kvasir {

enum class ServerPhase : uint8_t { kLoading, kServing, kDraining };

// What every call asks first: is there a model, and are new requests welcome?
// Moves loading -> serving -> draining, or loading -> draining; never back.
//
// One of the server's objects that cross threads: it consists of atomics, each
// of which is meaningful alone. Any thread. Outlives the gRPC server; so does
// the backend.
class ServerState {
 public:
  // `max_message_bytes`: of one message that a client sends.
  explicit ServerState(
      int64_t max_message_bytes = std::numeric_limits<int64_t>::max());

  // The model is there. Not after BeginDrain().
  void Serve(GenerationBackend* backend);
  void BeginDrain();

  // Whether a token could be made now; kept by Health.
  void SetHealthy(bool healthy) { healthy_ = healthy; }
  bool healthy() const { return healthy_; }

  // Not ready for traffic although requests are served, before the cache is
  // warm.
  void HoldReady() { held_ = true; }
  void ReleaseReady() { held_ = false; }
  // Nor when it is about to drain, and gives others time to look elsewhere.
  void Leave() { leaving_ = true; }
  bool leaving() const { return leaving_; }
  bool ready_held() const { return held_ || leaving_; }

  void SetLoadProgress(int64_t done_bytes, int64_t total_bytes);
  int64_t load_done_bytes() const { return load_done_bytes_; }
  int64_t load_total_bytes() const { return load_total_bytes_; }

  // The configuration was read again, and taken over or not.
  void CountReload(bool taken, absl::Time now);
  int64_t reloads_ok() const { return reloads_ok_; }
  int64_t reloads_failed() const { return reloads_failed_; }
  // Of the last that was taken over, at first the start.
  int64_t last_reload_unix_seconds() const { return last_reload_seconds_; }

  ServerPhase phase() const { return phase_; }
  absl::Time start_time() const { return start_time_; }

  // The engine, also while draining; null while loading.
  GenerationBackend* backend() const { return backend_; }

  // The same for a call that needs it: UNAVAILABLE while loading, with how far
  // the loading has come.
  absl::StatusOr<GenerationBackend*> Loaded() const;

  // The same for new work: UNAVAILABLE while draining, too.
  absl::StatusOr<GenerationBackend*> Accepting() const;

  // Fills in `request` from what a client sent. RESOURCE_EXHAUSTED, with the
  // option's name, for one that is too large; else errors as of
  // kvasir::ParseInto().
  absl::Status ParseInto(const grpc::ByteBuffer& wire,
                         google::protobuf::Message& request) const;
  template <typename Request>
  absl::StatusOr<Request> Parse(const grpc::ByteBuffer& wire) const {
    Request request;
    RETURN_IF_ERROR(ParseInto(wire, request));
    return request;
  }

 private:
  const absl::Time start_time_;
  const int64_t max_message_bytes_;
  std::atomic<GenerationBackend*> backend_{nullptr};
  std::atomic<ServerPhase> phase_{ServerPhase::kLoading};
  std::atomic<bool> healthy_{false};
  std::atomic<bool> held_{false};
  std::atomic<bool> leaving_{false};
  std::atomic<int64_t> reloads_ok_{0};
  std::atomic<int64_t> reloads_failed_{0};
  std::atomic<int64_t> last_reload_seconds_;
  std::atomic<int64_t> load_done_bytes_{0};
  std::atomic<int64_t> load_total_bytes_{0};
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_SERVER_STATE_H_

#include "server/server_state.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "cache/base/status_macros.h"
#include "server/request_parse.h"
#include "server/status_reason.h"

namespace kvasir {
namespace {

// A replacement needs about this long to be ready.
constexpr absl::Duration kDrainRetry = absl::Seconds(5);

}  // namespace

ServerState::ServerState(int64_t max_message_bytes)
    : start_time_(absl::Now()),
      max_message_bytes_(max_message_bytes),
      last_reload_seconds_(absl::ToUnixSeconds(start_time_)) {}

void ServerState::Serve(GenerationBackend* backend) {
  backend_ = backend;
  ServerPhase expected = ServerPhase::kLoading;
  phase_.compare_exchange_strong(expected, ServerPhase::kServing);
}

void ServerState::BeginDrain() { phase_ = ServerPhase::kDraining; }

void ServerState::CountReload(bool taken, absl::Time now) {
  ++(taken ? reloads_ok_ : reloads_failed_);
  if (taken) last_reload_seconds_ = absl::ToUnixSeconds(now);
}

void ServerState::SetLoadProgress(int64_t done_bytes, int64_t total_bytes) {
  load_done_bytes_ = done_bytes;
  load_total_bytes_ = total_bytes;
}

absl::StatusOr<GenerationBackend*> ServerState::Loaded() const {
  if (GenerationBackend* backend = backend_; backend != nullptr) return backend;
  const int64_t total = load_total_bytes_;
  const int64_t percent = total > 0 ? 100 * load_done_bytes_ / total : 0;
  return WithReason(absl::UnavailableError(absl::StrCat(
                        "the model is loading, ", percent, "% done")),
                    kReasonLoading);
}

absl::StatusOr<GenerationBackend*> ServerState::Accepting() const {
  if (phase_ != ServerPhase::kDraining) return Loaded();
  return WithRetry(
      WithReason(absl::UnavailableError(
                     "the server is draining and takes no new requests"),
                 kReasonDraining),
      kDrainRetry);
}

absl::Status ServerState::ParseInto(const grpc::ByteBuffer& wire,
                                    google::protobuf::Message& request) const {
  const auto bytes =
      wire.Valid() ? static_cast<int64_t>(wire.Length()) : int64_t{0};
  if (bytes <= max_message_bytes_) return kvasir::ParseInto(wire, request);
  return WithLimit(
      WithReason(absl::ResourceExhaustedError(absl::StrCat(
                     "wanted a message of at most ", max_message_bytes_,
                     " bytes (server.max_message), found ", bytes)),
                 kReasonMessageTooLarge),
      {.name = "server.max_message",
       .subject = "server",
       .metric = "bytes",
       .value = max_message_bytes_});
}

}  // namespace kvasir

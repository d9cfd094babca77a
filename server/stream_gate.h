#ifndef KVASIR_SERVER_STREAM_GATE_H_
#define KVASIR_SERVER_STREAM_GATE_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "server/status_reason.h"

namespace kvasir {

// Counts the Generate calls that are open and refuses those that are too many,
// before anything is done for them. Any thread; one of the server's objects
// that cross threads: it is one atomic.
class StreamGate {
 public:
  // One open call; counts until it is destroyed or Leave()s. The gate outlives
  // it.
  class Slot {
   public:
    Slot() = default;
    Slot(Slot&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Slot& operator=(Slot&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~Slot() { Leave(); }
    void Leave() {
      if (gate_ != nullptr) --std::exchange(gate_, nullptr)->open_;
    }

   private:
    friend class StreamGate;
    explicit Slot(StreamGate* gate) : gate_(gate) {}
    StreamGate* gate_ = nullptr;
  };

  explicit StreamGate(int64_t limit) : limit_(limit) {}

  // RESOURCE_EXHAUSTED, with advice to try again, if `limit` calls are open.
  absl::StatusOr<Slot> Enter() {
    const int64_t before = open_++;
    if (before < limit_) return Slot(this);
    --open_;
    absl::Status status = WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "wanted at most ", limit_, " Generate calls at a time, found ",
            before, " (server.max_streams)")),
        kReasonTooManyStreams);
    status = WithLimit(std::move(status), {.name = "server.max_streams",
                                           .subject = "server",
                                           .metric = "streams",
                                           .value = limit_});
    return WithRetry(std::move(status), absl::Seconds(1));
  }

  int64_t open() const { return open_; }

 private:
  const int64_t limit_;
  std::atomic<int64_t> open_{0};
};

}  // namespace kvasir

#endif  // KVASIR_SERVER_STREAM_GATE_H_

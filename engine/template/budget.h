#ifndef KVASIR_ENGINE_TEMPLATE_BUDGET_H_
#define KVASIR_ENGINE_TEMPLATE_BUDGET_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

#include "engine/template/limits.h"

namespace kvasir::jinja {

// What one rendering may still use. Everything that costs time or memory in
// proportion to a template's or a client's wishes asks here first. One thread.
class Budget {
 public:
  // For a rendering over a context of so many bytes.
  explicit Budget(size_t context_bytes)
      : max_produced_(kMaxProducedBytes +
                      context_bytes * kProducedPerContextByte) {}

  // RESOURCE_EXHAUSTED once more than kMaxSteps are taken.
  absl::Status Step(size_t count = 1) {
    if (count > kMaxSteps) count = kMaxSteps + 1;
    return Scan(count * kBytesPerStep);
  }

  // Before `bytes` are looked through. Small ones add up as well.
  absl::Status Scan(size_t bytes) {
    if (bytes > kMaxScanned - scanned_) {
      scanned_ = kMaxScanned;
      return TooManySteps();
    }
    scanned_ += bytes;
    return absl::OkStatus();
  }

  // Before values of `bytes` are made. RESOURCE_EXHAUSTED if that is too much
  // for the rendering; `bytes` may be anything.
  absl::Status Produce(size_t bytes) {
    if (bytes > max_produced_ - produced_) return TooManyBytes();
    produced_ += bytes;
    return Scan(bytes);
  }

  size_t steps() const { return scanned_ / kBytesPerStep; }

 private:
  static constexpr size_t kMaxScanned = kMaxSteps * kBytesPerStep;

  static absl::Status TooManySteps();
  absl::Status TooManyBytes() const;

  size_t max_produced_;
  size_t produced_ = 0;  // at most max_produced_
  size_t scanned_ = 0;   // steps in bytes, at most kMaxScanned
};

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_BUDGET_H_

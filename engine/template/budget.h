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
  absl::Status Step(int64_t count = 1) {
    steps_ += count;
    return steps_ <= kMaxSteps ? absl::OkStatus() : TooManySteps();
  }

  // Before `bytes` are looked through.
  absl::Status Scan(size_t bytes) {
    return Step(static_cast<int64_t>(bytes / kBytesPerStep));
  }

  // Before values of `bytes` are made. RESOURCE_EXHAUSTED if that is too much
  // for the rendering; `bytes` may be anything.
  absl::Status Produce(size_t bytes) {
    if (bytes > max_produced_ - produced_) return TooManyBytes();
    produced_ += bytes;
    return Scan(bytes);
  }

  int64_t steps() const { return steps_; }

 private:
  static absl::Status TooManySteps();
  absl::Status TooManyBytes() const;

  size_t max_produced_;
  size_t produced_ = 0;  // at most max_produced_
  int64_t steps_ = 0;
};

}  // namespace kvasir::jinja

#endif  // KVASIR_ENGINE_TEMPLATE_BUDGET_H_

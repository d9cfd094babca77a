#ifndef KVASIR_TESTS_SUPPORT_RECORDING_WARM_H_
#define KVASIR_TESTS_SUPPORT_RECORDING_WARM_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

#include "engine/warm_order.h"

namespace kvasir {

// Whoever wants a warm-up: keeps what it is told, and complains if told twice.
class RecordingWarm final : public WarmSink {
 public:
  bool OnProgress(const WarmReport& report) override {
    EXPECT_FALSE(status.has_value()) << "progress after the end";
    EXPECT_GE(report.computed_tokens, last.computed_tokens);
    last = report;
    ++reports;
    return reports != call_off_after;
  }

  void OnEnd(const absl::Status& end,
             absl::Span<const WarmedPrefix> results) override {
    EXPECT_FALSE(status.has_value()) << "told twice";
    status = end;
    prefixes.assign(results.begin(), results.end());
    done_.Notify();
  }

  // For engines that run on their own thread.
  void WaitUntilEnded() { done_.WaitForNotification(); }

  bool ok() const { return status.has_value() && status->ok(); }
  absl::StatusCode code() const {
    return status.has_value() ? status->code() : absl::StatusCode::kUnknown;
  }

  std::optional<absl::Status> status;
  std::vector<WarmedPrefix> prefixes;
  WarmReport last;
  int reports = 0;
  int call_off_after = -1;

 private:
  absl::Notification done_;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_RECORDING_WARM_H_

#ifndef KVASIR_TESTS_SUPPORT_RECORDING_SINK_H_
#define KVASIR_TESTS_SUPPORT_RECORDING_SINK_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

#include "engine/token_sink.h"

namespace kvasir {

// A client that keeps all it gets and complains about events out of order. Read
// it from the engine's thread, or after WaitUntilFinished().
class RecordingSink final : public TokenSink {
 public:
  bool Push(TokenEvent event) override {
    EXPECT_FALSE(finished.has_value()) << "an event after the last one";
    if (auto* accept = std::get_if<AcceptedEvent>(&event)) {
      EXPECT_FALSE(accepted.has_value()) << "accepted twice";
      EXPECT_TRUE(ids.empty()) << "accepted after a token";
      accepted = *accept;
    } else if (auto* delta = std::get_if<DeltaEvent>(&event)) {
      EXPECT_TRUE(accepted.has_value()) << "a token before it was accepted";
      ids.insert(ids.end(), delta->token_ids.begin(), delta->token_ids.end());
      text += delta->text;
      ++deltas;
    } else {
      finished = std::get<FinishedEvent>(std::move(event));
      text += finished->tail_text;
      done_.Notify();
    }
    return deltas < reads;
  }

  bool Full() const override { return full; }

  // For engines that run on their own thread.
  void WaitUntilFinished() { done_.WaitForNotification(); }

  bool ok() const { return finished.has_value() && finished->status.ok(); }
  absl::StatusCode code() const {
    return finished.has_value() ? finished->status.code()
                                : absl::StatusCode::kUnknown;
  }

  // The client stops reading after so many deltas.
  int64_t reads = std::numeric_limits<int64_t>::max();

  // The client is behind.
  std::atomic<bool> full = false;

  std::optional<AcceptedEvent> accepted;
  std::optional<FinishedEvent> finished;
  std::vector<TokenId> ids;
  std::string text;  // deltas and tail, joined
  int64_t deltas = 0;

 private:
  absl::Notification done_;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_RECORDING_SINK_H_

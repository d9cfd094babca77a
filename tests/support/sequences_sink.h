#ifndef KVASIR_TESTS_SUPPORT_SEQUENCES_SINK_H_
#define KVASIR_TESTS_SUPPORT_SEQUENCES_SINK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "engine/token_sink.h"

namespace kvasir {

// A client of a request with several sequences, or one that wants more than
// tokens: keeps all it gets and complains about events out of order. Engine
// thread only.
class SequencesSink final : public TokenSink {
 public:
  bool Push(TokenEvent event) override {
    EXPECT_TRUE(failure.ok()) << "an event after the last one";
    if (auto* accept = std::get_if<AcceptedEvent>(&event)) {
      EXPECT_FALSE(accepted.has_value()) << "accepted twice";
      EXPECT_TRUE(ids.empty() && scores.empty() && progress.empty());
      accepted = *accept;
    } else if (auto* done = std::get_if<ProgressEvent>(&event)) {
      progress.push_back(*done);
    } else if (auto* chunk = std::get_if<PromptLogprobsEvent>(&event)) {
      for (PositionLogprobs& position : chunk->positions) {
        scores.push_back(std::move(position));
      }
    } else if (auto* delta = std::get_if<DeltaEvent>(&event)) {
      EXPECT_TRUE(accepted.has_value());
      EXPECT_EQ(finished.count(delta->index), 0u) << "a token after the end";
      auto& mine = ids[delta->index];
      mine.insert(mine.end(), delta->token_ids.begin(), delta->token_ids.end());
      text[delta->index] += delta->text;
      for (PositionLogprobs& position : delta->logprobs) {
        logprobs[delta->index].push_back(std::move(position));
      }
    } else {
      auto& end = std::get<FinishedEvent>(event);
      failure = end.status;
      if (!failure.ok()) return true;
      text[end.index] += end.tail_text;
      EXPECT_TRUE(finished.emplace(end.index, end).second) << "two ends";
    }
    return true;
  }

  std::optional<AcceptedEvent> accepted;
  std::vector<ProgressEvent> progress;
  std::vector<PositionLogprobs> scores;
  // By sequence.
  std::map<int32_t, std::vector<TokenId>> ids;
  std::map<int32_t, std::string> text;
  std::map<int32_t, std::vector<PositionLogprobs>> logprobs;
  std::map<int32_t, FinishedEvent> finished;
  absl::Status failure;
};

}  // namespace kvasir

#endif  // KVASIR_TESTS_SUPPORT_SEQUENCES_SINK_H_

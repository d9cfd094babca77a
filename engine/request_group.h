#ifndef KVASIR_ENGINE_REQUEST_GROUP_H_
#define KVASIR_ENGINE_REQUEST_GROUP_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/stop_matcher.h"
#include "engine/submission.h"

namespace kvasir {

class Sequence;

// Tokens that would end a sequence of the request before its min_tokens; none
// if it has no such bound.
std::vector<TokenId> EndersOf(const Request& request);

// What the sequences of one request have in common. The first of them, the one
// of index 0, computes the prompt; the others take its blocks over.
//
// Shared by the sequences; engine thread only.
struct RequestGroup {
  explicit RequestGroup(Submission arrived)
      : submission(std::move(arrived)),
        enders(EndersOf(request())),
        open_sequences(submission.request.sequence_count) {}

  const Request& request() const { return submission.request; }

  const Submission submission;
  const std::vector<TokenId> enders;    // what min_tokens withholds
  std::optional<StopTexts> stop_texts;  // once a sequence has begun
  int32_t open_sequences;               // that have not ended
  bool accepted = false;                // the client was told that it begins
  bool failed = false;        // the client was told that all of it has failed
  int64_t cached_tokens = 0;  // of the prompt, found for the first sequence
  int64_t completion_tokens = 0;    // of the sequences that have ended
  const Sequence* first = nullptr;  // while it has not ended
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_REQUEST_GROUP_H_

#ifndef KVASIR_ENGINE_STOP_MATCHER_H_
#define KVASIR_ENGINE_STOP_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace kvasir {

// INVALID_ARGUMENT naming `stopping.strings` or the one that is wrong: at most
// kMaxStopStrings, each of 1 to kMaxStopBytes bytes of UTF-8 (request.h).
absl::Status CheckStopStrings(absl::Span<const std::string> stops);

// Stop strings and what finding them needs, made once for all sequences of a
// request. Immutable. Memory is three times that of the strings.
class StopTexts {
 public:
  // The strings are the caller's and outlive this. They have passed
  // CheckStopStrings(); none is allowed.
  explicit StopTexts(absl::Span<const std::string> texts);

  size_t size() const { return texts_.size(); }
  std::string_view text(size_t index) const { return texts_[index].bytes; }
  // The longest proper end of the first `length` bytes of a text that is also
  // its beginning.
  size_t Shorter(size_t index, size_t length) const {
    return texts_[index].shorter[length];
  }
  // How much of a text the bytes read so far end with, once `next` has followed
  // bytes that end with `matched` of it.
  size_t Advance(size_t index, size_t matched, char next) const;

 private:
  struct Text {
    std::string_view bytes;
    std::vector<uint16_t> shorter;  // by length
  };
  std::vector<Text> texts_;
};

// Finds stop strings in a text that comes in pieces, and says what of it may be
// sent, so that nothing of a match is sent before it is one.
//
// The result is that of reading byte by byte, however the text is cut: the
// match that ends first wins, of those the longest. The text ends right before
// it, or right after it with `include_stop`; what follows is never sent. Text
// that begins a stop is held back, and so is a character that is cut, which
// makes each text that is sent whole UTF-8 if the whole is.
//
// One sequence's; not thread-safe. Time is linear in the text for each stop
// (Knuth, Morris and Pratt, 1977), memory in their number and what is held
// back.
class StopMatcher {
 public:
  // The stops are the caller's and outlive this.
  StopMatcher(const StopTexts* stops, bool include_stop);

  struct Step {
    std::string text;               // that may be sent now
    std::optional<size_t> matched;  // index of the stop that ends the text
  };
  // The text goes on with `text`. Without `may_stop`, for a generation that may
  // not end yet, a match that these bytes complete is passed over: it is text
  // like any other. After a match there is no more to push.
  Step Push(std::string_view text, bool may_stop);

  // The text has ended: what is held back. Empty after a match.
  std::string Finish();

 private:
  // The stop that the last byte has completed.
  std::optional<size_t> Completed() const;
  size_t HeldBytes() const;

  const StopTexts* const stops_;
  const bool include_stop_;
  std::vector<uint16_t> matched_;  // of each stop, by the text so far
  std::string held_;               // the end of the text so far, not sent
  bool ended_ = false;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_STOP_MATCHER_H_

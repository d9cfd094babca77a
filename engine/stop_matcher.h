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

inline constexpr size_t kMaxStopStrings = 64;
inline constexpr size_t kMaxStopBytes = 1024;  // of each

// INVALID_ARGUMENT naming `stopping.strings` or the one that is wrong: at most
// kMaxStopStrings, each of 1 to kMaxStopBytes bytes of UTF-8.
absl::Status CheckStopStrings(absl::Span<const std::string> stops);

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
// (Knuth, Morris and Pratt, 1977), memory in the length of the stops.
class StopMatcher {
 public:
  // Stops have passed CheckStopStrings(); none is allowed.
  StopMatcher(std::vector<std::string> stops, bool include_stop);

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

  const std::string& stop(size_t index) const { return stops_[index].text; }

 private:
  struct Stop {
    std::string text;
    // By length of a matched beginning: the longest proper end of it that is a
    // beginning, too.
    std::vector<uint32_t> shorter;
    uint32_t matched = 0;  // longest end of the text so far that begins it
  };

  static Stop MakeStop(std::string text);
  static void Advance(Stop& stop, char next);
  // The stop that the last byte has completed.
  std::optional<size_t> Completed() const;
  size_t HeldBytes() const;

  const bool include_stop_;
  std::vector<Stop> stops_;
  std::string held_;  // the end of the text so far, not sent
  bool ended_ = false;
};

}  // namespace kvasir

#endif  // KVASIR_ENGINE_STOP_MATCHER_H_

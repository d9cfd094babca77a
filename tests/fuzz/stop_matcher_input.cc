#include "tests/fuzz/stop_matcher_input.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

#include "cache/base/check.h"
#include "engine/model/utf8.h"
#include "engine/stop_matcher.h"
#include "tests/support/naive_stop.h"

namespace kvasir {
namespace {

// Long enough for every overlap, and short enough for a twin that compares
// everything with everything.
constexpr size_t kMostBytes = 512;
constexpr uint8_t kEndOfPart = 0xFF;
constexpr uint8_t kIncludeStop = 1;
constexpr uint8_t kStopCount = 6;  // the flags' bits 1 and 2, as a factor of 2
constexpr uint8_t kMayStopShift = 3;

// Takes the bytes up to the next end of a part away from `bytes`.
std::string_view TakePart(absl::Span<const uint8_t>& bytes) {
  const auto end = std::find(bytes.begin(), bytes.end(), kEndOfPart);
  const auto size = static_cast<size_t>(end - bytes.begin());
  const std::string_view part(reinterpret_cast<const char*>(bytes.data()),
                              size);
  bytes.remove_prefix(std::min(bytes.size(), size + 1));
  return part;
}

}  // namespace

size_t RunStopMatcherInput(absl::Span<const uint8_t> bytes) {
  if (bytes.empty()) return 0;
  const uint8_t flags = bytes[0];
  bytes = bytes.subspan(1, kMostBytes);
  std::vector<std::string> stops;
  for (int i = (flags & kStopCount) / 2 + 1; i > 0; --i) {
    const std::string stop(TakePart(bytes));
    if (CheckStopStrings({&stop, 1}).ok()) stops.push_back(stop);
  }
  const bool include_stop = (flags & kIncludeStop) != 0;
  // The first pieces come before a stop may end the text.
  int early = flags >> kMayStopShift & 7;
  std::vector<StopPiece> pieces;
  while (!bytes.empty()) {
    pieces.push_back({TakePart(bytes), early <= 0});
    --early;
  }
  const NaiveStop want = StopNaively(stops, include_stop, pieces);

  const StopTexts texts(stops);
  StopMatcher matcher(&texts, include_stop);
  std::string sent, seen;
  std::optional<size_t> matched;
  for (const StopPiece& piece : pieces) {
    const StopMatcher::Step step = matcher.Push(piece.text, piece.may_stop);
    sent += step.text;
    seen += piece.text;
    matched = step.matched;
    if (matched.has_value()) break;
    KV_CHECK(seen.size() - sent.size() ==
             HeldNaively(stops, include_stop, seen));
    // Cut where no character of a well-formed text is cut.
    KV_CHECK(WellFormedBytes(seen) < seen.size() ||
             WellFormedBytes(sent) == sent.size());
  }
  sent += matcher.Finish();
  KV_CHECK(matched == want.matched && sent == want.text);
  return sent.size();
}

}  // namespace kvasir

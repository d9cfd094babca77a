#include "engine/stop_matcher.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "engine/model/utf8.h"

namespace kvasir {
namespace {

// Bytes at the end of `text` that begin a character and do not finish it.
size_t UnfinishedBytes(std::string_view text) {
  constexpr size_t kMostUnfinished = 3;
  for (size_t bytes = 1; bytes <= std::min(text.size(), kMostUnfinished);
       ++bytes) {
    const Utf8Start start = ReadUtf8(text.substr(text.size() - bytes));
    if (start.kind == Utf8Start::Kind::kUnfinished) return bytes;
  }
  return 0;
}

}  // namespace

absl::Status CheckStopStrings(absl::Span<const std::string> stops) {
  if (stops.size() > kMaxStopStrings) {
    return absl::InvalidArgumentError(
        absl::StrCat("stopping.strings: wanted at most ", kMaxStopStrings,
                     " texts, found ", stops.size()));
  }
  for (size_t i = 0; i < stops.size(); ++i) {
    const size_t bytes = stops[i].size();
    if (bytes < 1 || bytes > kMaxStopBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("stopping.strings[", i, "]: wanted 1 to ", kMaxStopBytes,
                       " bytes, found ", bytes));
    }
    const size_t well_formed = WellFormedBytes(stops[i]);
    if (well_formed < bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("stopping.strings[", i,
                       "]: wanted UTF-8, found none at byte ", well_formed));
    }
  }
  return absl::OkStatus();
}

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : include_stop_(include_stop) {
  for (std::string& stop : stops) stops_.push_back(MakeStop(std::move(stop)));
}

StopMatcher::Stop StopMatcher::MakeStop(std::string text) {
  KV_CHECK(!text.empty());
  Stop stop = {.text = std::move(text), .shorter = {0, 0}};
  for (size_t length = 2; length <= stop.text.size(); ++length) {
    stop.matched = stop.shorter.back();
    Advance(stop, stop.text[length - 1]);
    stop.shorter.push_back(stop.matched);
  }
  stop.matched = 0;
  return stop;
}

void StopMatcher::Advance(Stop& stop, char next) {
  if (stop.matched == stop.text.size()) stop.matched = stop.shorter.back();
  while (stop.matched > 0 && stop.text[stop.matched] != next) {
    stop.matched = stop.shorter[stop.matched];
  }
  if (stop.text[stop.matched] == next) ++stop.matched;
}

std::optional<size_t> StopMatcher::Completed() const {
  std::optional<size_t> longest;
  for (size_t i = 0; i < stops_.size(); ++i) {
    const Stop& stop = stops_[i];
    if (stop.matched < stop.text.size()) continue;
    if (!longest.has_value() || stop.matched > stops_[*longest].text.size()) {
      longest = i;
    }
  }
  return longest;
}

size_t StopMatcher::HeldBytes() const {
  size_t held = UnfinishedBytes(held_);
  if (include_stop_) return held;  // all of a match is sent
  for (const Stop& stop : stops_) {
    const bool whole = stop.matched == stop.text.size();  // and passed over
    held = std::max<size_t>(held, whole ? stop.shorter.back() : stop.matched);
  }
  return held;
}

StopMatcher::Step StopMatcher::Push(std::string_view text, bool may_stop) {
  KV_CHECK(!ended_) << "the text has ended";
  for (const char next : text) {
    held_.push_back(next);
    for (Stop& stop : stops_) Advance(stop, next);
    if (!may_stop) continue;
    const std::optional<size_t> matched = Completed();
    if (!matched.has_value()) continue;
    ended_ = true;
    if (!include_stop_) {
      held_.resize(held_.size() - stops_[*matched].text.size());
    }
    return {std::exchange(held_, {}), matched};
  }
  const size_t sent = held_.size() - HeldBytes();
  Step step = {held_.substr(0, sent), std::nullopt};
  held_.erase(0, sent);
  return step;
}

std::string StopMatcher::Finish() {
  ended_ = true;
  return std::exchange(held_, {});
}

}  // namespace kvasir

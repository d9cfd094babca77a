#include "engine/stop_matcher.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "cache/base/check.h"
#include "engine/model/utf8.h"
#include "engine/request.h"

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

StopTexts::StopTexts(absl::Span<const std::string> texts) {
  static_assert(kMaxStopBytes <= std::numeric_limits<uint16_t>::max());
  for (const std::string& bytes : texts) {
    KV_CHECK(!bytes.empty() && bytes.size() <= kMaxStopBytes);
    texts_.push_back({.bytes = bytes, .shorter = {0, 0}});
    std::vector<uint16_t>& shorter = texts_.back().shorter;
    shorter.reserve(bytes.size() + 1);
    for (size_t length = 2; length <= bytes.size(); ++length) {
      shorter.push_back(static_cast<uint16_t>(
          Advance(texts_.size() - 1, shorter.back(), bytes[length - 1])));
    }
  }
}

size_t StopTexts::Advance(size_t index, size_t matched, char next) const {
  const Text& text = texts_[index];
  if (matched == text.bytes.size()) matched = text.shorter.back();
  while (matched > 0 && text.bytes[matched] != next) {
    matched = text.shorter[matched];
  }
  return matched + (text.bytes[matched] == next ? 1 : 0);
}

StopMatcher::StopMatcher(const StopTexts* stops, bool include_stop)
    : stops_(stops), include_stop_(include_stop), matched_(stops->size(), 0) {}

std::optional<size_t> StopMatcher::Completed() const {
  std::optional<size_t> longest;
  for (size_t i = 0; i < matched_.size(); ++i) {
    if (matched_[i] < stops_->text(i).size()) continue;
    if (!longest.has_value() || matched_[i] > stops_->text(*longest).size()) {
      longest = i;
    }
  }
  return longest;
}

size_t StopMatcher::HeldBytes() const {
  size_t held = UnfinishedBytes(held_);
  if (include_stop_) return held;  // all of a match is sent
  for (size_t i = 0; i < matched_.size(); ++i) {
    const size_t matched = matched_[i];
    const bool whole = matched == stops_->text(i).size();  // and passed over
    held = std::max(held, whole ? stops_->Shorter(i, matched) : matched);
  }
  return held;
}

StopMatcher::Step StopMatcher::Push(std::string_view text, bool may_stop) {
  KV_CHECK(!ended_) << "the text has ended";
  for (const char next : text) {
    held_.push_back(next);
    for (size_t i = 0; i < matched_.size(); ++i) {
      matched_[i] =
          static_cast<uint16_t>(stops_->Advance(i, matched_[i], next));
    }
    if (!may_stop) continue;
    const std::optional<size_t> matched = Completed();
    if (!matched.has_value()) continue;
    ended_ = true;
    if (!include_stop_) {
      held_.resize(held_.size() - stops_->text(*matched).size());
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

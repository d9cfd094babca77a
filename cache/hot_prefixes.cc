#include "cache/hot_prefixes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cache/base/check.h"

namespace kvasir {

HotPrefixes::HotPrefixes(const Limits& limits) : limits_(limits) {
  KV_CHECK(limits.max_prefixes > 0 && limits.age_hits > 0 &&
           limits.max_tokens >= kMaxPrefixTokens)
      << limits.max_prefixes << " prefixes, " << limits.max_tokens << " tokens";
}

void HotPrefixes::Count(const BlockKey& key, absl::Span<const TokenId> tokens,
                        std::string_view salt) {
  const int64_t length = static_cast<int64_t>(tokens.size());
  KV_CHECK(length > 0 && length <= kMaxPrefixTokens) << length;
  if (++hits_ > limits_.age_hits) Age();
  if (const auto it = places_.find(key); it != places_.end()) {
    ++counts_[it->second];
    return;
  }
  MakeRoom(length);
  places_.emplace(key, entries_.size());
  counts_.push_back(floor_ + 1);
  entries_.push_back({.key = key,
                      .tokens = {tokens.begin(), tokens.end()},
                      .salt = std::string(salt),
                      .inherited = floor_});
  token_count_ += length;
}

void HotPrefixes::TakeBack(const BlockKey& key) {
  const auto it = places_.find(key);
  // Forgotten since, or its hits have been halved away.
  if (it == places_.end()) return;
  const size_t place = it->second;
  int64_t& count = counts_[place];
  count = std::max(count - 1, entries_[place].inherited);
  if (count == entries_[place].inherited) Remove(place);
}

std::vector<HotPrefix> HotPrefixes::Top(size_t count) const {
  const auto own = [this](size_t place) {
    return counts_[place] - entries_[place].inherited;
  };
  std::vector<size_t> order(entries_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t taken = std::min(count, order.size());
  std::partial_sort(order.begin(),
                    order.begin() + static_cast<std::ptrdiff_t>(taken),
                    order.end(), [&](size_t a, size_t b) {
                      // By key among equals, so that the same hits give the
                      // same answer.
                      if (own(a) != own(b)) return own(a) > own(b);
                      return entries_[a].key < entries_[b].key;
                    });
  std::vector<HotPrefix> top;
  top.reserve(taken);
  for (size_t i = 0; i < taken; ++i) {
    const Entry& entry = entries_[order[i]];
    top.push_back({entry.key, entry.tokens, entry.salt, own(order[i])});
  }
  return top;
}

void HotPrefixes::Forget(absl::FunctionRef<bool(const std::string&)> of_salt) {
  for (size_t place = entries_.size(); place-- > 0;) {
    if (of_salt(entries_[place].salt)) Remove(place);
  }
}

void HotPrefixes::MakeRoom(int64_t tokens) {
  while (entries_.size() >= limits_.max_prefixes ||
         token_count_ + tokens > limits_.max_tokens) {
    const auto least = std::min_element(counts_.begin(), counts_.end());
    floor_ = std::max(floor_, *least);
    Remove(static_cast<size_t>(least - counts_.begin()));
  }
}

void HotPrefixes::Remove(size_t place) {
  token_count_ -= static_cast<int64_t>(entries_[place].tokens.size());
  places_.erase(entries_[place].key);
  const size_t last = entries_.size() - 1;
  if (place != last) {
    entries_[place] = std::move(entries_[last]);
    counts_[place] = counts_[last];
    places_[entries_[place].key] = place;
  }
  entries_.pop_back();
  counts_.pop_back();
}

void HotPrefixes::Age() {
  hits_ = 0;
  floor_ /= 2;
  for (size_t i = 0; i < entries_.size(); ++i) {
    // The own part is halved upwards: what is remembered has been asked for.
    const int64_t own = (counts_[i] - entries_[i].inherited + 1) / 2;
    entries_[i].inherited /= 2;
    counts_[i] = entries_[i].inherited + own;
  }
}

}  // namespace kvasir
